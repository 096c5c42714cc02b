"""The connection of a slave to its master, with transports in memory: what it appends and reports, when it ends."""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.ha.slave import HaSlave, MasterLink
from rocketmq_py.errors import ReplicaRefused, StoreNotWritable
from rocketmq_py.protocol.ha import pack_header, pack_report
from rocketmq_py.server.tls import TlsMode, TlsSettings
from rocketmq_py.store import MessageStore
from tests.unit.broker.network import End, Network, until

PORT = 10912
ADDRESS = f"10.0.0.1:{PORT}"


class Replica:
    """The log of a slave that ends at ``end``. ``fault`` is raised by the next append."""

    def __init__(self, end: int = 100) -> None:
        self.end = end
        self.appended: list[tuple[int, bytes]] = []
        self.dispatched = 0
        self.fault: Exception | None = None

    def append(self, offset: int, data: memoryview) -> None:
        if self.fault is not None:
            raise self.fault
        self.appended.append((offset, bytes(data)))
        self.end = max(self.end, offset + len(data))

    def dispatch(self) -> None:
        self.dispatched += 1


class Bench:
    def __init__(self, tls: TlsSettings | None = None, **settings: Any) -> None:
        self.now = 1_000
        self.replica = Replica()
        self.config = BrokerConfig(broker_role="SLAVE", broker_id=1, **settings)
        store = cast("MessageStore", SimpleNamespace(replica=self.replica))
        self.slave = HaSlave(self.config, store, lambda: self.now, tls)

    def link(self) -> tuple[MasterLink, End]:
        link = MasterLink(self.slave)
        end = End(link)
        link.connection_made(end)
        return link, end


def frame(offset: int, data: bytes) -> bytes:
    return pack_header(offset, len(data)) + data


# -- one connection


async def test_the_end_of_the_log_is_reported_first() -> None:
    bench = Bench()
    bench.now = 1_500
    _, end = bench.link()
    assert bytes(end.written) == pack_report(100)
    assert end.options == [(6, 1, 1)], "TCP_NODELAY"
    assert bench.slave.written_ms == 1_500


async def test_what_arrives_is_appended_dispatched_and_reported() -> None:
    bench = Bench()
    link, end = bench.link()
    bench.now += 7
    data = frame(100, b"abcdef")
    link.data_received(data[:14])
    link.data_received(data[14:] + frame(106, b"gh"))
    assert bench.replica.appended == [(100, b"ab"), (102, b"cdef"), (106, b"gh")]
    assert bench.replica.dispatched == 2
    assert bytes(end.written) == pack_report(100) + pack_report(102) + pack_report(108)
    assert (bench.slave.read_ms, bench.slave.written_ms) == (1_007, 1_007)
    bench.now = 2_500
    assert bench.slave.received.last_second(2_000) == len(data) + 14


async def test_a_heartbeat_of_the_master_is_not_answered() -> None:
    bench = Bench()
    link, end = bench.link()
    bench.now += 5
    link.data_received(pack_header(100, 0))
    assert bench.slave.read_ms == 1_005
    assert bytes(end.written) == pack_report(100)
    link.data_received(frame(100, b"")[:5])
    assert bytes(end.written) == pack_report(100)


@pytest.mark.parametrize("fault", [ReplicaRefused("it has a gap"), StoreNotWritable("the disk is full")])
async def test_a_log_that_cannot_be_appended_ends_the_connection(fault: Exception) -> None:
    bench = Bench()
    link, end = bench.link()
    bench.replica.fault = fault
    bench.slave._attempts = 3
    link.data_received(frame(100, b"abc"))
    assert (end.ended, link.fault) == ("abort", fault)
    assert bytes(end.written) == pack_report(100)
    assert bench.slave._attempts == 3, "nothing valid has arrived"


async def test_a_corrupt_frame_ends_the_connection() -> None:
    bench = Bench()
    link, end = bench.link()
    link.data_received(pack_header(-1, 4))
    assert end.ended == "abort"
    assert "is that a master's HA port?" in str(link.fault)


async def test_the_first_reason_for_an_end_counts() -> None:
    link, end = Bench().link()
    link.end("one")
    link.end("two")
    link.connection_lost(OSError("three"))
    link.connection_lost(None)
    assert link.fault == "one"
    assert (end.ended, link.done.done()) == ("abort", True)


@pytest.mark.parametrize(("why", "said"), [(None, "the master has closed the connection"), (OSError("reset"), "reset")])
async def test_an_end_without_a_reason_is_the_masters(why: Exception | None, said: str) -> None:
    link, _ = Bench().link()
    assert not link.done.done()
    link.connection_lost(why)
    assert str(link.fault) == said
    assert link.done.done()


