"""Requests of administrators that the broker forwards to a consumer over the consumer's connection."""

from __future__ import annotations

from functools import partial

from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError, RequestTimeout
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.group import ConsumeMessageDirectly, GetConsumerRunningInfo
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.store import MessageStore
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.ids import parse_offset_msg_id

_SECONDS = 10.0
"""The timeout for a consumer's answer."""


class RelayHandlers:
    """Handlers of the request codes 307 and 309."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicConfigs,
        groups: SubscriptionGroups,
        clients: Clients,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients

    @handles(Code.GET_CONSUMER_RUNNING_INFO)
    async def running_info(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the running info of a consumer."""
        del peer, body
        header: GetConsumerRunningInfo = request.header
        command = Command(Code.GET_CONSUMER_RUNNING_INFO, ext=header.to_ext())
        return await self._pass_on(header.consumer_group, header.client_id, command)

    @handles(Code.CONSUME_MESSAGE_DIRECTLY)
    async def consume_directly(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Have a consumer consume one message now, and return the result."""
        del peer, body
        header: ConsumeMessageDirectly = request.header
        header.broker_name = self._config.broker_name
        topic = self._topics.get(header.topic or "")
        group = self._groups.get(header.consumer_group)
        header.topic_sys_flag = topic.topic_sys_flag if topic else header.topic_sys_flag
        header.group_sys_flag = group.group_sys_flag if group else header.group_sys_flag
        record = await self._record(header.msg_id or "")
        command = Command(Code.CONSUME_MESSAGE_DIRECTLY, ext=header.to_ext(), body=record)
        return await self._pass_on(header.consumer_group, header.client_id or "", command)

    async def _record(self, msg_id: str) -> bytes:
        try:
            _, _, offset = parse_offset_msg_id(msg_id)
        except ConfigError as e:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, str(e)) from e
        await self._store.loader.run(partial(self._store.checks.messages, [offset]))
        record = self._store.message_at(offset)
        if record is None:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        return record

    async def _pass_on(self, group: str, client_id: str, command: Command) -> Reply:
        member = self._clients.consumers.find(group, client_id)
        if member is None or not isinstance(member.channel, Peer):
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        try:
            answer = await member.channel.invoke(command, _SECONDS)
        except RequestTimeout as e:
            raise BrokerError.of(
                ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}> Timeout: {e}"
            ) from e
        except NetworkError as e:
            raise BrokerError.of(
                ResponseCode.SYSTEM_ERROR, f"invoke consumer <{group}> <{client_id}> Exception: {e}"
            ) from e
        return Reply(answer.code, answer.remark, ext=answer.ext, body=answer.body)
