"""Replication in either role: how many slaves a send waits for, what tools are told, start and end."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.ha.replication import Replication
from rocketmq_py.core.broker.replication import TransferRate
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.headers.cluster import ExchangeHaInfo


class Link(SimpleNamespace):
    """The connection of a slave that is so many bytes behind."""


class Site:
    """A broker of a role, with a log that ends at 1000 and listeners in memory."""

    def __init__(self, role: str = "SYNC_MASTER", *, port: int = 10911, fresh: bool = False, **config: Any) -> None:
        self.now = 5_000
        settings = {"broker_id": 1} if role == "SLAVE" else {}
        self.config = BrokerConfig(broker_role=role, listen_port=port, **settings | config)
        self.store: Any = SimpleNamespace(max_physical_offset=1_000, replica=SimpleNamespace(end=1_000))
        self.role = Role(self.config, 10911)
        self.subject = Replication(self.config, self.store, self.role, "10.0.0.1:10911", lambda: self.now)
        if not fresh:
            self.subject.open()
        self.listened: list[tuple[str, int]] = []
        self.taken: set[int] = set()
        self.subject.master.listen = self.listen  # type: ignore[method-assign]

    async def listen(self, host: str, port: int) -> int:
        self.listened.append((host, port))
        if port in self.taken:
            raise ConfigError(f"cannot listen for slaves at {host}:{port} (haListenPort): taken")
        return port or 4711

    def link(self, behind: int, address: str = "h:1") -> Any:
        found: Any = Link(
            acknowledged=1_000 - behind, next=1_000, address=address, sent=TransferRate(self.now), ended=0
        )
        self.subject.master.links.append(found)
        return found


# -- how many slaves a send waits for


@pytest.mark.parametrize(("role", "wanted"), [("ASYNC_MASTER", 0), ("SLAVE", 0), ("SYNC_MASTER", 2)])
def test_only_a_synchronous_master_waits_for_slaves(role: str, wanted: int) -> None:
    assert Site(role, in_sync_replicas=3).subject.slaves_wanted() == wanted


@pytest.mark.parametrize(
    ("behind", "alive", "wanted"),
    [
        ([0, 0], 3, 2),
        ([0], 3, None),
        ([0], 2, None),
        ([], 3, None),
    ],
)
def test_with_acting_masters_too_few_slaves_refuse_a_send(behind: list[int], alive: int, wanted: int | None) -> None:
    site = Site(in_sync_replicas=3, min_in_sync_replicas=2, enable_slave_acting_master=True, total_replicas=3)
    site.role.alive_replicas = alive
    for bytes_behind in behind:
        site.link(bytes_behind)
    assert site.subject.slaves_wanted() == wanted


@pytest.mark.parametrize(
    ("behind", "alive", "wanted"), [([0, 0], 3, 2), ([0], 3, 1), ([0, 0], 2, 1), ([], 3, None), ([0, 256 << 20], 3, 1)]
)
def test_replicas_adapt_to_the_slaves_that_are_there(behind: list[int], alive: int, wanted: int | None) -> None:
    site = Site(
        in_sync_replicas=3, min_in_sync_replicas=2, enable_slave_acting_master=True, total_replicas=3,
        enable_auto_in_sync_replicas=True,
    )  # fmt: skip
    site.role.alive_replicas = alive
    for bytes_behind in behind:
        site.link(bytes_behind)
    assert site.subject.slaves_wanted() == wanted


@pytest.mark.parametrize(("behind", "count"), [(0, 1), ((256 << 20) - 1, 1), (256 << 20, 0)])
def test_a_slave_too_far_behind_is_not_in_sync(behind: int, count: int) -> None:
    site = Site()
    site.link(behind)
    assert site.subject.in_sync_slaves() == count


# -- status


def test_the_status_of_a_master_lists_its_slaves() -> None:
    site = Site()
    site.link(0, "h:1")
    site.link(256 << 20, "h:2")
    nothing = {"lastReadTimestamp": 0, "lastWriteTimestamp": 0, "masterFlushOffset": 0, "maxOffset": 0,
               "transferredByteInSecond": 0}  # fmt: skip
    assert site.subject.status() == {
        "haClientRuntimeInfo": nothing,
        "haConnectionInfo": [
            {"addr": "h:1", "diff": 0, "inSync": True, "slaveAckOffset": 1_000, "transferFromWhere": 1_000,
             "transferredByteInSecond": 0},
            {"addr": "h:2", "diff": 256 << 20, "inSync": False, "slaveAckOffset": 1_000 - (256 << 20),
             "transferFromWhere": 1_000, "transferredByteInSecond": 0},
        ],
        "inSyncSlaveNums": 1, "master": True, "masterCommitLogMaxOffset": 1_000,
    }  # fmt: skip


def test_the_status_of_a_slave_is_about_its_master() -> None:
    site = Site("SLAVE")
    slave = site.subject.slave
    assert slave is not None
    site.link(0)
    site.subject.master_flushed(900)
    site.subject.master_flushed(None)
    before = site.subject.status()
    assert (before["master"], before["haConnectionInfo"], before["inSyncSlaveNums"]) == (False, [], 0)
    assert before["masterCommitLogMaxOffset"] == 0
    assert before["haClientRuntimeInfo"] == {
        "lastReadTimestamp": 0, "lastWriteTimestamp": 5_000, "masterFlushOffset": 900, "maxOffset": 1_000,
        "transferredByteInSecond": 0,
    }  # fmt: skip
    slave.follow("10.0.0.2:10912")
    slave._link = SimpleNamespace(tick=lambda _: None)  # type: ignore[assignment]
    slave.read_ms = 4_000
    runtime: Any = site.subject.status()["haClientRuntimeInfo"]
    assert (runtime["masterAddr"], runtime["lastReadTimestamp"]) == ("10.0.0.2:10912", 4_000)


def test_a_master_notes_no_flushed_offset() -> None:
    site = Site()
    site.subject.master_flushed(900)
    runtime: Any = site.subject.status()["haClientRuntimeInfo"]
    assert runtime["masterFlushOffset"] == 0


# -- brokers of the same name


def test_a_master_tells_where_its_log_is() -> None:
    site = Site()
    site.store.max_physical_offset = 2_000
    told = site.subject.exchange(ExchangeHaInfo())
    assert (told.master_address, told.master_ha_address, told.master_flush_offset) == (
        "10.0.0.1:10911", site.role.ha_address, 1_000,
    )  # fmt: skip


def test_a_slave_tells_nothing_and_listens() -> None:
    site = Site("SLAVE")
    assert site.subject.exchange(ExchangeHaInfo()) == ExchangeHaInfo()
    answer = site.subject.exchange(ExchangeHaInfo(master_address="m:1", master_ha_address="m:2"))
    assert answer == ExchangeHaInfo()
    assert site.role.master == ("m:1", "m:2")


# -- start and end


def started(site: Site) -> None:
    async def run() -> None:
        await site.subject.start()
        await site.subject.stop()

    asyncio.run(run())


def test_a_broker_listens_next_to_its_port() -> None:
    site = Site()
    started(site)
    assert site.listened == [(site.config.bind_address, 10912)]


@pytest.mark.parametrize(("port", "level"), [(10911, logging.WARNING), (0, logging.INFO)])
def test_a_port_that_is_taken_is_replaced(port: int, level: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    site = Site(port=port)
    site.taken = {10912}
    started(site)
    assert [port for _, port in site.listened] == [10912, 0]
    assert site.role.ha_port == 4711
    [record] = [record for record in caplog.records if "listening for slaves at 4711 instead" in record.getMessage()]
    assert record.levelno == level


def test_a_port_that_was_asked_for_is_not_replaced() -> None:
    site = Site(ha_listen_port=7)
    site.taken = {7}
    with pytest.raises(ConfigError, match="taken"):
        started(site)
    assert [port for _, port in site.listened] == [7]


def test_a_slave_follows_its_master() -> None:
    site = Site("SLAVE", ha_master_address="10.0.0.2:1")
    slave = site.subject.slave
    assert slave is not None

    async def run() -> None:
        site.config.ha_master_address = ""
        slave.start = lambda: None  # type: ignore[method-assign]
        await site.subject.start()
        assert slave.address == "10.0.0.2:1"
        site.role.update_master("n", "m:1", "m:2")
        assert slave.address == "m:2"

    asyncio.run(run())


def test_ticks_reach_both_sides() -> None:
    site = Site("SLAVE")
    slave = site.subject.slave
    assert slave is not None
    ticks: list[object] = []
    link = site.link(0)
    link.tick = ticks.append
    slave._link = SimpleNamespace(tick=ticks.append)  # type: ignore[assignment]
    site.subject.tick()
    assert ticks == [5_000, 5_000]


def test_slaves_that_lack_the_end_are_named(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    behind, never = site.link(7), site.link(1_001, "h:2")

    async def hand_over(seconds: float) -> list[Any]:
        assert seconds == 3.0
        return [behind, never]

    site.subject.master.hand_over = hand_over  # type: ignore[method-assign]
    asyncio.run(site.subject.hand_over(3.0))
    assert [record.getMessage() for record in caplog.records] == [
        "the slave h:1 lacks the last 7 bytes of the log, and this master stops",
        "the slave h:2 lacks the last 1000 bytes of the log, and this master stops",
    ]  # fmt: skip


def test_a_slave_that_was_not_told_has_no_flushed_offset() -> None:
    runtime: Any = Site("SLAVE").subject.status()["haClientRuntimeInfo"]
    assert runtime["masterFlushOffset"] == 0
    site = Site(fresh=True)
    assert site.subject.exchange(ExchangeHaInfo()).master_flush_offset == 0
