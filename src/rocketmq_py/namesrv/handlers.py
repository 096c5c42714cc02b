# ruff: noqa: ARG002 - every handler is called with the same three arguments
"""Handlers of the name server's requests; they read and change the registry and the key-value table."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rocketmq_py.core.java_config import escape_controls
from rocketmq_py.core.queue_limits import topic_queues_fault
from rocketmq_py.errors import BrokerError, ConfigError, shortened
from rocketmq_py.namesrv.answers import encode_cluster_info, encode_members, encode_route
from rocketmq_py.namesrv.kv_config import ORDER_TOPICS, KvConfig
from rocketmq_py.namesrv.registration import checksum, decode_registration
from rocketmq_py.namesrv.registry import UNIT_FLAG, UNIT_SUB_FLAG, BrokerKey, Leaving, Registry
from rocketmq_py.namesrv.settings import NamesrvSettings
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.route import TopicList, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode, Version
from rocketmq_py.protocol.headers.namesrv import (
    AddWritePermResponse,
    BrokerHeartbeat,
    BrokerMemberGroup,
    BrokerNameHeader,
    ClusterName,
    DataVersionResponse,
    KvConfigKey,
    KvNamespace,
    KvValueResponse,
    PutKvConfig,
    QueryDataVersion,
    RegisterBroker,
    RegisterBrokerResponse,
    UnregisterBroker,
    WipeWritePermResponse,
)
from rocketmq_py.protocol.headers.topic import DeleteTopicInNamesrv, GetRouteInfo, TopicName
from rocketmq_py.protocol.remarks import FAQ
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.server.sliced_work import in_slices

log = logging.getLogger(__name__)

Clock = Callable[[], int]
"""Returns the current time in milliseconds since the epoch."""


class RouteHandlers:
    """Requests of clients: the routes of topics.

    :param clock: returns the time in milliseconds since the epoch; its first value is the name server's start time.
    """

    def __init__(self, registry: Registry, kv: KvConfig, settings: NamesrvSettings, clock: Clock) -> None:
        self._registry = registry
        self._kv = kv
        self._settings = settings
        self._clock = clock
        self._started_ms = clock()

    @handles(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    def route(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: GetRouteInfo = request.header
        if self._is_warming_up():
            raise BrokerError(ResponseCode.SYSTEM_ERROR, "name server not ready")
        route = self._registry.route(header.topic)
        if route is None:
            remark = f"No topic route info in name server for the topic: {header.topic}{FAQ}"
            raise BrokerError(ResponseCode.TOPIC_NOT_EXIST, remark)
        if self._settings.current.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPICS, header.topic)
        strict = request.version >= Version.V4_9_4 or bool(header.accept_standard_json_only)
        return Reply(body=encode_route(route, strict=strict))

    def _is_warming_up(self) -> bool:
        config = self._settings.current
        waited = self._clock() - self._started_ms
        return config.need_wait_for_service and waited < config.wait_seconds_for_service * 1000


class BrokerHandlers:
    """Requests of brokers: registration, heartbeats, and the addresses of brokers."""

    def __init__(self, registry: Registry, kv: KvConfig, settings: NamesrvSettings, clock: Clock) -> None:
        self._registry = registry
        self._kv = kv
        self._settings = settings
        self._clock = clock
        self._one_by_one = asyncio.Lock()
        """Serializes registrations: a large one takes many turns of the event loop, and others must wait for it."""

    @handles(RequestCode.REGISTER_BROKER)
    async def register(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: RegisterBroker = request.header
        if header.body_crc32 and header.body_crc32 != checksum(body):
            raise BrokerError(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        async with self._one_by_one:
            topics = await in_slices(decode_registration(body, request.version))
            registered = await in_slices(self._registry.register(header, topics, peer, self._clock()))
            await asyncio.sleep(0)  # one in a turn of the event loop, however many came in one read
        if peer.closed:
            self._registry.disconnected({peer})
        if registered is None:
            raise BrokerError(ResponseCode.SYSTEM_ERROR, "register broker failed")
        answer = RegisterBrokerResponse(ha_server_addr=registered.ha_address, master_addr=registered.master_address)
        return Reply(header=answer, body=self._order_topics())

    def _order_topics(self) -> bytes:
        wanted = self._settings.current.return_order_topic_config_to_broker
        table = self._kv.namespace(ORDER_TOPICS) if wanted else None
        return table.encode() if table is not None else b""

    @handles(RequestCode.UNREGISTER_BROKER)
    def unregister(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: UnregisterBroker = request.header
        leaving = Leaving(header.cluster_name, header.broker_addr, header.broker_name, header.broker_id)
        self._registry.unregister([leaving])
        return Reply()

    @handles(RequestCode.BROKER_HEARTBEAT)
    def heartbeat(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: BrokerHeartbeat = request.header
        self._registry.heartbeat(header.cluster_name, header.broker_addr, self._clock())
        return Reply()

    @handles(RequestCode.QUERY_DATA_VERSION)
    def query_data_version(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: QueryDataVersion = request.header
        key = BrokerKey(header.cluster_name, header.broker_addr)
        changed = self._registry.has_changed(key, DataVersion.decode(body))
        self._registry.heartbeat(header.cluster_name, header.broker_addr, self._clock())
        ours = self._registry.data_version(key)
        return Reply(header=DataVersionResponse(changed=changed), body=ours.encode() if ours else b"")

    @handles(RequestCode.GET_BROKER_MEMBER_GROUP)
    def members(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: BrokerMemberGroup = request.header
        return Reply(body=encode_members(self._registry.members(header.cluster_name, header.broker_name)))

    @handles(RequestCode.GET_BROKER_CLUSTER_INFO)
    def cluster_info(self, peer: Peer, request: Request, body: bytes) -> Reply:
        return Reply(body=encode_cluster_info(self._registry.cluster_info()))


class TopicHandlers:
    """Requests of administrators that list, register and delete topics, and change write permissions."""

    def __init__(self, registry: Registry, settings: NamesrvSettings) -> None:
        self._registry = registry
        self._settings = settings

    @handles(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    def all_topics(self, peer: Peer, request: Request, body: bytes) -> Reply:
        return _topics(self._registry.all_topics(), allowed=self._settings.current.enable_all_topic_list)

    @handles(RequestCode.GET_TOPICS_BY_CLUSTER)
    def topics_of_cluster(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: ClusterName = request.header
        topics = self._registry.topics_of_cluster(header.cluster)
        return _topics(topics, allowed=self._settings.current.enable_topic_list)

    @handles(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    def system_topics(self, peer: Peer, request: Request, body: bytes) -> Reply:
        return _topics(self._registry.system_topics())

    @handles(RequestCode.GET_UNIT_TOPIC_LIST)
    def unit_topics(self, peer: Peer, request: Request, body: bytes) -> Reply:
        return self._by_flag(lambda flag: bool(flag & UNIT_FLAG))

    @handles(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)
    def unit_sub_topics(self, peer: Peer, request: Request, body: bytes) -> Reply:
        return self._by_flag(lambda flag: bool(flag & UNIT_SUB_FLAG))

    @handles(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
    def unit_sub_only_topics(self, peer: Peer, request: Request, body: bytes) -> Reply:
        return self._by_flag(lambda flag: flag & (UNIT_FLAG | UNIT_SUB_FLAG) == UNIT_SUB_FLAG)

    def _by_flag(self, wanted: Callable[[int], bool]) -> Reply:
        return _topics(self._registry.topics_by_flag(wanted), allowed=self._settings.current.enable_topic_list)

    @handles(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
    def register_topic(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: TopicName = request.header
        if body:
            queues = TopicRouteData.decode(body).queue_datas
            for one in queues:
                fault = topic_queues_fault(header.topic, one.read_queue_nums, one.write_queue_nums)
                if fault is not None:
                    raise BrokerError.of(
                        ResponseCode.INVALID_PARAMETER, f"broker {shortened(one.broker_name)}: {fault}"
                    )
            self._registry.add_topic(header.topic, queues)
        return Reply()

    @handles(RequestCode.DELETE_TOPIC_IN_NAMESRV)
    def delete_topic(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: DeleteTopicInNamesrv = request.header
        self._registry.delete_topic(header.topic, header.cluster_name)
        return Reply()

    @handles(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
    def wipe_write_permission(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: BrokerNameHeader = request.header
        count = self._registry.wipe_write_permission(header.broker_name)
        log.info("%s took the write permission of broker %s, %d topics", peer.address, header.broker_name, count)
        return Reply(header=WipeWritePermResponse(wipe_topic_count=count))

    @handles(RequestCode.ADD_WRITE_PERM_OF_BROKER)
    def add_write_permission(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: BrokerNameHeader = request.header
        count = self._registry.add_write_permission(header.broker_name)
        log.info("%s gave broker %s write permission, %d topics", peer.address, header.broker_name, count)
        return Reply(header=AddWritePermResponse(add_topic_count=count))


class ConfigHandlers:
    """Requests that read and change the key-value table and the name server's settings."""

    def __init__(self, kv: KvConfig, settings: NamesrvSettings) -> None:
        self._kv = kv
        self._settings = settings

    @handles(RequestCode.PUT_KV_CONFIG)
    async def put(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: PutKvConfig = request.header
        self._kv.put(header.namespace, header.key, header.value)
        await self._kv.save()
        return Reply()

    @handles(RequestCode.GET_KV_CONFIG)
    def get(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: KvConfigKey = request.header
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            raise BrokerError(ResponseCode.QUERY_NOT_FOUND, remark)
        return Reply(header=KvValueResponse(value=value))

    @handles(RequestCode.DELETE_KV_CONFIG)
    async def delete(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: KvConfigKey = request.header
        self._kv.delete(header.namespace, header.key)
        await self._kv.save()
        return Reply()

    @handles(RequestCode.GET_KVLIST_BY_NAMESPACE)
    def namespace(self, peer: Peer, request: Request, body: bytes) -> Reply:
        header: KvNamespace = request.header
        table = self._kv.namespace(header.namespace)
        if table is None:
            raise BrokerError(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace}")
        return Reply(body=table.encode())

    @handles(RequestCode.UPDATE_NAMESRV_CONFIG)
    def update_settings(self, peer: Peer, request: Request, body: bytes) -> Reply:
        text = body.decode("utf-8", "replace")
        log.info("%s changes settings: %s", peer.address, escape_controls(shortened(text, 1_000)))
        try:
            self._settings.update(text)
        except ConfigError as e:
            raise BrokerError.of(ResponseCode.INVALID_PARAMETER, str(e)) from e
        return Reply()

    @handles(RequestCode.GET_NAMESRV_CONFIG)
    def settings(self, peer: Peer, request: Request, body: bytes) -> Reply:
        table = self._settings.current.table()
        return Reply(body="".join(f"{key}={escape_controls(table[key])}\n" for key in sorted(table)).encode())


def _topics(topics: TopicList, *, allowed: bool = True) -> Reply:
    if not allowed:
        raise BrokerError(ResponseCode.SYSTEM_ERROR, "disable")
    return Reply(body=topics.encode())
