"""The checkpoint file: Java's fields, and the end of the log behind them."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from zlib import crc32

from rocketmq_py.store.log.checkpoint import Checkpoint
from tests.unit.store.memoryfs import MemoryFileSystem

PATH = Path("/store/checkpoint")


def saved(fs: MemoryFileSystem, log: int = 5_000, queues: int = 6_000, index: int = 7_000, end: int = 123) -> bytes:
    point = Checkpoint(fs, PATH)
    point.physic_msg_timestamp, point.logics_msg_timestamp, point.index_msg_timestamp = log, queues, index
    point.master_flushed_offset, point.confirm_physical_offset, point.end = 8, 9, end
    point.save()
    return fs.read(PATH) or b""


def test_the_file_has_the_fields_of_java_and_the_end_in_its_last_bytes() -> None:
    fs = MemoryFileSystem()
    times = pack(">qqqqq", 5_000, 6_000, 7_000, 8, 9)
    end = pack(">q", 123)
    assert saved(fs) == times + end + bytes(4096 - 48 - 12) + end + pack(">I", crc32(times + end)), (
        "5.5: an offset, too"
    )
    assert fs.nodes[PATH].durable == fs.read(PATH)
    assert fs.open_files == 0
    again = Checkpoint(fs, PATH)
    assert (again.physic_msg_timestamp, again.logics_msg_timestamp, again.index_msg_timestamp) == (5_000, 6_000, 7_000)
    assert (again.master_flushed_offset, again.confirm_physical_offset, again.end) == (8, 9, 123)


def test_a_new_checkpoint_knows_nothing() -> None:
    point = Checkpoint(MemoryFileSystem(), PATH)
    assert (point.physic_msg_timestamp, point.logics_msg_timestamp, point.index_msg_timestamp) == (0, 0, 0)
    assert (point.end, point.safe_timestamp) == (-1, 0)


def test_the_end_holds_only_with_the_times_it_was_saved_with() -> None:
    for at in (7, 15, 23, 31, 39, 4096 - 12, 4096 - 5, 4096 - 1):
        fs = MemoryFileSystem()
        saved(fs)
        fs.nodes[PATH].content[at] ^= 1
        assert Checkpoint(fs, PATH).end == -1, at
    fs = MemoryFileSystem()
    saved(fs, log=0)
    assert Checkpoint(fs, PATH).end == -1, "nothing was flushed"
    saved(fs, end=0)
    assert Checkpoint(fs, PATH).end == 0
    assert saved(fs, end=-1)[40:48] == bytes(8), "a Java broker takes an offset of 0 for unknown"
    fs.write(PATH, saved(fs)[:48])
    assert Checkpoint(fs, PATH).end == -1, "as a Java broker of old wrote it"


def test_three_seconds_before_the_older_of_log_and_queues_everything_is_on_disk() -> None:
    for log, queues, safe in ((5_000, 6_000, 2_000), (6_000, 5_000, 2_000), (3_001, 9_000, 1), (2_999, 9_000, 0)):
        fs = MemoryFileSystem()
        saved(fs, log, queues, index=1)
        assert Checkpoint(fs, PATH).safe_timestamp == safe


def test_a_reset_forgets_times_and_end() -> None:
    fs = MemoryFileSystem()
    saved(fs)
    Checkpoint(fs, PATH).reset()
    times = pack(">qqqqq", 0, 0, 0, 8, 9)
    end = pack(">q", -1)
    assert fs.read(PATH) == times + bytes(4096 - 40 - 12) + end + pack(">I", crc32(times + end))


def test_during_a_rebuild_a_java_broker_is_told_to_begin_at_the_begin_of_the_log() -> None:
    fs = MemoryFileSystem()
    saved(fs)
    point = Checkpoint(fs, PATH)
    assert not point.is_rebuilding
    point.is_rebuilding = True
    point.save()
    assert (fs.read(PATH) or b"")[:48] == pack(">qqqqqq", 5_000, 0, 7_000, 8, 9, 0)
    again = Checkpoint(fs, PATH)
    assert (again.end, again.logics_msg_timestamp, again.is_rebuilding) == (123, 5_000, False)
    again.save()
    assert (fs.read(PATH) or b"")[:48] == pack(">qqqqqq", 5_000, 5_000, 7_000, 8, 9, 123)
