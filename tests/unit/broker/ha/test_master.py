"""The connection of a slave, with a transport in memory: frames, refusals and back-pressure."""

from __future__ import annotations

import asyncio
import logging
import random
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