@pytest.mark.parametrize(("passed", "reports"), [(5_000, 1), (5_001, 2)])
async def test_a_heartbeat_is_sent_after_five_seconds(passed: int, reports: int) -> None:
    bench = Bench()
    link, end = bench.link()
    bench.now += passed
    bench.slave.read_ms = bench.now
    link.tick(bench.now)
    assert bytes(end.written) == pack_report(100) * reports
    assert end.ended == ""
    link.tick(bench.now)
    assert bytes(end.written) == pack_report(100) * reports


@pytest.mark.parametrize(("passed", "ended"), [(20_000, ""), (20_001, "abort")])
async def test_a_silent_master_is_left_after_twenty_seconds(passed: int, ended: str) -> None:
    bench = Bench()
    link, end = bench.link()
    bench.now += passed
    bench.slave.written_ms = bench.now
    link.tick(bench.now)
    assert end.ended == ended
    assert link.fault == (f"nothing was received for {passed} ms (haHousekeepingInterval)" if ended else None)


# -- following a master


class Master(asyncio.Protocol):
    """Takes connections and remembers what slaves say."""

    taken: list[Master]

    def __init__(self) -> None:
        self.heard = b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.taken.append(self)

    def data_received(self, data: bytes) -> None:
        self.heard += data


class Following:
    """A slave and a network on which masters listen at some ports."""

    def __init__(self, bench: Bench, *ports: int) -> None:
        self.bench, self.slave = bench, bench.slave
        self.network = Network()
        self.masters: list[Master] = []
        factory = type("Taking", (Master,), {"taken": self.masters})
        for port in ports or (PORT,):
            self.network.listening[port] = factory

    async def connected(self, count: int = 1) -> Master:
        await until(lambda: len(self.masters) >= count and self.masters[-1].heard and self.slave.is_connected)
        return self.masters[-1]


async def test_the_log_is_fetched_as_soon_as_a_master_is_known() -> None:
    following = Following(Bench())
    slave = following.slave
    slave.start()
    for _ in range(5):
        await asyncio.sleep(0)
    assert following.network.attempts == []
    assert not slave.is_connected
    slave.follow(ADDRESS)
    master = await following.connected()
    assert slave.address == ADDRESS
    assert following.network.attempts == [("10.0.0.1", PORT, False)]
    master.transport.write(frame(100, b"abc"))
    await until(lambda: master.heard == pack_report(100) + pack_report(103))
    await slave.stop()
    assert not slave.is_connected
    assert master.transport.is_closing()
    await slave.stop()


async def test_another_master_is_followed_at_once() -> None:
    following = Following(Bench(), PORT, 20912)
    following.slave.start()
    following.slave.follow(ADDRESS)
    first = await following.connected()
    following.slave.follow(ADDRESS)
    assert not first.transport.is_closing(), "it is the same one"
    following.slave.follow("10.0.0.9:20912")
    second = await following.connected(2)
    assert first.transport.is_closing()
    assert not second.transport.is_closing()
    assert [attempt[:2] for attempt in following.network.attempts] == [("10.0.0.1", PORT), ("10.0.0.9", 20912)]
    await following.slave.stop()


async def test_without_a_master_the_connection_is_closed_and_none_is_made() -> None:
    following = Following(Bench())
    following.slave.start()
    following.slave.follow(ADDRESS)
    master = await following.connected()
    following.slave.follow(None)
    await until(lambda: not following.slave.is_connected)
    assert master.transport.is_closing()
    await asyncio.sleep(60)
    assert len(following.network.attempts) == 1
    following.slave.follow(ADDRESS)
    await following.connected(2)
    await following.slave.stop()


async def test_a_broken_connection_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    following = Following(Bench())
    following.slave.start()
    following.slave.follow(ADDRESS)
    master = await following.connected()
    master.transport.write(pack_header(100, 0))
    master.transport.break_()
    again = await following.connected(2)
    assert f"the log of the master cannot be fetched from {ADDRESS}: the connection broke; trying again" in caplog.text
    again.transport.write(pack_header(100, 0))
    await until(lambda: f"fetching the log of the master from {ADDRESS} again" in caplog.text)
    assert following.slave._logged is None
    await following.slave.stop()


