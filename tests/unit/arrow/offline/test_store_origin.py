"""Reads of a store's files without a broker: which messages, in which state of the store, what is said of the rest."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from struct import pack

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from rocketmq_py import arrow
from rocketmq_py.arrow.bad_records import CORRUPT_REASON, CORRUPT_RECORD
from rocketmq_py.arrow.offline import log_index, records
from rocketmq_py.arrow.offline.directories import Directory
from rocketmq_py.arrow.offline.records import ENTRY, Entries, entries_of, joined, runs
from rocketmq_py.arrow.options.offsets import Bounds
from rocketmq_py.arrow.options.selection import Assigned, Topics
from rocketmq_py.arrow.ranges import DataLossError, QueueRange
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.arrow.source.origins import origin_of
from rocketmq_py.arrow.topics import planned, read_options
from rocketmq_py.errors import ConfigError, CorruptRecord, NoRouteError, StoreError
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.source.packing import SCANNED_BYTES, scanned
from rocketmq_py.store.fs.lock_probe import is_locked
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.java_hash import tags_code
from tests.unit.store.helpers import NOW, SMALL, Stores, fill, flush, record

PLACE = ("topic", "queueId", "queueOffset")


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = Stores(tmp_path / "store", None)
    yield opened
    opened.close()


@pytest.fixture
def closed(stores: Stores) -> Path:
    """60 messages of T in two queues, a second apart, in several files of the log; 11 of U among them."""
    store = stores.open()
    for i in range(60):
        stores.clock.now = NOW + 1000 * i
        fill(store, 1, start=i, queue_id=i % 2, size=100 + i)
        if i % 5 == 0:
            fill(store, 1, start=i, topic="U", queue_id=3)
    store.close()
    return stores.root


def rows(topic: str | list[str], root: object, **more: object) -> pa.Table:
    found = arrow.read(topic, store=root, **more).read_all()
    keys = [name for name in PLACE if name in found.column_names]
    return found.sort_by([(name, "ascending") for name in keys])


def numbers(table: pa.Table) -> list[int]:
    return sorted(int(body.split(b"|")[0]) for body in table.column("body").to_pylist())


def without_queues(root: Path, *topics: str) -> Path:
    copy = root.with_name("scanned")
    shutil.copytree(root, copy, dirs_exist_ok=True)
    for topic in topics:
        shutil.rmtree(copy / "consumequeue" / topic)
    return copy


def content(root: Path) -> dict[Path, bytes]:
    """All files but the lock: whoever closes it releases the locks of this process."""
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file() and path.name != "lock"}


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def patch(root: Path, physical: int, data: bytes) -> None:
    """Change the log at an offset."""
    file = max(path for path in log_files(root) if int(path.name) <= physical)
    with file.open("r+b") as out:
        out.seek(physical - int(file.name))
        out.write(data)


def physical_of(root: Path, topic: str, queue_id: int, offset: int) -> int:
    found = rows(topic, root, columns=["queueId", "queueOffset", "commitLogOffset"]).to_pylist()
    (place,) = [one["commitLogOffset"] for one in found if (one["queueId"], one["queueOffset"]) == (queue_id, offset)]
    return int(place)


def test_a_closed_store_has_every_message_once_and_stays_as_it_is(closed: Path) -> None:
    before = content(closed)
    found = rows(["T", "U"], closed)
    assert numbers(found) == sorted([*range(60), *range(0, 60, 5)])
    assert set(zip(*(found.column(name).to_pylist() for name in ("topic", "queueId")), strict=True)) == {
        ("T", 0), ("T", 1), ("U", 3),
    }  # fmt: skip
    assert set(found.column("brokerName").to_pylist()) == {"store"}
    times = rows("T", closed).column("storeTimestamp").to_pylist()
    assert min(times) == datetime.fromtimestamp(NOW / 1000, UTC)
    assert content(closed) == before


def test_the_rows_of_a_scan_are_those_of_the_consume_queues(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert log_index._PART == 8 << 20
    monkeypatch.setattr(log_index, "_PART", 1500)  # several parts in a file
    scan = without_queues(closed, "T")
    columns = ["topic", "queueId", "queueOffset", "body", "keys", "properties", "commitLogOffset", "storeSize"]
    for topics in ("T", ["T", "U"]):
        assert rows(topics, scan, columns=columns).equals(rows(topics, closed, columns=columns))
    queues = {MessageQueue("T", "scanned", 0): 7, MessageQueue("T", "scanned", 1): 11}
    assert rows("T", scan, start=queues, columns=["queueId", "queueOffset"]).num_rows == 60 - 18
    assert rows("T", scan, end=queues, columns=["queueId", "queueOffset"]).num_rows == 18
    shutil.rmtree(scan / "consumequeue")
    pattern = rows(re.compile("[TU]"), scan, columns=columns)
    assert pattern.equals(rows(["T", "U"], closed, columns=columns))


def test_the_messages_of_a_queue_are_in_order(closed: Path) -> None:
    found = arrow.read(["T", "U"], store=closed, columns=list(PLACE)).read_all().to_pylist()
    for topic, queue_id, count in (("T", 0, 30), ("T", 1, 30), ("U", 3, 12)):
        place = {"topic": topic, "queueId": queue_id}
        offsets = [one["queueOffset"] for one in found if {**one, **place} == one]
        assert offsets == list(range(count))


def test_a_part_of_the_log_is_read_once_for_all_queues(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stores.open()
    for i in range(300):
        fill(store, 1, start=i, queue_id=i % 6)
        fill(store, 1, start=i, topic="U")
    store.close()
    read: list[tuple[int, int]] = []
    plain = Directory._read

    def counted(self: Directory, begin: int, end: int) -> bytes:
        read.append((begin, end))
        return plain(self, begin, end)

    plan = planned("T", {"store": stores.root})
    monkeypatch.setattr(Directory, "_read", counted)
    assert plan.reader().read_all().num_rows == 300
    assert [begin for begin, _ in read[1:]] >= [end for _, end in read[:-1]], "each part once, in order"
    assert len(read) == len(log_files(stores.root))


@pytest.mark.parametrize("is_scan", [False, True])
def test_reads_by_time(closed: Path, is_scan: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_index, "_PART", 1500)
    root = without_queues(closed, "T") if is_scan else closed

    def at(i: float) -> datetime:
        return datetime.fromtimestamp((NOW + 1000 * i) / 1000, UTC)

    for i in range(0, 60, 7):
        assert numbers(rows("T", root, start=at(i))) == list(range(i, 60)), i
        assert numbers(rows("T", root, end=at(i))) == list(range(i)), i
    assert numbers(rows("T", root, start=at(3.5), end=at(8.5))) == [4, 5, 6, 7, 8]
    assert numbers(rows("T", root, start=at(61))) == numbers(rows("T", root, end=at(-1))) == []


@pytest.mark.parametrize("is_scan", [False, True])
def test_filters(stores: Stores, is_scan: bool) -> None:
    store = stores.open()
    assert tags_code("Aa") == tags_code("BB"), "two tags with one hash"
    tags = ("Aa", "BB", "C", None)
    for i in range(40):
        tag = tags[i % 4]
        text = f"TAGS\x01{tag}\x02" if tag else ""
        fill(store, 1, start=i, properties=f"{text}n\x01{i}\x02".encode(), tags_code=tags_code(tag))
    store.close()
    root = without_queues(stores.root, "T") if is_scan else stores.root
    assert numbers(rows("T", root, tags="Aa")) == list(range(0, 40, 4))
    assert numbers(rows("T", root, tags="Aa || C")) == list(range(0, 40, 2))
    assert numbers(rows("T", root, tags="D")) == []
    assert numbers(rows("T", root, sql="n > 37 OR TAGS = 'BB' AND n < 6")) == [1, 5, 38, 39]


def test_entries_that_are_no_hash_of_tags_are_not_filtered(stores: Stores) -> None:
    """Delivery times of the delay topic, and places in the file of extended entries."""
    store = stores.open()
    for i, code in enumerate((1 << 40, -(1 << 62), 5, (1 << 31) - 1, -(1 << 31))):
        fill(store, 1, start=i, tags_code=code)
    store.close()
    assert numbers(rows("T", stores.root, tags="even")) == [0], "1 << 40; -(1 << 62) has tag odd"
    assert numbers(rows("T", stores.root, tags="odd")) == [1]


def test_topics_with_batch_consume_queues_are_scanned(stores: Stores) -> None:
    store = stores.open(is_batched=lambda topic: topic == "B")
    fill(store, 1, topic="other")
    for first in (0, 3, 6):
        body = encode_batch([(0, b"%d|" % i, b"") for i in range(first, first + 3)])
        properties = b"INNER_NUM\x013\x02INNER_BASE\x01%d\x02" % first
        store.append_inner_batch(record(topic="B", body=body, properties=properties, sys_flag=0xC0), 3)
    store.commit_pending()
    store.close()
    assert numbers(rows("B", stores.root)) == list(range(9))
    queue = MessageQueue("B", "store", 0)
    assert numbers(rows("B", stores.root, start={queue: 2}, end={queue: 7})) == [2, 3, 4, 5, 6]


def test_several_stores_and_their_names(closed: Path, tmp_path: Path) -> None:
    other = Stores(tmp_path / "second", None)
    store = other.open()
    fill(store, 5, start=100, queue_id=0)
    other.close()
    found = rows("T", {"broker-a": closed, "broker-b": other.root})
    assert numbers(found) == [*range(60), *range(100, 105)]
    assert set(found.column("brokerName").to_pylist()) == {"broker-a", "broker-b"}
    start = {
        MessageQueue("T", "broker-a", 0): -1,
        MessageQueue("T", "broker-a", 1): -1,
        MessageQueue("T", "broker-b", 0): 2,
    }
    assert numbers(rows("T", {"broker-a": closed, "broker-b": other.root}, start=start)) == [102, 103, 104]
    elsewhere = tmp_path / "log"
    (closed / "commitlog").rename(elsewhere)
    assert rows("T", closed, commit_log=elsewhere).num_rows == 60
    with pytest.raises(ConfigError, match="no directory commitlog"):
        rows("T", closed)


def test_a_crash_leaves_messages_without_queue_entries(stores: Stores, tmp_path: Path) -> None:
    store = stores.open()
    fill(store, 10)
    flush(store)
    fill(store, 10, start=10, queue_id=1)
    fill(store, 10, start=20)
    copy = tmp_path / "copy"
    shutil.copytree(stores.root, copy)  # as a killed process leaves it: nobody has locked the copy
    assert numbers(rows("T", copy)) == list(range(30))
    assert rows("T", copy).column("queueOffset").to_pylist() == [*range(20), *range(10)]
    assert numbers(rows("T", copy, start=datetime.fromtimestamp(NOW / 1000, UTC))) == list(range(30))
    (copy / "checkpoint").unlink()
    assert numbers(rows("T", copy)) == list(range(30)), "without a checkpoint the whole log is scanned"
    (copy / "abort").unlink()
    assert numbers(rows("T", copy)) == list(range(10)), "a closed store has all entries"


def test_a_torn_record_ends_the_log(stores: Stores, tmp_path: Path) -> None:
    store = stores.open()
    fill(store, 10)
    flush(store)
    fill(store, 3, start=10)
    copy = tmp_path / "copy"
    shutil.copytree(stores.root, copy)
    last = physical_of(copy, "T", 0, 12)
    patch(copy, last + 40, bytes(400))
    assert numbers(rows("T", copy)) == list(range(12))


def test_the_directory_of_a_running_broker(stores: Stores) -> None:
    store = stores.open()
    fill(store, 10)
    flush(store)
    fill(store, 10, start=10)
    fill(store, 1, topic="fresh")
    before = content(stores.root)
    assert numbers(rows("T", stores.root)) == list(range(10)), "what its consume queues have on disk"
    with pytest.raises(NoRouteError, match="a broker runs on "):
        rows("fresh", stores.root)
    assert content(stores.root) == before
    lock = stores.root / "lock"
    assert is_locked(lock) is True
    taking = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1)"
    taken = subprocess.run([sys.executable, "-c", taking, lock], capture_output=True, check=False)
    assert b"BlockingIOError" in taken.stderr, "the reads did not release the broker's lock"
    store.close()
    assert is_locked(lock) is False
    assert numbers(rows("T", stores.root)) == list(range(20))


def test_a_queue_whose_rebuild_has_not_ended_is_read_from_the_log(
    stores: Stores, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = stores.open()
    fill(store, 50)
    fill(store, 5, start=50, queue_id=1)
    fill(store, 5, topic="U")
    store.close()
    min((stores.root / "consumequeue" / "T" / "0").iterdir()).unlink()
    store = stores.open(msgspec.structs.replace(SMALL, rebuild_bytes_before_start=0))
    assert store.rebuild.has("T", 0)
    fill(store, 3, start=55)
    flush(store)
    with pytest.raises(ConfigError, match=r"rebuilds queue T-0, whose files lack messages meanwhile"):
        rows(["T", "U"], stores.root)
    assert numbers(rows("U", stores.root)) == list(range(5)), "another topic is whole"
    killed = shutil.copytree(stores.root, tmp_path / "killed")
    store.close()
    for root in (killed, stores.root):
        caplog.clear()
        assert numbers(rows("T", root)) == list(range(58))
        assert rows("T", root).column("queueOffset").to_pylist() == [*range(53), *range(5)]
        assert f"the commit log of {root} is scanned from 0: the rebuild of queue T-0 has not ended" in caplog.text
    (killed / "checkpoint").unlink()
    assert numbers(rows("T", killed)) == list(range(58)), "without a checkpoint the whole log is scanned"


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX)
print(1, flush=True)
input()
"""


