"""Copies the master's tables to a slave: topics, groups, offsets, request modes and timer progress (SlaveSynchronize).

Requests, their order and their intervals are Java's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from rocketmq_py.broker.cluster.role import Master, Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.queue_mappings import TopicQueueMappings
from rocketmq_py.broker.metadata.request_modes import RequestModes
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.timer.delay_levels import DelayService
from rocketmq_py.broker.timer.timers import Timers
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BadHeader, NetworkError, RocketMQError
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.group import SubscriptionGroupTable
from rocketmq_py.protocol.bodies.pop import MessageRequestModes
from rocketmq_py.protocol.bodies.topic import TopicConfig, TopicConfigTable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.cluster import AllGroups, AllGroupsResponse, AllTopics, AllTopicsResponse
from rocketmq_py.remoting.rpc_client import NewRpcClient
from rocketmq_py.server.sliced_work import in_slices
from rocketmq_py.tasks import Background
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.fastjson import load_object, load_object_in_steps

_log = logging.getLogger(__name__)

_TICK_SECONDS = 3.0
"""The interval of the timer checkpoint and of retries, in seconds."""
_TIMEOUT_SECONDS = 30.0
_PAGE = 2000
_MOST_PAGES = 10_000
"""Maximum number of pages of a table. A table that changes faster than it can be read is skipped until the next
interval.
"""


class Tables(NamedTuple):
    """The tables that a slave copies from its master."""

    topics: TopicConfigs
    mappings: TopicQueueMappings
    groups: SubscriptionGroups
    offsets: ConsumerOffsets
    delay: DelayService
    modes: RequestModes
    timers: Timers


class SlaveSync:
    """Keeps the tables of a slave equal to its master's.

    All tables are fetched when the master's address becomes known, then every ``slave_sync_interval``, and when the log
    has messages of an unknown topic; the timer checkpoint every three seconds. If one table cannot be copied, the
    others are still fetched, unless the master is unreachable.

    :param address: this broker's address; if the name servers return it as the master's, nothing is copied.
    :param on_lost: called when the master is unreachable.
    """

    def __init__(
        self, config: BrokerConfig, role: Role, tables: Tables, new_rpc_client: NewRpcClient, address: str,
        on_lost: Callable[[], None],
    ) -> None:  # fmt: skip
        self._config = config
        self._role = role
        self._tables = tables
        self._rpc_client = new_rpc_client(on_lost=lambda _: self._wake.set())
        self._address = address
        self._on_lost = on_lost
        self._failures = 0
        self._failing: set[str] = set()
        self._wake = asyncio.Event()
        self._is_due = True
        self._unknown_topics: set[str] = set()
        self._work = Background()
        self.completed = 0
        """The number of times that all tables have been copied."""

    def start(self) -> None:
        """Start to copy tables; waits until the master's address is known."""
        self._work.start(self._run())
        self._role.add_master_listener(self._master_changed)

    async def stop(self) -> None:
        """Stop copying and close the connections. Does nothing if stopped already."""
        await self._work.stop()
        self._rpc_client.close()

    def arrived(self, topics: Iterable[str]) -> None:
        """Fetch the tables soon if this slave does not have one of ``topics``, whose messages the log has brought.

        Consumers read from a slave when the master is down, so the topic must exist here. Each name triggers this once
        per interval, since the master may have deleted the topic.
        """
        new = {topic for topic in topics if self._tables.topics.get(topic) is None} - self._unknown_topics
        if new:
            self._unknown_topics |= new
            self._is_due = True
            self._wake.set()

    def _master_changed(self, master: Master) -> None:
        if master.address is not None:
            self._is_due = True
            self._wake.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_full = 0.0
        while True:
            self._wake.clear()
            master = self._role.master.address
            if master is not None and master != self._address:
                is_full = self._is_due or loop.time() >= next_full
                self._is_due = False
                if loop.time() >= next_full:
                    self._unknown_topics.clear()
                if await self._turn(master, is_full=is_full):
                    if is_full:
                        self.completed += 1
                        next_full = loop.time() + self._config.slave_sync_interval / 1000
                else:
                    self._is_due |= is_full
            try:
                async with asyncio.timeout(min(_TICK_SECONDS, self._config.slave_sync_interval / 1000)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    # -- one turn

    async def _turn(self, master: str, *, is_full: bool) -> bool:
        """Fetch tables from the master: all if ``is_full``, otherwise the timer checkpoint only.

        Returns True if all of them were copied.

        :param master: the master's address.
        """
        parts: list[Callable[[str], Awaitable[None]]] = []
        if is_full:
            parts += [self._topics, self._offsets, self._delay, self._groups, self._modes]
        if self._tables.timers.is_enabled:
            parts += [self._timer_metrics, self._timers] if is_full else [self._timers]
        done = [await self._fetch(part, master) for part in parts if not self._failures or part is parts[0]]
        return all(done) and not self._failures

    async def _fetch(self, part: Callable[[str], Awaitable[None]], master: str) -> bool:
        name = part.__name__.strip("_").replace("_", " ")
        try:
            await part(master)
        except NetworkError as e:
            self._unreachable(master, e)
            return False
        except (RocketMQError, OSError, ValueError) as e:
            if name not in self._failing:
                self._failing.add(name)
                _log.error("the %s of master %s cannot be copied, trying again: %s", name, master, e)
            return False
        if self._failures:
            _log.warning("master %s can be reached again", master)
            self._failures = 0
        if name in self._failing:
            self._failing.discard(name)
            _log.warning("the %s of master %s can be copied again", name, master)
        return True

    def _unreachable(self, master: str, error: NetworkError) -> None:
        """Count a failed attempt; call ``on_lost`` after the first, second, fourth, eighth … one in a row."""
        if not self._failures:
            _log.warning("master %s cannot be reached: %s", master, error)
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:
            self._on_lost()

    async def _ask(self, master: str, code: Code, header: Header | None = None) -> Reply:
        command = Command(code, ext=header.to_ext() if header is not None else {})
        return await self._rpc_client.ask(master, command, _TIMEOUT_SECONDS)

    # -- the parts

    async def _topics(self, master: str) -> None:
        table: dict[str, TopicConfig] = {}
        version: DataVersion | None = None
        for _ in range(_MOST_PAGES):
            asked = AllTopics(topic_seq=len(table), max_topic_num=_PAGE, data_version=_as_text(version))
            reply = await self._ask(master, Code.GET_ALL_TOPIC_CONFIG, asked)
            received = TopicConfigTable.convert(load_object(reply.body))
            if version not in (None, received.data_version):
                table = {}
            version, found = received.data_version, received.topic_config_table
            table |= found
            total = AllTopicsResponse.from_ext(reply.ext).total_topic_num
            if total is None or not found or len(table) >= total:
                self._tables.mappings.take_over(received.mapping_data_version, received.topic_queue_mapping_detail_map)
                self._tables.topics.take_over(version, table)
                return
        raise BadHeader(f"the topics of {master} change faster than they can be read")

    async def _groups(self, master: str) -> None:
        whole = SubscriptionGroupTable()
        version: DataVersion | None = None
        for _ in range(_MOST_PAGES):
            asked = AllGroups(
                group_seq=len(whole.subscription_group_table), max_group_num=_PAGE, data_version=_as_text(version)
            )
            reply = await self._ask(master, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, asked)
            received = SubscriptionGroupTable.convert(load_object(reply.body))
            if version not in (None, received.data_version):
                whole = SubscriptionGroupTable()
            version = whole.data_version = received.data_version
            whole.subscription_group_table |= received.subscription_group_table
            whole.forbidden_table |= received.forbidden_table
            total = AllGroupsResponse.from_ext(reply.ext).total_group_num
            if total is None or not received.subscription_group_table or len(whole.subscription_group_table) >= total:
                self._tables.groups.take_over(whole)
                return
        raise BadHeader(f"the groups of {master} change faster than they can be read")

    async def _offsets(self, master: str) -> None:
        reply = await self._ask(master, Code.GET_ALL_CONSUMER_OFFSET)
        keeps_larger = self._config.slave_keep_larger_offset
        tree = await in_slices(load_object_in_steps(reply.body))
        await in_slices(self._tables.offsets.take_over(tree, keeps_larger=keeps_larger))
        self._tables.offsets.persist()

    async def _delay(self, master: str) -> None:
        reply = await self._ask(master, Code.GET_ALL_DELAY_OFFSET)
        self._tables.delay.take_over(load_object(reply.body))
        self._tables.delay.persist()

    async def _modes(self, master: str) -> None:
        reply = await self._ask(master, Code.GET_ALL_MESSAGE_REQUEST_MODE)
        self._tables.modes.take_over(MessageRequestModes.convert(load_object(reply.body)))

    async def _timer_metrics(self, master: str) -> None:
        reply = await self._ask(master, Code.GET_TIMER_METRICS)
        self._tables.timers.metrics.take_over(load_object(reply.body))

    async def _timers(self, master: str) -> None:
        reply = await self._ask(master, Code.GET_TIMER_CHECK_POINT)
        self._tables.timers.take_over(bytes(reply.body))


def _as_text(version: DataVersion | None) -> str:
    """Encode a version as a header field; None becomes an empty text, as a Java slave sends it."""
    return "" if version is None else version.encode().decode()
