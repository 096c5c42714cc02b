"""Requests of administrators to set a group back or forward, and to see where each of its members stands."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.core.broker.client_registry import RegisteredClient
from rocketmq_py.errors import BadHeader, BrokerError, NetworkError
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.group import ConsumerStatus
from rocketmq_py.protocol.headers.offset import ResetOffset
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.store import MessageStore
from rocketmq_py.wire.command import Command, language_name
from rocketmq_py.wire.fastjson import dumps_java, loads

_log = logging.getLogger(__name__)

_SECONDS = 5.0
"""How long a consumer may take to tell where it stands."""

Queue = tuple[tuple[str, object], ...]


class ResetHandlers:
    """222, 223."""

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicConfigs, groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        clients: Clients,
    ) -> None:  # fmt: skip
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients

    @handles(Code.INVOKE_BROKER_TO_RESET_OFFSET)
    def reset(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Set a group to a time or an offset.

        With useServerSideResetOffset the next pull of a member is answered with it, and one that waits at once;
        otherwise members are told.
        """
        del peer, body
        header: ResetOffset = request.header
        topic = self._topics.get(header.topic)
        if not self._config.use_server_side_reset_offset:
            return self._tell_members(header, topic, in_c=language_name(request.language) == "CPP")
        if self._config.is_slave:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, "Can not reset offset in slave broker")
        if topic is None:
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
        if self._groups.get(header.group) is None:
            said = f"Group {header.group} does not exist"
            raise BrokerError.of(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, said)
        wanted = self._wanted(header, topic)
        for queue_id, offset in wanted.items():
            self._offsets.reset(header.group, header.topic, queue_id, offset)
        return Reply(body=dumps_java({"offsetTable": self._table(header.topic, wanted)}))

    def _wanted(self, header: ResetOffset, topic: TopicConfig) -> dict[int, int]:
        if header.queue_id < 0:
            return {q: self._at(header.topic, q, header.timestamp) for q in range(topic.read_queue_nums)}
        if header.offset is None or header.offset == -1:
            return {header.queue_id: self._at(header.topic, header.queue_id, header.timestamp)}
        first, end = self._store.queue_range(header.topic, header.queue_id)
        if not first <= header.offset <= end + 1:
            said = f"Target offset {header.offset} not in consume queue range [{first}-{end}]"
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, said)
        return {header.queue_id: header.offset}

    def _at(self, topic: str, queue_id: int, timestamp: int) -> int:
        """The offset of a time; a negative one stands for the end of the queue."""
        if timestamp < 0:
            return self._store.queue_range(topic, queue_id)[1]
        return self._store.offset_by_time(topic, queue_id, timestamp)

    def _table(self, topic: str, offsets: dict[int, int]) -> dict[Queue, int]:
        name = self._config.broker_name
        return {(("brokerName", name), ("queueId", q), ("topic", topic)): offset for q, offset in offsets.items()}

    # -- members are told

    def _tell_members(self, header: ResetOffset, topic: TopicConfig | None, *, in_c: bool) -> Reply:
        if topic is None:
            said = f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}"
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, said)
        wanted = self._moved(header, topic)
        table = dumps_java({"offsetTable": self._table(header.topic, wanted)})
        listed = [
            {"brokerName": self._config.broker_name, "offset": offset, "queueId": queue_id, "topic": header.topic}
            for queue_id, offset in wanted.items()
        ]
        told = dumps_java({"offsetTable": listed}) if in_c else table
        ext = {"topic": header.topic, "group": header.group, "timestamp": str(header.timestamp), "isForce": "false"}
        command = Command(Code.RESET_CONSUMER_CLIENT_OFFSET, ext=ext, body=told)
        members = self._members(header.group)
        if not members:
            said = (
                f"Consumer not online, so can not reset offset, Group: {header.group} Topic: {header.topic} "
                f"Timestamp: {header.timestamp}"
            )
            raise BrokerError.of(ResponseCode.CONSUMER_NOT_ONLINE, said)
        for _, channel in members:
            channel.send(command)
        return Reply(body=table)

    def _moved(self, header: ResetOffset, topic: TopicConfig) -> dict[int, int]:
        """Where members are to go on; forward only when that is forced."""
        moved = {}
        for queue_id in range(topic.write_queue_nums):
            consumed = self._offsets.query(header.group, header.topic, queue_id)
            if consumed < 0:
                raise BrokerError.of(ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist")
            offset = max(0, self._at(header.topic, queue_id, header.timestamp))
            moved[queue_id] = offset if header.is_force or offset < consumed else consumed
        return moved

    # -- where members stand

    @handles(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
    async def status(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """The offsets the members of a group have reached, or one of them has; who does not answer is left out."""
        del peer, body
        header: ConsumerStatus = request.header
        members = self._members(header.group)
        if not members:
            said = f"No Any Consumer online in the consumer group: [{header.group}]"
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, said)
        asked = [pair for pair in members if not header.client_addr or pair[0].client_id == header.client_addr]
        ext = {"topic": header.topic, "group": header.group}
        command = Command(Code.GET_CONSUMER_STATUS_FROM_CLIENT, ext=ext)
        answers = await asyncio.gather(*(self._ask(member, channel, command) for member, channel in asked))
        told = {member.client_id: table for (member, _), table in zip(asked, answers, strict=True) if table is not None}
        return Reply(body=dumps_java({"consumerTable": told, "messageQueueTable": {}}))

    async def _ask(self, member: RegisteredClient, channel: Peer, command: Command) -> dict[Queue, Any] | None:
        try:
            answer = await channel.invoke(command, _SECONDS)
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                return None
            return _offsets_of(bytes(answer.body))
        except (NetworkError, BadHeader) as e:
            _log.warning("consumer %s does not tell where it stands: %s", member.client_id, e)
            return None

    def _members(self, group: str) -> list[tuple[RegisteredClient, Peer]]:
        found = self._clients.consumers.groups.get(group)
        members = found.members.values() if found else ()
        return [(member, member.channel) for member in members if isinstance(member.channel, Peer)]


def _offsets_of(body: bytes) -> dict[Queue, Any]:
    """The offsets by queue of a consumer's answer.

    :raises BadHeader: it is something else.
    """
    try:
        tree = loads(body)
        table = tree.get("messageQueueTable") or {}
        return {tuple(sorted(loads(key).items())): offset for key, offset in table.items()}
    except (ValueError, AttributeError) as e:
        raise BadHeader(f"no offsets by queue: {e}") from e
