"""Requests of clients about themselves and their group: heartbeats, membership, queue locks, queue assignment."""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.broker import remarks
from rocketmq_py.broker.body_limits import checked
from rocketmq_py.broker.cluster.assignment import QueueAssignments
from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.handlers.long_answers import assemble, members
from rocketmq_py.broker.metadata.filters import compile_filter
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.broker.metadata.request_modes import RequestModes
from rocketmq_py.core.broker.client_registry import RegisteredClient
from rocketmq_py.core.broker.lock_table import LockTable
from rocketmq_py.core.consumer.subscription import is_tag_type
from rocketmq_py.errors import BadHeader, BrokerError, ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import (  # fmt: skip
    CheckClientConfig,
    ConnectionInfo,
    ConsumerConnection,
    ConsumerIdList,
    HeartbeatData,
    LockBatchRequest,
    LockBatchResponse,
    MessageQueueBody,
    ProducerConnection,
)
from rocketmq_py.protocol.bodies.pop import MessageRequestMode, QueryAssignmentRequest
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.server.fault_log import FaultLog
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.wire.fastjson import dumps_java


class ClientHandlers:
    """Handlers of the request codes 34, 35, 38, 41, 42, 46, 203, 204 and 328."""

    def __init__(self, config: BrokerConfig, clients: Clients, locks: LockTable, clock: Callable[[], int]) -> None:
        self._config = config
        self._clients = clients
        self._locks = locks
        self._clock = clock
        self._fault_log = FaultLog()

    @handles(Code.HEART_BEAT, lane="heartbeat", sliced=True)
    def heartbeat(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Register a client: its producer groups, its consumer groups and their subscriptions."""
        try:
            changed = self._clients.heartbeat(peer, request, HeartbeatData.decode(checked(request.code, body)))
        except (BadHeader, BrokerError) as e:
            self._fault_log.refused_heartbeat(peer, body, request.language, e)
            raise
        return Reply(ext={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true" if changed else "false"})

    @handles(Code.UNREGISTER_CLIENT, lane="client")
    def unregister(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Unregister a client."""
        del body
        self._clients.unregister(peer, request.header.consumer_group, request.header.producer_group)
        return Reply()

    @handles(Code.CHECK_CLIENT_CONFIG, lane="client")
    def check_config(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Check that this broker can evaluate the filter of a subscription."""
        del peer
        wanted = CheckClientConfig.decode(checked(request.code, body)).subscription_data
        if is_tag_type(wanted.expression_type):
            return Reply()
        if not self._config.enable_property_filter:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, remarks.no_filter(wanted.expression_type))
        try:
            compile_filter(wanted.expression_type, wanted.sub_string)
        except ConfigError as e:
            raise BrokerError.of(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(e)) from None
        return Reply()

    @handles(Code.GET_CONSUMER_LIST_BY_GROUP, lane="consumer", sliced=True)
    def consumer_list(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """List the client ids of a group's members, which share the queues."""
        del peer, body
        name = request.header.consumer_group
        group = self._clients.consumers.groups.get(name)
        if group is None:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
        return Reply(body=ConsumerIdList(consumer_id_list=group.client_ids()).encode())

    @handles(Code.LOCK_BATCH_MQ)
    def lock(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Lock queues for orderly consumption, or renew locks; the answer lists the queues that the client holds."""
        del peer
        wanted = LockBatchRequest.decode(checked(request.code, body))
        queues = [MessageQueue(mq.topic, mq.broker_name, mq.queue_id) for mq in wanted.mq_set]
        held = self._locks.lock(wanted.consumer_group or "", wanted.client_id or "", queues, self._clock())
        listed = [MessageQueueBody(topic=mq.topic, broker_name=mq.broker_name, queue_id=mq.queue_id) for mq in held]
        return Reply(body=LockBatchResponse(lock_ok_mq_set=listed).encode())

    @handles(Code.UNLOCK_BATCH_MQ)
    def unlock(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Release locks of queues."""
        del peer
        given = LockBatchRequest.decode(checked(request.code, body))
        queues = [MessageQueue(mq.topic, mq.broker_name, mq.queue_id) for mq in given.mq_set]
        self._locks.unlock(given.consumer_group or "", given.client_id or "", queues)
        return Reply()

    @handles(Code.GET_CONSUMER_CONNECTION_LIST)
    def consumer_connections(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """List the members of a consumer group and their subscriptions."""
        del peer, body
        name = request.header.consumer_group
        group = self._clients.consumers.groups.get(name)
        if group is None:
            raise BrokerError.of(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        answer = ConsumerConnection(
            connection_set=list(map(_connection, group.members.values())), subscription_table=group.subscriptions,
            consume_type=group.consume_type, message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )  # fmt: skip
        return Reply(body=answer.encode())

    @handles(Code.GET_PRODUCER_CONNECTION_LIST)
    def producer_connections(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """List the members of a producer group."""
        del peer, body
        name = request.header.producer_group
        members = self._clients.producers.groups.get(name)
        if members is None:
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return Reply(body=ProducerConnection(connection_set=list(map(_connection, members.values()))).encode())

    @handles(Code.GET_ALL_PRODUCER_INFO)
    def all_producers(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """List the members of all producer groups."""
        del peer, request, body
        groups = self._clients.producers.groups.items()
        data = {name: [_producer(member) for member in members.values()] for name, members in sorted(groups)}
        return Reply(body=dumps_java({"data": data}))


def _producer(member: RegisteredClient) -> dict[str, object]:
    connection = _connection(member)
    return {
        "clientId": member.client_id, "language": connection.language, "lastUpdateTimestamp": member.last_seen_ms,
        "remoteIP": f"/{connection.client_addr}", "version": member.version,
    }  # fmt: skip


def _connection(member: RegisteredClient) -> ConnectionInfo:
    address = member.channel.address if isinstance(member.channel, Peer) else ""
    return ConnectionInfo(
        client_id=member.client_id, client_addr=address, language=member.language, version=member.version
    )


class AssignmentHandlers:
    """Handlers of the request codes 400, 401 and 402."""

    def __init__(self, assignments: QueueAssignments, modes: RequestModes, slices: SlicedWork) -> None:
        self._assignments = assignments
        self._modes = modes
        self._slices = slices

    @handles(Code.QUERY_ASSIGNMENT, lane="consumer")
    async def query(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the queues assigned to a client, and their request mode."""
        del peer
        return Reply(
            body=(await self._assignments.query(QueryAssignmentRequest.decode(checked(request.code, body)))).encode()
        )

    @handles(Code.SET_MESSAGE_REQUEST_MODE)
    async def set_mode(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Set the request mode, PULL or POP, of a group for a topic; answered when it is on disk."""
        del peer
        self._modes.set(MessageRequestMode.decode(checked(request.code, body)))
        await self._modes.saved()
        return Reply()

    @handles(Code.GET_ALL_MESSAGE_REQUEST_MODE)
    async def list_modes(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return all request modes, for slaves."""
        del peer, request, body
        listed = members(
            (topic, {group: bean(mode) for group, mode in sorted(modes.items())})
            for topic, modes in sorted(self._modes.modes.message_request_mode_map.items())
        )
        return Reply(body=await assemble(self._slices, b'{"messageRequestModeMap":{', listed, b"}}"))
