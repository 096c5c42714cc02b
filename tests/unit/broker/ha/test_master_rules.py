"""The connection of a slave, with a transport in memory: frames, refusals and back-pressure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.broker.config.broker_config import SYNC_MASTER, BrokerConfig
from rocketmq_py.broker.ha.master import HaMaster, SlaveLink
from rocketmq_py.protocol.ha import pack_report
from rocketmq_py.store import MessageStore
from tests.unit.broker.network import until

FILE = 4096


class Log:
    """The part of a store that replication reads."""

    def __init__(self, end: int = 1000) -> None:
        self.max_physical_offset = end
        self.min_physical_offset = 0
        self.config = SimpleNamespace(mapped_file_size_commit_log=FILE)

    def new_residency(self) -> None:
        """All of it is in memory."""

    checks = SimpleNamespace(log=lambda *_: None)

    def log_view(self, offset: int, most: int) -> memoryview | None:
        size = min(most, self.max_physical_offset - offset)
        return memoryview(bytes(size)) if size > 0 else None


class Transport(asyncio.Transport):
    """Records what is written; calls ``connection_lost`` itself when it is closed."""

    def __init__(self, link: SlaveLink, host: str) -> None:
        super().__init__()
        self._link, self._host = link, host
        self.written = 0
        self.ended = ""
        link.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return (self._host, 4711)
        return SimpleNamespace(setsockopt=lambda *_: None) if name == "socket" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.written += sum(map(len, list_of_data))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self._end("close")

    def abort(self) -> None:
        self._end("abort")

    def _end(self, how: str) -> None:
        if not self.ended:
            self.ended = how
            self._link.connection_lost(None)


class Bench:
    def __init__(self, log: Log | None = None, **settings: Any) -> None:
        self.now = 1_000
        self.log = log or Log()
        self.config = BrokerConfig(broker_role=SYNC_MASTER, **settings)
        self.master = HaMaster(self.config, cast("MessageStore", self.log), lambda: self.now)

    def connect(self, host: str = "127.0.0.1") -> tuple[SlaveLink, Transport]:
        link = SlaveLink(self.master)
        return link, Transport(link, host)


# -- listening, flow control, and the log of problems


async def test_listeners_hear_of_every_report_and_waits_of_the_end() -> None:
    bench = Bench()
    heard: list[int] = []
    for number in (1, 2):
        bench.master.add_progress_listener(lambda number=number: heard.append(number))
    link, _ = bench.connect()
    link.data_received(pack_report(400))
    assert heard == [1, 2]
    link.data_received(pack_report(1_000)[:3])
    assert heard == [1, 2]
    assert (bench.master.acknowledged_offset(1), bench.master.acknowledged_offset(2)) == (400, -1)


def test_a_slave_that_is_ahead_is_let_go_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    for _ in range(2):
        link, transport = bench.connect()
        link.data_received(pack_report(1_001))
        assert (transport.ended, transport.written, link.next) == ("close", 0, -1)
    assert caplog.text.count("the slave 127.0.0.1:4711 has the log up to 1001, this master only up to 1000") == 1
    link, transport = bench.connect()
    link.data_received(pack_report(1_000))
    assert transport.ended == ""
    assert caplog.text.count("the slave 127.0.0.1:4711 is served again") == 1


def test_a_slave_with_an_empty_log_begins_with_the_newest_file() -> None:
    bench = Bench(Log(3 * FILE + 50))
    link, transport = bench.connect()
    link.data_received(pack_report(0))
    assert (link.next, transport.written) == (3 * FILE + 50, 12 + 50)


def test_a_slave_whose_part_has_expired_is_named_and_gets_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Log(2 * FILE))
    bench.log.min_physical_offset = FILE
    view = bench.log.log_view
    bench.log.log_view = lambda offset, most: view(offset, most) if offset >= FILE else None  # type: ignore[method-assign]
    link, transport = bench.connect()
    link.data_received(pack_report(FILE - 1))
    for _ in range(2):
        bench.master.tick()
    assert transport.written == 0
    assert caplog.text.count(f"needs the log from {FILE - 1} on, but it begins at {FILE}") == 1


@pytest.mark.parametrize(("passed", "beats"), [(5_000, 0), (5_001, 1)])
def test_a_heartbeat_is_sent_after_five_seconds(passed: int, beats: int) -> None:
    bench = Bench()
    link, transport = bench.connect()
    link.data_received(pack_report(1_000))
    bench.now += passed
    for _ in range(2):
        bench.master.tick()
    assert transport.written == 12 * beats


@pytest.mark.parametrize(("passed", "ended"), [(20_000, ""), (20_001, "abort")])
def test_a_slave_may_be_silent_for_twenty_seconds(passed: int, ended: str) -> None:
    bench = Bench()
    link, transport = bench.connect()
    bench.now += 7
    link.data_received(pack_report(1_000))
    bench.now += passed
    bench.master.tick()
    assert transport.ended == ended


def test_flow_control_sends_so_many_bytes_a_second() -> None:
    bench = Bench(ha_flow_control_enable=True, max_ha_transfer_byte_in_second=100)
    link, transport = bench.connect()
    link.data_received(pack_report(400))
    assert (link.next, transport.written) == (500, 12 + 100)
    bench.now += 999
    bench.master.tick()
    assert link.next == 500
    bench.now += 1
    bench.master.tick()
    assert link.next == 600
    assert link.sent.last_second(bench.now) == 100


async def test_a_burst_is_sent_over_several_turns_of_the_loop() -> None:
    bench = Bench(Log(5 << 19), ha_transfer_batch_size=1 << 20)
    link, transport = bench.connect()
    link.data_received(pack_report(1))
    assert transport.written == 12 + (1 << 20)
    await asyncio.sleep(0)
    assert transport.written == 2 * (12 + (1 << 20))
    for _ in range(3):
        await asyncio.sleep(0)
    assert link.next == 5 << 19


@pytest.mark.parametrize(("role", "waits"), [("ASYNC_MASTER", 0.002), ("SYNC_MASTER", 0)])
async def test_new_messages_are_gathered_unless_sends_wait_for_slaves(role: str, waits: float) -> None:
    bench = Bench()
    bench.config.broker_role = role
    link, transport = bench.connect()
    link.data_received(pack_report(1_000))
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for _ in range(3):
        bench.log.max_physical_offset += 10
        bench.master.written()
    if waits:
        assert transport.written == 0
        await until(lambda: transport.written)
        assert waits <= loop.time() - begin < 0.5
        assert transport.written == 12 + 30, "together"
        assert bench.master._gathering is None
    else:
        assert transport.written == 3 * (12 + 10)


async def test_a_closed_master_sends_nothing_and_leaves_its_slaves() -> None:
    bench = Bench()
    bench.config.broker_role = "ASYNC_MASTER"
    links = [bench.connect(host) for host in ("10.0.0.1", "10.0.0.2")]
    for link, _ in links:
        link.data_received(pack_report(1_000))
    bench.log.max_physical_offset += 10
    bench.master.written()
    bench.master.close()
    await asyncio.sleep(0.01)
    assert [transport.ended for _, transport in links] == ["abort", "abort"]
    assert [transport.written for _, transport in links] == [0, 0]
    assert bench.master.links == []
    bench.master.close()


def test_without_slaves_nothing_is_put_off() -> None:
    bench = Bench()
    bench.config.broker_role = "ASYNC_MASTER"
    bench.master.written()
    assert bench.master._gathering is None


@pytest.mark.parametrize(("seconds", "lines"), [(59, 1), (61, 2)])
def test_refusals_are_logged_once_a_minute(seconds: int, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ha_allowed_slaves="10.0.0.0/24")
    for _ in range(3):
        bench.connect("10.0.1.1")
    bench.now += seconds * 1_000
    bench.connect("10.0.1.1")
    said = [record.message for record in caplog.records]
    assert len(said) == lines
    assert said[0].endswith("its address is not in haAllowedSlaves (0 more since the last such line)")
    if lines == 2:
        assert said[1].endswith("(2 more since the last such line)")
