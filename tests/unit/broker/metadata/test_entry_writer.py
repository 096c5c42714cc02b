"""Request modes and queue mappings are written in a thread, many changes together, and answered when on disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.entry_writer import EntryWriter
from rocketmq_py.broker.metadata.queue_mappings import TopicQueueMappings
from rocketmq_py.broker.metadata.request_modes import RequestModes
from rocketmq_py.protocol.bodies.pop import MessageRequestMode
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingItem
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.config.entry_file import EntryFile
from rocketmq_py.wire.fastjson import loads, pretty_object
from tests.unit.store.coldfs import ByHand
from tests.unit.store.memoryfs import MemoryFileSystem

FILE = Path("/store/config/table.json")


class Counting(MemoryFileSystem):
    """Counts the writes of files, and fails on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.failure: OSError | None = None

    def write(self, path: Path, data: bytes) -> None:
        if self.failure is not None:
            raise self.failure
        self.writes += path == FILE
        super().write(path, data)


def mode(number: int) -> MessageRequestMode:
    return MessageRequestMode(topic=f"t{number}", consumer_group="g", mode="POP")


def opened_modes(fs: MemoryFileSystem, thread: ByHand) -> RequestModes:
    anything: Any = SimpleNamespace(get=lambda _: "topic", find=lambda _: "group")
    modes = RequestModes(ConfigFile(FILE, fs), BrokerConfig(), anything, anything, thread)
    modes.load()
    return modes


def detail(topic: str) -> MappingDetail:
    items = [MappingItem(gen=0, queue_id=3, bname="broker-a", logic_offset=0)]
    return MappingDetail(topic=topic, bname="broker-a", total_queues=1, epoch=1, hosted_queues={0: items})


def opened_mappings(fs: MemoryFileSystem, thread: ByHand) -> TopicQueueMappings:
    mappings = TopicQueueMappings(ConfigFile(FILE, fs), "broker-a", lambda: 5, thread)
    mappings.load()
    return mappings


async def test_modes_wait_for_their_thread_and_are_written_together() -> None:
    fs, thread = Counting(), ByHand()
    modes = opened_modes(fs, thread)
    waiting = []
    for number in range(20):
        modes.set(mode(number))
        waiting.append(asyncio.create_task(modes.saved()))
        await asyncio.sleep(0)
    assert (fs.writes, len(thread.work), any(task.done() for task in waiting)) == (0, 1, False)
    thread.finish()
    await asyncio.gather(*waiting)
    assert fs.writes == 1
    assert opened_modes(fs, thread).modes == modes.modes


def test_modes_that_were_loaded_stay_in_the_file() -> None:
    fs, thread = Counting(), ByHand()
    modes = opened_modes(fs, thread)
    for _ in range(2):
        for number in range(3):
            modes.set(mode(number))
        thread.finish()
        modes = opened_modes(fs, thread)
    modes.set(mode(3))
    thread.finish()
    assert set(opened_modes(fs, thread).modes.message_request_mode_map) == {"t0", "t1", "t2", "t3"}


def test_mappings_are_written_in_their_thread_with_their_version() -> None:
    fs, thread = Counting(), ByHand()
    mappings = opened_mappings(fs, thread)
    for topic in ("u", "t", "v"):
        mappings.put(detail(topic), topic, force=False)
    mappings.delete("v")
    assert (fs.writes, len(thread.work)) == (0, 1)
    thread.finish()
    again = opened_mappings(fs, thread)
    assert (again.table, again.version.counter) == ({"t": detail("t"), "u": detail("u")}, 4)
    again.delete("t")
    thread.finish()
    assert list(opened_mappings(fs, thread).table) == ["u"]
    assert '"hostedQueues":{0:[' in "".join((fs.read(FILE) or b"").decode().split())


def test_a_change_during_a_write_is_written_by_the_next_one() -> None:
    thread = ByHand()

    class Slow(Counting):
        def write(self, path: Path, data: bytes) -> None:
            super().write(path, data)
            if self.writes == 1:
                modes.set(mode(2))

    fs = Slow()
    modes = opened_modes(fs, thread)
    modes.set(mode(1))
    modes_before = len(thread.work)
    thread.finish()
    assert (modes_before, len(thread.work) >= 1) == (1, True)
    while thread.work:
        thread.finish()
    assert set(opened_modes(fs, thread).modes.message_request_mode_map) == {"t1", "t2"}


async def test_a_failed_write_is_told_and_made_up_for(caplog: pytest.LogCaptureFixture) -> None:
    fs, thread = Counting(), ByHand()
    writer = EntryWriter(EntryFile(ConfigFile(FILE, fs), str, lambda texts: pretty_object(texts, 0)), thread)
    await writer.saved()
    fs.failure = OSError("full")
    for number in range(2):
        writer.save({f"k{number}": number})
        thread.finish()
        with pytest.raises(OSError, match="full"):
            await writer.saved()
    assert caplog.text.count("cannot be written") == 1
    fs.failure = None
    writer.save({"k2": 2})
    thread.finish()
    await writer.saved()
    assert loads(fs.read(FILE) or b"") == {"k0": 0, "k1": 1, "k2": 2}
    assert caplog.text.count("can be written again") == 1


async def test_a_request_that_is_cancelled_does_not_drop_its_change() -> None:
    fs, thread = Counting(), ByHand()
    modes = opened_modes(fs, thread)
    modes.set(mode(1))
    request = asyncio.create_task(modes.saved())
    await asyncio.sleep(0)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    thread.finish()
    assert fs.writes == 1
