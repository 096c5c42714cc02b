"""Registration at the name servers: all topics at the start and every 30 s, changed topics at once.

A failed registration is tried again every second; the broker serves meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from zlib import crc32

import msgspec

from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.route import KvTable, QueueData, TopicRouteData
from rocketmq_py.protocol.bodies.static_topic import MappingInfo
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig, TopicConfigTable
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.namesrv import RegisterBroker, RegisterBrokerResponse, UnregisterBroker
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.protocol.sys_flag import PERM_RW, PERM_WRITE
from rocketmq_py.remoting.rpc_client import NewRpcClient
from rocketmq_py.tasks import Background
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_FLUSH_SECONDS = 3.0
_UNREGISTER_SECONDS = 0.5
_AT_ONCE = 32
"""Maximum number of topics whose single registrations are sent at the same time."""


class Registration:
    """Registers this broker and its topics at the name servers.

    :param mappings: takes names of topics; returns the queue mapping of each one that is a static topic.
    :param address: this broker's address for clients.
    :param role: receives the master's address from the responses.
    """

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicConfigs,
        mappings: Callable[[set[str]], Mapping[str, MappingInfo]],
        new_rpc_client: NewRpcClient,
        address: str,
        role: Role,
    ) -> None:
        self._config = config
        self._topics = topics
        self._mappings = mappings
        self._rpc_client = new_rpc_client(on_lost=self._retry)
        self._address = address
        self._role = role
        self._leaving = False
        self.registered_at: set[str] = set()
        """Name servers whose latest answer was that the broker is registered."""
        self._changed: dict[str, TopicConfig] = {}
        self._wake = asyncio.Event()
        self._failing: set[str] = set()
        self._logged_failures: set[str] = set()
        self._work = Background()
        self._has_started = False
        self._encoded: tuple[tuple[DataVersion, int, dict[str, MappingInfo]], bytes] | None = None
        self._next: asyncio.Task[None] | None = None
        """The task that will register the topics in ``_changed``, as soon as the current registration is answered."""
        self._running: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Register all topics at every name server, and start to repeat that every ``registerNameServerPeriod``."""
        await self._register(self._config.namesrv_addresses, self._all_topics(), _FLUSH_SECONDS)
        self._has_started = True
        self._work.start(self._run())

    async def refuse_writes(self) -> None:
        """Withdraw the write permission at the name servers, so that clients send to other brokers."""
        if self._role.is_slave:
            return  # a slave has registered no write permission
        self._leaving = True
        self._topics.announce_all()
        await self.flush()

    @property
    def _registered_permission(self) -> int:
        return self._config.broker_permission & (~PERM_WRITE if self._leaving else PERM_RW)

    async def stop(self) -> None:
        """Stop registering, and unregister at all name servers; wait at most half a second for their answers."""
        if self._has_started:
            self._has_started = False
            await self._work.stop()
            for request in self._running:
                request.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await asyncio.gather(*map(self._unregister, self._config.namesrv_addresses))
            if self._leaving:
                self._topics.announce_all()  # name servers must see another version after the next start
        self._rpc_client.close()

    def topics_changed(self, topics: Iterable[TopicConfig]) -> None:
        """Register created or changed topics soon, in a later turn of the event loop."""
        self._changed |= {topic.topic_name: topic for topic in topics}
        self._wake.set()

    def renew(self) -> None:
        """Schedule a registration at all name servers within a second, to get the current address of the master."""
        self._failing |= set(self._config.namesrv_addresses)
        self._wake.set()

    async def flush(self) -> None:
        """Register changed topics and wait until the name servers have answered.

        Topics that change while a registration waits for its answer are registered together by the next one.
        """
        if self._changed and self._next is None:
            self._next = asyncio.create_task(self._register_changed())
            self._running.add(self._next)
            self._next.add_done_callback(self._running.discard)
        await asyncio.gather(*map(asyncio.shield, self._running))

    async def _register_changed(self) -> None:
        async with self._one_at_a_time:
            self._next = None
            topics, self._changed = self._changed, {}
            await self._register_topics(topics)

    async def _register_topics(self, topics: dict[str, TopicConfig]) -> None:
        if self._config.enable_single_topic_register and not self._mappings(set(topics)):
            waiting = list(topics.values())
            for first in range(0, len(waiting), _AT_ONCE):  # all at once would be one long turn of the event loop
                await asyncio.gather(*map(self._register_topic, waiting[first : first + _AT_ONCE]))
        else:
            await self._register(self._config.namesrv_addresses, self._encode(topics.values()), _FLUSH_SECONDS)

    async def _register_topic(self, topic: TopicConfig) -> None:
        """Register one topic alone. A name server where this broker is not registered yet gets all topics later."""
        registered = masked(topic, self._registered_permission)
        queues = QueueData(
            broker_name=self._config.broker_name, perm=registered.perm, read_queue_nums=registered.read_queue_nums,
            write_queue_nums=registered.write_queue_nums, topic_sys_flag=registered.topic_sys_flag,
        )  # fmt: skip
        header, body = TopicName(topic=topic.topic_name), TopicRouteData(queue_datas=[queues], broker_datas=[])
        command = Command(RequestCode.REGISTER_TOPIC_IN_NAMESRV, ext=header.to_ext(), body=body.encode())
        names = self._config.namesrv_addresses
        await asyncio.gather(*(self._register_at(address, command, _FLUSH_SECONDS) for address in names))

    async def _run(self) -> None:
        full_every = self._config.register_name_server_period / 1000
        loop = asyncio.get_running_loop()
        next_full = loop.time() + full_every
        while True:
            wait = min(next_full - loop.time(), _RETRY_SECONDS if self._failing else full_every)
            try:
                async with asyncio.timeout(max(wait, 0)):
                    await self._wake.wait()
            except TimeoutError:
                if loop.time() >= next_full:
                    next_full = loop.time() + full_every
                    await self._register_all(self._config.namesrv_addresses)
                elif self._failing:
                    await self._register_all(tuple(self._failing))
                continue
            self._wake.clear()
            await self.flush()

    async def _register_all(self, addresses: Iterable[str]) -> None:
        timeout = self._config.register_broker_timeout_mills / 1000
        await self._register(addresses, self._all_topics(), timeout)

    async def _register(self, addresses: Iterable[str], body: bytes, timeout: float) -> None:
        command = self._command(body)
        await asyncio.gather(*(self._register_at(address, command, timeout) for address in addresses))

    def _all_topics(self) -> bytes:
        """Return the encoded body with all topics; it may be megabytes, so it is encoded again only after a change."""
        mappings = dict(self._mappings(set(self._topics.table)))
        state = self._topics.version, self._registered_permission, mappings
        if self._encoded is None or self._encoded[0] != state:
            self._encoded = state, self._encode(self._topics.table.values())
        return self._encoded[1]

    def _encode(self, topics: Iterable[TopicConfig]) -> bytes:
        table = {topic.topic_name: masked(topic, self._registered_permission) for topic in topics}
        return RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigTable(
                topic_config_table=table, data_version=self._topics.version, mapping_data_version=self._topics.version,
                topic_queue_mapping_detail_map={}, topic_queue_mapping_info_map=dict(self._mappings(set(table))),
            )
        ).encode()  # fmt: skip

    def _command(self, body: bytes) -> Command:
        config, address = self._config, self._address
        acting = config.enable_slave_acting_master
        header = RegisterBroker(
            broker_name=config.broker_name, broker_addr=address, cluster_name=config.broker_cluster_name,
            ha_server_addr=self._role.ha_address, broker_id=config.broker_id, enable_acting_master=acting,
            heartbeat_timeout_millis=config.broker_not_active_timeout_millis if acting else None,
            compressed=False, body_crc32=crc32(body) & 0x7FFFFFFF,
        )  # fmt: skip
        return Command(RequestCode.REGISTER_BROKER, ext=header.to_ext(), body=body)

    async def _register_at(self, address: str, command: Command, timeout: float) -> None:
        try:
            reply = await self._rpc_client.ask(address, command, timeout)
            response = RegisterBrokerResponse.from_ext(reply.ext)
            self._role.update_master(address, response.master_addr, response.ha_server_addr)
            self._apply_order(reply.body)
        except RocketMQError as e:
            if address not in self._logged_failures:
                self._logged_failures.add(address)
                _log.warning(
                    "cannot register at name server %s, clients will not find this broker there: %s; "
                    "trying again every %g s", address, e, _RETRY_SECONDS,
                )  # fmt: skip
            self.registered_at.discard(address)
            if address not in self._failing:
                self._retry(address)
            return
        self.registered_at.add(address)
        if address in self._logged_failures:
            _log.warning("registered at name server %s", address)
            self._logged_failures.discard(address)
        self._failing.discard(address)

    def _retry(self, address: str) -> None:
        """Register at a name server again within a second, because a registration failed or its connection broke."""
        self._failing.add(address)
        self._wake.set()

    def _apply_order(self, body: bytes) -> None:
        """Mark the order topics that a name server's response lists."""
        if body:
            self._topics.set_order_topics(KvTable.decode(body).table)

    async def _unregister(self, address: str) -> None:
        config = self._config
        header = UnregisterBroker(
            broker_name=config.broker_name, broker_addr=self._address, cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
        )  # fmt: skip
        command = Command(RequestCode.UNREGISTER_BROKER, ext=header.to_ext())
        try:
            await self._rpc_client.invoke(address, command, _UNREGISTER_SECONDS)
        except RocketMQError as e:
            _log.info("not unregistered at name server %s: %s", address, e)


def masked(topic: TopicConfig, permission: int) -> TopicConfig:
    """Return a topic as it is registered: with its permission limited to the broker's ``permission``.

    A broker that may both read and write registers the topic unchanged. Otherwise all else stays: Java's broker drops
    the other fields when it registers all topics, but keeps the system flag when it registers changed ones; name
    servers tell unit topics by it.
    """
    if permission & PERM_RW == PERM_RW:
        return topic
    return msgspec.structs.replace(topic, perm=topic.perm & permission)
