"""A master sends old parts of its log that are not in memory: a thread loads them for the slave that needs them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketmq_py.broker.config.broker_config import SYNC_MASTER
from rocketmq_py.broker.ha.master import HaMaster, SlaveLink
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.ha import pack_report
from tests.unit.broker.cold import cold_broker, finish
from tests.unit.broker.ha.test_master import Transport
from tests.unit.broker.harness import InProcess
from tests.unit.broker.requests import send
from tests.unit.store.coldfs import ColdFileSystem
from tests.unit.store.memoryfs import PAGE

READER = "ha-read"
FILE = 64 * 1024


def fill(running: InProcess) -> None:
    """Some files of the log."""
    client = running.connect()
    for number in range(200):
        assert client.ask(Code.SEND_MESSAGE_V2, send("t"), bytes([number]) * 1000).code == 0


class Receiver(Transport):
    """A transport that reads what is written, as a socket does; the file system notes what is cold."""

    def __init__(self, link: SlaveLink, fs: ColdFileSystem, host: str = "10.0.0.1") -> None:
        self._fs = fs
        self.data = b""
        super().__init__(link, host)

    def writelines(self, list_of_data: Iterator[bytes | memoryview]) -> None:  # type: ignore[override]
        pieces = list(map(bytes, list_of_data))
        super().writelines(pieces)
        self.data += b"".join(pieces[1::2])  # without the headers of frames
        self._fs.note_sent(sum(map(len, pieces[1::2])))


class WatchedFiles(ColdFileSystem):
    """Notes what a master sends of a log that is not in memory: reads through views are not noted."""

    sent = 0

    def note_sent(self, size: int) -> None:
        log = next(path.parent for path in self.nodes if "commitlog" in str(path.parent))
        for at in (self.sent, *range(-(-self.sent // PAGE) * PAGE, self.sent + size, PAGE)):
            self.note_read(log / f"{at - at % FILE:020}", range(at % FILE, at % FILE + 1))
        self.sent += size


@contextmanager
def master(root: Path) -> Iterator[tuple[InProcess, WatchedFiles, HaMaster]]:
    settings = {"mapped_file_size_commit_log": FILE}
    with cold_broker(root, fill, by_hand=[READER], store=settings, broker_role=SYNC_MASTER, fs=WatchedFiles()) as (
        running, fs,
    ):  # fmt: skip
        assert isinstance(fs, WatchedFiles)
        yield running, fs, running.services.replication.master


def log_of(running: InProcess) -> bytes:
    end, found = running.services.store.max_physical_offset, b""
    while len(found) < end:
        view = running.services.store.log_view(len(found), 1 << 30)
        assert view is not None
        found += bytes(view)
    return found


def join(ha: HaMaster, fs: ColdFileSystem, at: int = 0, host: str = "10.0.0.1") -> Receiver:
    link = SlaveLink(ha)
    transport = Receiver(link, fs, host)
    link.data_received(pack_report(at))
    return transport


def report_from_start(ha: HaMaster, fs: ColdFileSystem) -> Receiver:
    """A slave that has only the first bytes of the log, so that it is sent the log from there on."""
    return join(ha, fs, 1)


async def test_cold_parts_are_loaded_in_a_thread_and_sent_in_order(tmp_path: Path) -> None:
    with master(tmp_path) as (running, fs, ha):
        fs.sent = 1
        slave = report_from_start(ha, fs)
        assert slave.data == b""
        await finish(running, [READER])
        assert fs.cold_reads == []
        assert slave.data == log_of(running)[1:]


async def test_a_slave_that_is_near_does_not_wait_for_one_that_is_far_behind(tmp_path: Path) -> None:
    with master(tmp_path) as (running, fs, ha):
        end = running.services.store.max_physical_offset
        fs.sent = 1
        far = report_from_start(ha, fs)
        near = join(ha, WatchedFiles(), end, "10.0.0.2")
        near._fs.note_sent = lambda _: None  # type: ignore[attr-defined]
        running.connect().call(Code.SEND_MESSAGE_V2, send("t"), b"new")
        assert b"new" in near.data
        assert far.data == b""
        await finish(running, [READER])
        assert far.data == log_of(running)[1:]


async def test_a_disk_that_fails_is_tried_again_and_nothing_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with master(tmp_path) as (running, fs, ha):
        fs.failing, fs.sent = {"load"}, 1
        slave = report_from_start(ha, fs)
        for _ in range(3):
            await finish(running, [READER])
            assert slave.data == b""
            ha.tick()
        assert caplog.text.count("the log cannot be read from 1 on for the slave") == 1
        fs.failing = set()
        with caplog.at_level(logging.WARNING):
            ha.tick()
            await finish(running, [READER])
        assert "the log can be read again for the slave" in caplog.text
        assert slave.data == log_of(running)[1:]


async def test_a_slave_that_leaves_during_a_load_gets_nothing(tmp_path: Path) -> None:
    with master(tmp_path) as (running, fs, ha):
        slave = report_from_start(ha, fs)
        slave.abort()
        await finish(running, [READER])
        assert slave.data == b""
        assert ha.links == []


async def test_what_is_in_memory_and_what_cannot_be_told_is_sent_at_once(tmp_path: Path) -> None:
    with master(tmp_path) as (running, fs, ha):
        fs.sent, fs.tells_residency = 1, False
        slave = report_from_start(ha, fs)
        await asyncio.sleep(0)
        assert slave.data == log_of(running)[1:]
        assert fs.cold_reads