@contextmanager
def holding(path: Path, kind: str) -> Iterator[None]:
    """Another process locks a file during the block."""
    command = [sys.executable, "-c", HOLD, path, kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate(b"\n")


def test_locks_of_other_processes_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert is_locked(path) is False
    path.write_bytes(b"lock")
    assert is_locked(path) is False
    for kind in ("lockf", "flock"):
        with holding(path, kind):
            assert is_locked(path) is True, kind
    assert is_locked(path) is False


def test_a_lock_that_is_not_listed_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list has only locks of processes of this container."""
    path = tmp_path / "lock"
    path.write_bytes(b"lock")
    empty = tmp_path / "locks"
    empty.write_text("1: POSIX  ADVISORY  WRITE 7592 00:1b:1 0 0\n1: -> POSIX  ADVISORY  WRITE 7592 00:1b:1 0 0\n")
    monkeypatch.setattr("rocketmq_py.store.fs.lock_probe._LOCKS", empty)
    assert is_locked(path) is False
    with holding(path, "lockf"):
        assert is_locked(path) is True
    monkeypatch.setattr("rocketmq_py.store.fs.lock_probe._LOCKS", tmp_path / "none")
    assert is_locked(path) is None


def test_entries_of_records_that_the_log_lacks_are_cut(closed: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A copy of a store in use: the log was copied before the queues."""
    last = physical_of(closed, "T", 1, 26)
    patch(closed, last, bytes(4096 - last % 4096))
    for path in log_files(closed):
        if int(path.name) > last:
            path.write_bytes(bytes(4096))
    with caplog.at_level(logging.WARNING):
        found = rows("T", closed)
    assert numbers(found) == list(range(53))
    assert "consume queue T-1 of" in caplog.text
    assert "ends at offset 26: the entries up to 29 are of records that the commit log does not have" in caplog.text


def test_damaged_records(closed: Path) -> None:
    body, size, elsewhere = (physical_of(closed, "T", 0, offset) for offset in (3, 9, 20))
    patch(closed, body + 90, b"X")
    patch(closed, size, pack(">i", 77))
    patch(closed, elsewhere + 20, pack(">q", 500))  # its queue offset
    names = ["queueId", "queueOffset", "body", CORRUPT_RECORD, CORRUPT_REASON]
    with pytest.raises(CorruptRecord, match="offset 3 of T@store:0 cannot be decoded"):
        rows("T", closed)
    found = rows("T", closed, mode="PERMISSIVE", columns=names).to_pylist()
    assert len(found) == 60
    bad = [one for one in found if one[CORRUPT_REASON]]
    assert [(one["queueId"], one["queueOffset"]) for one in bad] == [(0, 3), (0, 9), (0, 20)]
    assert all(one[CORRUPT_RECORD] for one in bad)
    assert "checksum" in bad[0][CORRUPT_REASON]
    assert numbers(rows("T", closed, mode="PERMISSIVE")) == [i for i in range(60) if i not in (6, 18, 40)]
    assert numbers(rows("T", closed, mode="PERMISSIVE", tags="even")) == [
        i for i in range(0, 60, 2) if i not in (6, 18, 40)
    ]


def test_an_entry_that_points_to_a_message_of_another_queue(closed: Path) -> None:
    there = physical_of(closed, "T", 1, 5)
    size = rows("T", closed, columns=["queueId", "queueOffset", "storeSize"]).to_pylist()[35]["storeSize"]
    queue = closed / "consumequeue" / "T" / "0" / f"{0:020d}"
    raw = bytearray(queue.read_bytes())
    raw[80:92] = pack(">qi", there, size)
    queue.write_bytes(raw)
    with pytest.raises(CorruptRecord, match="offset 4 of T@store:0"):
        rows("T", closed)
    assert numbers(rows("T", closed, mode="PERMISSIVE")) == [i for i in range(60) if i != 8]


def test_removed_and_lost_log_files(closed: Path) -> None:
    files = log_files(closed)
    plan = planned("T", {"store": closed})
    files[0].unlink()
    found = rows("T", closed)
    assert 30 < found.num_rows < 60
    first = int(found.column("queueOffset").to_pylist()[0])
    assert first > 0, "the earliest message is the first that the log has"
    with pytest.raises(DataLossError, match=f"offsets 0 to {first - 1} of T@store:0 have been removed by retention"):
        plan.reader().read_all()
    with pytest.raises(DataLossError, match=f"offsets 0 to {first - 1} of T@store:0 have been removed by retention"):
        rows("T", closed, start={MessageQueue("T", "store", i): 0 for i in (0, 1)})
    lenient = planned("T", {"store": closed, "fail_on_data_loss": False, "tags": "even"})
    files[1].unlink()
    assert lenient.reader().read_all().num_rows < 30
    strict = planned("T", {"store": closed, "tags": "even"}).reader()
    files[2].unlink()
    with pytest.raises(DataLossError, match="have been removed by retention"):
        strict.read_all()


def test_a_missing_file_in_the_middle_is_a_loss(closed: Path) -> None:
    log_files(closed)[1].unlink()
    with pytest.raises(DataLossError, match="hold no messages"):
        rows("T", closed)
    assert 30 < rows("T", closed, fail_on_data_loss=False).num_rows < 60
    scan = without_queues(closed, "T")
    with pytest.raises(DataLossError, match="hold no messages"):
        rows("T", scan)
    assert rows("T", scan, fail_on_data_loss=False).num_rows == rows("T", closed, fail_on_data_loss=False).num_rows


def test_a_missing_file_of_a_consume_queue_is_a_loss(closed: Path) -> None:
    files = sorted((closed / "consumequeue" / "T" / "0").iterdir())
    plan = planned("T", {"store": closed})
    files[0].unlink()
    with pytest.raises(DataLossError, match=r"20 of offsets 0 to \d+ of T@store:0 hold no messages"):
        plan.reader().read_all()


@pytest.mark.parametrize("part", [1500, 1 << 23])
def test_a_topic_that_was_created_again_has_its_new_messages(
    stores: Stores, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_index, "_PART", part)
    store = stores.open()
    fill(store, 25)
    store.delete_topic("T")
    fill(store, 12, start=100)
    store.close()
    assert numbers(rows("T", stores.root)) == list(range(100, 112))
    assert numbers(rows("T", without_queues(stores.root, "T"))) == list(range(100, 112))


def test_what_cannot_be_read_is_refused_by_name(closed: Path, tmp_path: Path) -> None:
    wrong = {
        "is in no record of the stores": lambda: rows("V", closed),
        "is no store": lambda: rows("T", tmp_path / "nowhere"),
        "namesrv is of use without store only": lambda: rows("T", closed, namesrv="h:1"),
        "retries is of use without store only": lambda: rows("T", closed, retries=0),
        "commit_log is of use with store only": lambda: arrow.read("T", commit_log="x", namesrv="h:1"),
        "commit_log is of use with one store only": lambda: rows("T", {"a": "x", "b": "y"}, commit_log="z"),
        "the directory of a store is expected": lambda: rows("T", {}),
        "PATH of a store directory": lambda: rows("T", {"": "/x"}),
    }
    for reason, call in wrong.items():
        with pytest.raises((ConfigError, NoRouteError, StoreError), match=reason.replace("(", r"\(")):
            call()


# -- runs of entries


def entries(*places: tuple[int, int]) -> Entries:
    raw = np.array([(physical, size, 0) for physical, size in places], ENTRY)
    return entries_of(raw.tobytes(), 10)


def spans(found: Iterator[Entries]) -> list[tuple[int, int]]:
    return [(int(run.offsets[0]), int(run.offsets[-1]) + 1) for run in found]


def test_records_near_to_each_other_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spans(runs(entries(), 1 << 30)) == []
    assert spans(runs(entries((0, 100), (100, 100), (300, 100)), 1 << 30)) == [(10, 13)]
    assert spans(runs(entries((0, 100), (100 + 32768, 100), (201 + 2 * 32768, 100)), 1 << 30)) == [(10, 12), (12, 13)]
    assert spans(runs(entries((100, 100), (199, 100), (0, 50)), 1 << 30)) == [(10, 11), (11, 12), (12, 13)]
    assert spans(runs(entries((900, 100), (1000, 100)), 1000)) == [(10, 11), (11, 12)]
    monkeypatch.setattr(records, "_MOST_SPAN", 250)
    assert spans(runs(entries(*((100 * i, 100) for i in range(6))), 1 << 30)) == [(10, 13), (13, 15), (15, 16)]


def test_records_are_joined_with_and_without_the_accelerator() -> None:
    data, three = b"aaabbbcccddd", entries((100, 3), (106, 3), (109, 3))

    class Gather:
        def gather(self, *given: object) -> tuple[int, int, int, bytes | None]:
            assert given[:2] == (data, 100)
            return 3, 0, 12, b"native"

    assert joined(data, three, None) == b"aaacccddd"
    assert joined(data, three, Gather()) == b"native"  # type: ignore[arg-type]
    assert joined(data[:9], entries((100, 3), (103, 6)), None) == b"aaabbbccc"


def test_a_part_of_the_log_is_scanned_by_one_task() -> None:
    def at(queue_id: int, begin: int, broker: str = "a") -> LocatedRange:
        span = begin * SCANNED_BYTES // 4, (begin + 1) * SCANNED_BYTES // 4
        return LocatedRange(QueueRange(MessageQueue("T", broker, queue_id), 0, 1), Addresses(), span)

    given = [at(0, 0), at(1, 0), at(0, 3), at(1, 3), at(0, 4), at(1, 4), at(0, 9), at(0, 9, "b")]
    assert [len(task) for task in scanned(given)] == [4, 2, 1, 1]
    assert [one for task in scanned(given) for one in task] == given
    assert scanned([]) == []


def test_a_record_of_another_kind_has_no_row(stores: Stores) -> None:
    """Half messages and rollbacks are in no consume queue, and in no row of a scan."""
    store = stores.open()
    fill(store, 2)
    store.close()
    physical = physical_of(stores.root, "T", 0, 1)
    for kind, found in ((0x4, [0]), (0xC, [0]), (0x8, [0, 1])):
        patch(stores.root, physical + 36, pack(">i", kind))
        assert numbers(rows("T", without_queues(stores.root, "T"), fail_on_data_loss=False)) == found
    assert record(0).topic == "T"


@pytest.mark.parametrize("part", [1500, 1 << 23])
def test_a_scan_leaves_out_a_record_whose_queue_offset_is_damaged(
    closed: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_index, "_PART", part)
    places = {offset: physical_of(closed, "T", 0, offset) for offset in (3, 7, 12, 20)}
    for (offset, place), wrong in zip(places.items(), (1 << 57, -5, 1_000_014, 1 << 40), strict=True):
        patch(closed, place + 20, pack(">q", wrong))
        scan = without_queues(closed, "T")
        with pytest.raises(DataLossError, match="hold no messages"):
            rows("T", scan)
        kept = rows("T", scan, fail_on_data_loss=False)
        assert numbers(kept) == [i for i in range(60) if i != 2 * offset]
        shutil.rmtree(scan)
        patch(closed, place + 20, pack(">q", offset))
    assert rows("T", without_queues(closed, "T")).num_rows == 60


def test_what_a_plan_asks_of_a_store(closed: Path) -> None:
    with closing(origin_of(read_options("T", {"store": closed}))) as origin:
        queues = origin.selected(Topics(("T",)))
        first, second = sorted(queues.addresses)
        assert origin.earliest(queues) == {first: 0, second: 0}
        assert origin.bounds(queues) == {first: Bounds(0, 30), second: Bounds(0, 30)}
        late = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)
        assert origin.since(queues, {first: NOW + 10_000, second: late}) == {first: 5, second: 30}
        found = origin.message_bytes([QueueRange(first, 0, 30)], queues, "g")
        stored = rows("T", closed, columns=["queueId", "storeSize"]).to_pylist()
        of_first = [one["storeSize"] for one in stored if one["queueId"] == first.queue_id]
        assert min(of_first) < found["T"] < max(of_first)
        with pytest.raises(ConfigError, match="the offsets of group g are asked of brokers"):
            origin.committed("g", queues)
    with (
        closing(origin_of(read_options("T", {"store": closed}))) as origin,
        pytest.raises(NoRouteError, match=r"is not in the stores"),
    ):
        origin.selected(Assigned(frozenset({MessageQueue("T", "store", 0), MessageQueue("T", "store", 9)})))
