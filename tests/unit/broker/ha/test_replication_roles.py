"""Replication of one broker in either role: the HA port, the status for tools, and how many slaves a send needs."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.ha.master import SlaveLink
from rocketmq_py.broker.ha.replication import Replication
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.ha import pack_report
from rocketmq_py.protocol.headers.cluster import ExchangeHaInfo
from rocketmq_py.store import MessageStore
from tests.unit.broker.network import End, Network, until

SLAVE = {"broker_role": "SLAVE", "broker_id": 1}
ADDRESS = "10.0.0.5:10911"


class Log:
    """What replication reads of a store; as a slave's it takes nothing."""

    def __init__(self, end: int) -> None:
        self.max_physical_offset = end
        self.min_physical_offset = 0
        self.config = SimpleNamespace(mapped_file_size_commit_log=1 << 20)
        self.replica = SimpleNamespace(end=end, append=lambda *_: None, dispatch=lambda: None)

    def new_residency(self) -> None:
        """All of it is in memory."""

    checks = SimpleNamespace(log=lambda *_: None)

    def log_view(self, offset: int, most: int) -> memoryview | None:
        size = min(most, self.max_physical_offset - offset)
        return memoryview(bytes(size)) if size > 0 else None


class Bench:
    """A broker at port 10911, so that its HA port is 10912; its log ends at 1000 when it is opened."""

    def __init__(self, **settings: Any) -> None:
        self.now = 5_000
        self.log = Log(1000)
        wanted = {"listen_port": 10911, "broker_ip1": "10.0.0.5", "broker_ip2": "", "bind_address": "127.0.0.1"}
        self.config = BrokerConfig(**wanted | settings)
        self.role = Role(self.config, 10911)
        store = cast("MessageStore", self.log)
        self.subject = Replication(self.config, store, self.role, ADDRESS, lambda: self.now)
        self.subject.open()

    def slave_at(self, end: int, host: str = "10.0.0.7") -> SlaveLink:
        """A slave connects that has the log up to ``end``."""
        link = SlaveLink(self.subject.master)
        link.connection_made(End(link, (host, 4711)))
        link.data_received(pack_report(end))
        return link


# -- ports


async def test_the_ha_port_is_the_one_after_the_brokers() -> None:
    bench, network = Bench(), Network()
    await bench.subject.start()
    assert list(network.listening) == [10912]
    assert bench.role.ha_address == "10.0.0.5:10912"
    await bench.subject.stop()
    assert network.listening == {}
    await bench.subject.stop()