async def test_delays_between_attempts_grow_up_to_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    following = Following(Bench())
    following.network.listening.clear()
    slave = following.slave
    slave.start()
    slave.follow(ADDRESS)
    await asyncio.sleep(22)
    times = following.network.times
    waits = [after - before for before, after in itertools.pairwise(times)]
    for wait, expected in zip(waits, [0.1, 0.2, 0.5, 1, 2, 5, 5, 5], strict=True):
        assert expected <= wait <= expected + 0.09
    assert [record.levelno for record in caplog.records if "cannot be fetched" in record.message] == [logging.WARNING]
    slave.follow("10.0.0.9:1")
    assert slave._attempts == 0
    await slave.stop()


async def test_valid_bytes_begin_the_delays_anew() -> None:
    following = Following(Bench())
    following.network.faults = [ConnectionRefusedError(111, "refused") for _ in range(4)]
    following.slave.start()
    following.slave.follow(ADDRESS)
    master = await following.connected()
    assert following.slave._attempts == 4
    master.transport.write(pack_header(100, 0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert following.slave._attempts == 0
    lost = asyncio.get_running_loop().time()
    master.transport.break_()
    await following.connected(2)
    assert 0.1 <= following.network.times[-1] - lost <= 0.15
    await following.slave.stop()


async def test_a_master_whose_log_differs_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    following = Following(bench)
    bench.replica.fault = ReplicaRefused("it begins at 7")
    following.slave.start()
    following.slave.follow(ADDRESS)
    master = await following.connected()
    master.transport.write(frame(7, b"x"))
    await following.connected(2)
    [record] = [record for record in caplog.records if "cannot be fetched" in record.message]
    assert record.levelno == logging.ERROR
    assert f"from {ADDRESS}: it begins at 7" in record.message
    await following.slave.stop()


async def test_the_time_of_the_last_byte_begins_with_the_attempt() -> None:
    bench = Bench()
    following = Following(bench)
    bench.now = 90_000
    following.slave.start()
    following.slave.follow(ADDRESS)
    await following.connected()
    assert bench.slave.read_ms == 90_000
    following.slave.tick()
    assert bench.slave.is_connected
    bench.now += 20_001
    following.slave.tick()
    await until(lambda: not bench.slave.is_connected)
    await following.slave.stop()
    following.slave.tick()


# -- TLS


def tls(mode: TlsMode = TlsMode.PERMISSIVE) -> TlsSettings:
    return cast("TlsSettings", SimpleNamespace(client_context=object, server_mode=mode))


def not_tls() -> ssl.SSLError:
    fault = ssl.SSLError(1, "wrong version number")
    fault.reason, fault.library = "WRONG_VERSION_NUMBER", "SSL"
    return fault


def untrusted() -> ssl.SSLCertVerificationError:
    fault = ssl.SSLCertVerificationError(1, "certificate verify failed")
    fault.verify_code, fault.verify_message = 18, "self-signed certificate"
    return fault


async def test_a_master_without_tls_is_reached_without(caplog: pytest.LogCaptureFixture) -> None:
    following = Following(Bench(tls()))
    following.network.faults = [not_tls()]
    following.slave.start()
    following.slave.follow(ADDRESS)
    master = await following.connected()
    assert [attempt[2] for attempt in following.network.attempts] == [True, False]
    assert f"the HA port {ADDRESS} does not speak TLS, connecting without" in caplog.text
    master.transport.break_()
    await following.connected(2)
    assert [attempt[2] for attempt in following.network.attempts] == [True, False, False], "it is known by now"
    await following.slave.stop()


@pytest.mark.parametrize(
    ("mode", "fault"),
    [
        (TlsMode.ENFORCING, not_tls()),
        (TlsMode.PERMISSIVE, untrusted()),
        (TlsMode.PERMISSIVE, ConnectionRefusedError(111, "Connection refused")),
    ],
)
async def test_tls_is_not_given_up(mode: TlsMode, fault: Exception) -> None:
    """Neither where it is required, nor for a certificate that is not trusted, nor while nobody listens."""
    following = Following(Bench(tls(mode)))
    following.network.faults = [fault]
    following.slave.start()
    following.slave.follow(ADDRESS)
    await following.connected()
    assert [attempt[2] for attempt in following.network.attempts] == [True, True]
    await following.slave.stop()


async def test_without_tls_a_failing_connection_is_not_tried_twice_at_once() -> None:
    following = Following(Bench())
    following.network.faults = [ConnectionResetError(104, "reset")]
    loop = asyncio.get_running_loop()
    begin = loop.time()
    following.slave.start()
    following.slave.follow(ADDRESS)
    await following.connected()
    assert loop.time() - begin >= 0.1
    await following.slave.stop()
