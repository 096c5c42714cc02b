"""The connection of a slave, with a transport in memory: frames, refusals and back-pressure."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.broker.config.broker_config import SYNC_MASTER, BrokerConfig
from rocketmq_py.broker.ha.master import HaMaster, SlaveLink
from rocketmq_py.protocol.ha import pack_report
from rocketmq_py.store import MessageStore

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


def test_the_log_is_sent_from_the_end_of_the_slave() -> None:
    bench = Bench()
    link, transport = bench.connect()
    link.data_received(pack_report(400))
    assert (link.acknowledged, link.next, transport.written) == (400, 1000, 12 + 600)


def test_a_negative_offset_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    link, transport = bench.connect()
    link.data_received(pack_report(400))
    link.data_received(pack_report(-1))
    assert (transport.ended, bench.master.links) == ("abort", [])
    assert "closing the connection of the slave 127.0.0.1:4711: a slave reports that its log ends at -1" in caplog.text
    assert bench.master.acknowledged_offset(1) == -1, "its earlier report does not count any more"


def test_a_slave_cannot_acknowledge_what_it_was_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    link, transport = bench.connect()
    link.data_received(pack_report(400))
    link.data_received(pack_report(1 << 62))
    assert transport.ended == "abort"
    assert bench.master.acknowledged_offset(1) == -1
    assert "was sent no more than 1000" in caplog.text


def test_nothing_is_sent_before_the_first_report() -> None:
    bench = Bench()
    link, transport = bench.connect()
    link.data_received(pack_report(400)[:7])
    bench.now += 6_000
    bench.master.tick()
    assert (transport.written, link.acknowledged) == (0, -1)


def test_a_silent_slave_is_disconnected() -> None:
    bench = Bench()
    _, transport = bench.connect()
    bench.now += 20_001
    bench.master.tick()
    assert (transport.ended, bench.master.links) == ("abort", [])


def test_addresses_outside_the_allow_list_are_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ha_allowed_slaves="10.0.0.0/24")
    for _ in range(3):
        link, transport = bench.connect("10.0.1.1")
        link.data_received(pack_report(0))
        assert (transport.ended, transport.written, bench.master.links) == ("abort", 0, [])
    assert caplog.text.count("refused a connection to the HA port from 10.0.1.1:4711") == 1
    _, transport = bench.connect("10.0.0.7")
    assert (transport.ended, len(bench.master.links)) == ("", 1)
    bench.config.ha_allowed_slaves = ""
    _, transport = bench.connect("10.0.1.1")
    assert transport.ended == ""


def test_the_number_of_slaves_is_bounded() -> None:
    bench = Bench()
    ends = [bench.connect()[1].ended for _ in range(130)]
    assert ends == [""] * 128 + ["abort"] * 2
    assert len(bench.master.links) == 128


def test_a_slave_that_does_not_read_gets_nothing_more() -> None:
    bench = Bench(Log(0))
    link, transport = bench.connect()
    bench.log.max_physical_offset = 100
    link.data_received(pack_report(50))
    link.pause_writing()
    written = transport.written
    for _ in range(500):
        bench.log.max_physical_offset += 1 << 20
        bench.now += 1_000
        bench.master.written()
        link.data_received(pack_report(50))
        bench.master.tick()
    assert transport.written == written, "neither log nor heartbeats"


def test_a_slave_that_reads_again_gets_the_rest() -> None:
    bench = Bench()
    link, transport = bench.connect()
    link.data_received(pack_report(400))
    link.pause_writing()
    bench.log.max_physical_offset = 1500
    bench.master.written()
    link.resume_writing()
    assert (link.next, transport.written) == (1500, 12 + 600 + 12 + 500)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_raise_nothing(seed: int) -> None:
    """Anything is either a report within the log, or closes the connection."""
    logging.disable(logging.WARNING)
    try:
        chance = random.Random(seed)
        bench = Bench()
        for _ in range(50):
            link, transport = bench.connect()
            while not transport.ended and chance.random() < 0.9:
                data = chance.choice((chance.randbytes(chance.randrange(1, 40)), pack_report(chance.randrange(1200))))
                link.data_received(data)
            assert transport.ended or 0 <= link.acknowledged <= 1000 or link.acknowledged == -1
            transport.abort()
        assert bench.master.links == []
    finally:
        logging.disable(logging.NOTSET)


# -- what is sent when


def acknowledged(bench: Bench, at: int = 1000) -> tuple[SlaveLink, Transport]:
    """A slave that has the log up to an offset."""
    link, transport = bench.connect()
    link.data_received(pack_report(at))
    return link, transport


def test_a_slave_gets_a_burst_and_then_others_have_their_turn() -> None:
    async def test() -> None:
        bench = Bench(Log(5 << 20), ha_transfer_batch_size=256 << 10)
        link, transport = acknowledged(bench, 100)
        assert (link.next, transport.written) == (100 + (1 << 20), (1 << 20) + 4 * 12)
        await asyncio.sleep(0)
        assert link.next == 100 + (2 << 20)
        for _ in range(5):
            await asyncio.sleep(0)
        assert link.next == 5 << 20

    asyncio.run(test())


def test_flow_control_limits_the_bytes_of_a_second() -> None:
    bench = Bench(Log(5000), ha_flow_control_enable=True, max_ha_transfer_byte_in_second=1000)
    link, _ = acknowledged(bench, 100)
    assert link.next == 1100
    bench.master.tick()
    assert link.next == 1100
    bench.now += 1_000
    bench.master.tick()
    assert link.next == 2100


@pytest.mark.parametrize(("waited", "beats"), [(5_000, 0), (5_001, 1), (12_000, 1)])
def test_a_slave_that_has_everything_gets_heartbeats(waited: int, beats: int) -> None:
    bench = Bench()
    _, transport = acknowledged(bench)
    bench.now += waited
    bench.master.tick()
    bench.master.tick()
    assert transport.written == 12 * beats


def test_a_report_keeps_a_connection_and_a_transfer_counts_as_a_heartbeat() -> None:
    bench = Bench()
    link, transport = acknowledged(bench)
    for _ in range(3):
        bench.now += 20_000
        link.data_received(pack_report(1000))
        bench.master.tick()
    assert transport.ended == ""
    written = transport.written
    bench.log.max_physical_offset = 1_001
    bench.now += 4_000
    bench.master.tick()
    assert transport.written == written + 12 + 1
    bench.now += 4_000
    bench.master.tick()
    assert transport.written == written + 12 + 1


def test_a_synchronous_master_sends_at_once_and_others_gather() -> None:
    async def test(role: str) -> list[int]:
        bench = Bench()
        bench.config.broker_role = role
        link, _ = acknowledged(bench)
        seen = []
        for end in (1_001, 1_002):
            bench.log.max_physical_offset = end
            bench.master.written()
            seen.append(link.next)
        await asyncio.sleep(0.05)
        seen.append(link.next)
        bench.log.max_physical_offset = 1_003
        bench.master.written()
        await asyncio.sleep(0.05)
        seen.append(link.next)
        bench.log.max_physical_offset = 1_004
        bench.master.written()
        bench.master.close()
        await asyncio.sleep(0.05)
        assert bench.master.links == []
        return seen

    assert asyncio.run(test(SYNC_MASTER)) == [1_001, 1_002, 1_002, 1_003]
    assert asyncio.run(test("ASYNC_MASTER")) == [1_000, 1_000, 1_002, 1_003]


def test_nothing_is_gathered_without_slaves() -> None:
    bench = Bench()
    bench.config.broker_role = "ASYNC_MASTER"
    bench.master.written()
    assert bench.master._gathering is None


# -- slaves that cannot be served


def test_a_slave_ahead_of_the_master_is_refused_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    for _ in range(2):
        link, transport = bench.connect()
        link.data_received(pack_report(1001))
        assert (transport.ended, transport.written, link.acknowledged) == ("close", 0, -1)
        link.data_received(pack_report(10))
        assert link.acknowledged == -1
    assert caplog.text.count("has the log up to 1001, this master only up to 1000") == 1
    acknowledged(bench)
    assert "the slave 127.0.0.1:4711 is served again" in caplog.text
    acknowledged(bench)
    assert caplog.text.count("is served again") == 1


def test_a_slave_that_needs_expired_files_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    link, _ = bench.connect()
    link.data_received(pack_report(400))
    link.next = 400
    bench.log.log_view = lambda *_: None  # type: ignore[method-assign]
    bench.log.min_physical_offset = 400
    bench.master.tick()
    assert caplog.messages == []
    bench.log.min_physical_offset = 401
    bench.master.tick()
    bench.master.tick()
    assert [message.partition(",")[0] for message in caplog.messages] == [
        "the slave 127.0.0.1:4711 needs the log from 400 on"
    ]  # fmt: skip


def test_refusals_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ha_allowed_slaves="10.0.0.7")
    for seconds in (0, 1, 60):
        bench.now += seconds * 1_000
        bench.connect("10.0.1.1")
    lines = [message for message in caplog.messages if "refused a connection" in message]
    assert [line.rpartition(": ")[2] for line in lines] == [
        "its address is not in haAllowedSlaves (0 more since the last such line)",
        "its address is not in haAllowedSlaves (1 more since the last such line)",
    ]  # fmt: skip


# -- progress, and the end


def test_progress_is_told_to_listeners() -> None:
    bench = Bench()
    heard: list[int] = []
    bench.master.add_progress_listener(lambda: heard.append(bench.master.acknowledged_offset(1)))
    link, _ = acknowledged(bench, 400)
    link.data_received(pack_report(1000))
    link.data_received(pack_report(1000)[:3])
    assert heard == [400, 1000]
    acknowledged(bench, 700)
    assert [bench.master.acknowledged_offset(count) for count in (1, 2, 3)] == [1000, 700, -1]


def test_a_master_waits_for_the_slaves_that_are_in_sync() -> None:
    async def test() -> None:
        bench = Bench()
        link, _ = acknowledged(bench, 400)
        waiting = asyncio.ensure_future(bench.master.hand_over(3.0))
        await asyncio.sleep(1)
        assert not waiting.done()
        link.data_received(pack_report(999))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        link.data_received(pack_report(1000))
        assert await waiting == []

    asyncio.run(test())


def test_a_master_does_not_wait_for_ever() -> None:
    async def test() -> None:
        bench = Bench()
        link, _ = acknowledged(bench, 400)
        began = asyncio.get_running_loop().time()
        assert await bench.master.hand_over(3.0) == [link]
        assert asyncio.get_running_loop().time() - began == pytest.approx(3.0, abs=0.3)
        assert await bench.master.hand_over(0) == [link]

    asyncio.run(test())


def test_a_slave_that_leaves_is_not_waited_for() -> None:
    async def test() -> None:
        bench = Bench()
        link, _ = acknowledged(bench, 400)
        waiting = asyncio.ensure_future(bench.master.hand_over(3.0))
        await asyncio.sleep(0.05)
        link.abort()
        assert await waiting == []
        _, transport = acknowledged(bench, 0)
        bench.config.ha_max_gap_not_in_sync = 100
        assert await bench.master.hand_over(3.0) == [], "it is too far behind to be waited for"
        assert transport.ended == ""

    asyncio.run(test())


def test_what_was_held_back_is_sent_while_a_master_waits() -> None:
    async def test() -> None:
        bench = Bench()
        link, _ = acknowledged(bench, 400)
        bench.log.max_physical_offset = 1_500
        waiting = asyncio.ensure_future(bench.master.hand_over(3.0))
        await asyncio.sleep(0)
        assert link.next == 1_500
        link.data_received(pack_report(1_500))
        assert await waiting == []

    asyncio.run(test())


def test_both_ends_send_without_delay() -> None:
    options: list[tuple[int, ...]] = []

    class Noting(Transport):
        def get_extra_info(self, name: str, default: Any = None) -> Any:
            if name == "socket":
                return SimpleNamespace(setsockopt=lambda *option: options.append(option))
            return super().get_extra_info(name, default)

    bench = Bench()
    Noting(SlaveLink(bench.master), "127.0.0.1")
    assert options == [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