@pytest.mark.parametrize(("listen_port", "level"), [(10911, logging.WARNING), (0, logging.INFO)])
async def test_another_ha_port_is_taken_if_that_one_is_not_free(
    listen_port: int, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    bench, network = Bench(listen_port=listen_port), Network()
    network.taken.add(10912)
    with caplog.at_level(logging.INFO):
        await bench.subject.start()
    [port] = network.listening
    assert bench.role.ha_port == port != 10912
    assert bench.role.ha_address == f"10.0.0.5:{port}"
    [record] = [record for record in caplog.records if "listening for slaves at" in record.message]
    assert record.levelno == level
    assert record.message == (
        "cannot listen for slaves at 127.0.0.1:10912 (haListenPort): Address already in use; "
        f"listening for slaves at {port} instead"
    )
    await bench.subject.stop()


async def test_a_configured_ha_port_must_be_free() -> None:
    bench, network = Bench(ha_listen_port=20912), Network()
    network.taken.add(20912)
    with pytest.raises(ConfigError, match=r"127.0.0.1:20912 \(haListenPort\): Address already in use"):
        await bench.subject.start()
    assert network.listening == {}


# -- a slave


async def test_a_slave_fetches_from_the_master_that_is_reported() -> None:
    bench, network = Bench(**SLAVE), Network()
    assert bench.subject.slave is not None
    await bench.subject.start()
    assert bench.subject.slave.address is None
    taken: list[asyncio.Protocol] = []
    network.listening[30912] = lambda: taken.append(asyncio.Protocol()) or taken[-1]
    bench.role.update_master("name server", "10.0.0.1:30911", "10.0.0.1:30912")
    assert bench.subject.slave.address == "10.0.0.1:30912"
    await until(lambda: bench.subject.slave is not None and bench.subject.slave.is_connected)
    bench.now += 20_001
    bench.subject.tick()
    assert network.ends[0].ended == "abort", "the master was silent"
    await bench.subject.stop()
    assert 10912 not in network.listening
    attempts = len(network.attempts)
    await asyncio.sleep(30)
    assert len(network.attempts) == attempts


async def test_the_master_in_the_settings_is_followed_from_the_start() -> None:
    bench, _ = Bench(**SLAVE, ha_master_address="10.0.0.1:30912"), Network()
    await bench.subject.start()
    assert bench.subject.slave is not None
    assert bench.subject.slave.address == "10.0.0.1:30912"
    await bench.subject.stop()


def test_a_master_is_no_slave() -> None:
    bench = Bench()
    assert bench.subject.slave is None
    bench.subject._follow("10.0.0.1:30912")
    assert bench.subject.slave is None


# -- the end of a master


async def test_a_master_that_stops_waits_for_its_slaves_in_sync(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    ahead, behind = bench.slave_at(400), bench.slave_at(700, "10.0.0.8")
    loop = asyncio.get_running_loop()
    begin = loop.time()
    loop.call_later(1, ahead.data_received, pack_report(1000))
    await bench.subject.hand_over(3.0)
    assert 3.0 <= loop.time() - begin < 3.5
    [record] = caplog.records
    assert record.message == (f"the slave {behind.address} lacks the last 300 bytes of the log, and this master stops")
    caplog.clear()
    begin = loop.time()
    loop.call_later(1, behind.data_received, pack_report(1000))
    await bench.subject.hand_over(3.0)
    assert 1.0 <= loop.time() - begin < 1.5
    assert not caplog.records


async def test_a_slave_that_has_reported_nothing_lacks_the_whole_log(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    link = SlaveLink(bench.subject.master)
    link.connection_made(End(link))
    await bench.subject.hand_over(0.1)
    assert "lacks the last 1000 bytes of the log" in caplog.text


async def test_a_silent_slave_is_disconnected() -> None:
    bench = Bench()
    bench.slave_at(1000)
    bench.now += 20_001
    bench.subject.tick()
    await asyncio.sleep(0)
    assert bench.subject.master.links == []


# -- how many slaves a send needs


@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SLAVE"])
def test_only_a_sync_master_waits_for_slaves(role: str) -> None:
    settings = SLAVE if role == "SLAVE" else {"broker_role": role}
    assert Bench(in_sync_replicas=3, total_replicas=3, **settings).subject.slaves_wanted() == 0


@pytest.mark.parametrize(("replicas", "wanted"), [(1, 0), (2, 1), (3, 2)])
async def test_a_sync_master_waits_for_the_configured_number(replicas: int, wanted: int) -> None:
    bench = Bench(broker_role="SYNC_MASTER", in_sync_replicas=replicas, total_replicas=3)
    assert bench.subject.slaves_wanted() == wanted


@pytest.mark.parametrize(
    ("alive", "adapts", "expected"),
    [(3, False, 1), (2, False, 1), (1, False, None), (1, True, 0), (3, True, 1)],
)
async def test_slaves_that_are_not_alive_do_not_count(alive: int, adapts: bool, expected: int | None) -> None:
    bench = Bench(
        broker_role="SYNC_MASTER", in_sync_replicas=2, total_replicas=3, min_in_sync_replicas=1,
        enable_slave_acting_master=True, enable_auto_in_sync_replicas=adapts,
    )  # fmt: skip
    bench.slave_at(1000)
    bench.slave_at(900, "10.0.0.8")
    bench.role.alive_replicas = alive
    assert bench.subject.slaves_wanted() == expected


async def test_slaves_that_are_not_connected_or_lag_do_not_count() -> None:
    bench = Bench(
        broker_role="SYNC_MASTER", in_sync_replicas=2, total_replicas=3, enable_slave_acting_master=True,
        ha_max_gap_not_in_sync=300,
    )  # fmt: skip
    assert bench.subject.slaves_wanted() is None
    bench.slave_at(700)
    assert (bench.subject.in_sync_slaves(), bench.subject.slaves_wanted()) == (0, None)
    bench.slave_at(701, "10.0.0.8")
    assert (bench.subject.in_sync_slaves(), bench.subject.slaves_wanted()) == (1, 1)


# -- what it tells


def test_a_master_names_its_ha_address_and_where_its_log_began() -> None:
    bench = Bench()
    bench.log.max_physical_offset = 2000
    found = bench.subject.exchange(ExchangeHaInfo())
    assert found.to_ext() == {
        "masterHaAddress": "10.0.0.5:10912", "masterFlushOffset": "1000", "masterAddress": ADDRESS,
    }  # fmt: skip


def test_a_slave_names_no_master() -> None:
    assert Bench(**SLAVE).subject.exchange(ExchangeHaInfo()).to_ext() == {}


def test_a_slave_hears_of_its_master_from_a_broker_of_its_name() -> None:
    bench = Bench(**SLAVE)
    told = ExchangeHaInfo(master_ha_address="10.0.0.1:30912", master_address="10.0.0.1:30911", master_flush_offset=7)
    assert bench.subject.exchange(told).to_ext() == {}
    assert bench.role.master == ("10.0.0.1:30911", "10.0.0.1:30912")


async def test_the_status_of_a_master_lists_its_slaves() -> None:
    bench = Bench()
    bench.slave_at(400)
    bench.log.max_physical_offset += 1 << 30
    bench.now += 1_500
    status = bench.subject.status()
    assert status.pop("haClientRuntimeInfo") == dict.fromkeys(
        ["lastReadTimestamp", "lastWriteTimestamp", "masterFlushOffset", "maxOffset", "transferredByteInSecond"], 0
    )
    assert status.pop("haConnectionInfo") == [
        {
            "addr": "10.0.0.7:4711", "diff": 600 + (1 << 30), "inSync": False, "slaveAckOffset": 400,
            "transferFromWhere": 1000, "transferredByteInSecond": 600,
        }
    ]  # fmt: skip
    assert status == {"inSyncSlaveNums": 0, "master": True, "masterCommitLogMaxOffset": 1000 + (1 << 30)}
    bench.log.max_physical_offset = 1000
    assert bench.subject.status()["inSyncSlaveNums"] == 1


async def test_the_status_of_a_slave_describes_its_connection() -> None:
    bench, network = Bench(**SLAVE), Network()
    bench.subject.master_flushed(77)
    bench.subject.master_flushed(None)
    status = bench.subject.status()
    assert status == {
        "haClientRuntimeInfo": {
            "lastReadTimestamp": 0, "lastWriteTimestamp": 5_000, "masterFlushOffset": 77, "maxOffset": 1000,
            "transferredByteInSecond": 0,
        },
        "haConnectionInfo": [], "inSyncSlaveNums": 0, "master": False, "masterCommitLogMaxOffset": 0,
    }  # fmt: skip
    network.listening[30912] = asyncio.Protocol
    await bench.subject.start()
    bench.role.update_master("name server", None, "10.0.0.1:30912")
    bench.role.update_master("name server", "10.0.0.1:30911", "10.0.0.1:30912")
    bench.now = 6_000
    await until(lambda: bench.subject.slave is not None and bench.subject.slave.is_connected)
    found: Any = bench.subject.status()["haClientRuntimeInfo"]
    assert (found["masterAddr"], found["lastReadTimestamp"], found["lastWriteTimestamp"]) == (
        "10.0.0.1:30912", 6_000, 6_000,
    )  # fmt: skip
    bench.slave_at(1000)
    status = bench.subject.status()
    assert (status["haConnectionInfo"], status["inSyncSlaveNums"]) == ([], 0)
    await bench.subject.stop()


def test_a_master_does_not_keep_another_masters_flushed_offset() -> None:
    bench = Bench()
    bench.subject.master_flushed(77)
    assert bench.subject._master_flushed == 0
