"""The real file system, small files and names."""

from __future__ import annotations

import datetime
import errno
import mmap
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from rocketmq_py.accelerator import installed
from rocketmq_py.errors import ConfigError, NameIllegal, StoreLocked
from rocketmq_py.store import ConfigFile, MessageStore, OsFileSystem, StoreConfig, delay_levels
from rocketmq_py.store.fs import mapped_pages, os_files, readonly
from rocketmq_py.store.fs.filesystem import FilePart, InnerFolder
from rocketmq_py.store.fs.layout import StoreLayout, index_name, is_index_name, segment_name, segment_start
from rocketmq_py.store.fs.open_files import OpenFiles
from rocketmq_py.store.fs.readonly import ReadOnlyFileSystem
from rocketmq_py.wire.fastjson import BareKey, dumps_pretty
from tests.accelerated import needs_accelerator
from tests.unit.store.helpers import HOST, SMALL, fill, numbers, read_queue
from tests.unit.store.memoryfs import MemoryFileSystem


@pytest.fixture
def fs():
    return OsFileSystem()


def test_a_new_file_is_zeroed_and_keeps_written_bytes(fs, tmp_path):
    path = tmp_path / "a" / "b" / "file"
    file = fs.open(path, 10_000)
    assert file.read(0, 20_000) == bytes(10_000)
    file.allocate(0, 5000)
    file.buffer[100:104] = b"abcd"
    file.write(9_996, b"wxyz")
    assert file.read(100, 4) == b"abcd"
    assert file.buffer[9_990:10_000] == bytes(6) + b"wxyz"
    file.sync()
    file.close()
    file.close()
    assert path.stat().st_size == 10_000
    again = fs.open(path, 10_000, create=False)
    assert again.read(100, 4) == b"abcd"
    again.erase(102)
    assert again.read(98, 10) == bytes(2) + b"ab" + bytes(6)
    assert again.buffer[9_990:] == bytes(10)
    again.close()


@pytest.mark.parametrize("accelerator", [None, pytest.param("native", marks=needs_accelerator)])
@pytest.mark.parametrize("count", [3, 130])
def test_parts_of_many_files_are_written_up_to_the_first_that_fails(tmp_path, accelerator, count):
    fs = OsFileSystem(installed() if accelerator else None)
    paths = [tmp_path / str(number % 2) / "a" / str(number) for number in range(count)]
    parts = [FilePart(str(path), 90, number % 80, b"%d" % number) for number, path in enumerate(paths)]
    assert fs.write_parts([*parts, FilePart(str(tmp_path / "empty"), 7, 0, b"")]) == (count + 1, None)
    assert (tmp_path / "empty").read_bytes() == bytes(7)
    assert fs.write_parts([part._replace(position=84, data=b"end") for part in parts]) == (count, None)
    expected = [bytes(part.position) + part.data for part in parts]
    assert [path.read_bytes() for path in paths] == [one.ljust(84, b"\0") + b"end\0\0\0" for one in expected]
    wrong = [*parts[:-2], FilePart(str(tmp_path / "0"), 90, 0, b"x"), parts[-1]]
    done, error = fs.write_parts([part._replace(data=b"new", position=0) for part in wrong])
    assert (done, error.errno) == (count - 2, errno.EISDIR)
    assert {path.read_bytes()[:3] for path in paths[:-2]} == {b"new"}
    assert fs.write_parts([]) == (0, None)


def test_a_missing_file_is_created_on_request_only(fs, tmp_path):
    with pytest.raises(FileNotFoundError):
        fs.open(tmp_path / "x", 10, create=False)
    assert fs.size(tmp_path / "x") is None
    assert fs.names(tmp_path / "nowhere") == []
    assert fs.read(tmp_path / "x") is None
    fs.remove(tmp_path / "x")
    fs.remove_tree(tmp_path / "x")


@pytest.mark.parametrize("count", [3, 100])
def test_missing_files_can_be_synced_by_name(fs, tmp_path, count):
    for i in range(count):
        file = fs.open(tmp_path / str(i), 100)
        file.write(0, b"x")
        file.close()
    fs.remove(tmp_path / "1")
    fs.sync([tmp_path / str(i) for i in range(count)])
    assert fs.size(tmp_path / "1") is None


def test_inner_folders_have_sizes_and_the_head_of_their_last_file(fs, tmp_path):
    for name, size in (("T/0/a", 5), ("T/0/b", 100_000), ("T/1/c", 3), ("U/0/d", 0)):
        fs.open(tmp_path / name, size).close()
    file = fs.open(tmp_path / "T/0/b", 100_000)
    file.write(0, b"entries")
    fs.write(tmp_path / "T" / "file", b"x")
    fs.write(tmp_path / "stray", b"x")
    (tmp_path / "T" / "2").mkdir()
    found = {(one.outer, one.name): one for one in fs.inner_folders(tmp_path, 4096)}
    assert list(found) == [("T", "0"), ("T", "1"), ("T", "2"), ("T", "file"), ("U", "0")]
    assert found["T", "0"].sizes == {"a": 5, "b": 100_000}
    assert found["T", "0"].head == b"entries".ljust(4096, b"\0")
    assert found["T", "1"] == InnerFolder("T", "1", {"c": 3}, bytes(3), True)
    assert found["T", "2"] == InnerFolder("T", "2", {})
    assert found["T", "file"].sizes is None
    assert found["U", "0"].sizes == {"d": 0}
    file.write(99_999, b"x")
    file.close()
    assert not next(iter(fs.inner_folders(tmp_path, 4096))).is_head_all
    assert list(fs.inner_folders(tmp_path / "missing", 4096)) == []


def test_small_files_are_replaced_atomically(fs, tmp_path):
    path = tmp_path / "config" / "x.json"
    fs.write(path, b"one")
    fs.write(path, b"two")
    assert fs.read(path) == b"two"
    assert fs.names(path.parent) == ["x.json"]
    assert fs.size(path) == 3
    assert fs.modified_ms(path) > 1_600_000_000_000
    assert fs.is_directory(path.parent)
    assert not fs.is_directory(path)
    fs.remove_tree(path.parent)
    assert fs.names(path.parent) == []
    assert 0 < fs.used_ratio(tmp_path) < 1


def test_descriptor_0_is_closed_as_any_other(monkeypatch):
    """It is the first free one where standard input is closed."""
    closed = []
    monkeypatch.setattr(os_files.os, "close", closed.append)
    lock = os_files.OsLock(0)
    lock.release()
    lock.release()
    assert closed == [0]


def test_a_lock_excludes_all_processes(fs, tmp_path):
    path = tmp_path / "store" / "lock"
    held = fs.lock(path)
    with pytest.raises(BlockingIOError):
        fs.lock(path)
    script = (
        "from pathlib import Path; from rocketmq_py.store import OsFileSystem; "
        f"OsFileSystem().lock(Path({str(path)!r}))"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in other.stderr
    held.release()
    held.release()
    fs.lock(path).release()


@pytest.mark.skipif(os.name != "posix", reason="permissions of files are POSIX")
def test_only_the_owner_may_write_the_lock_file(fs, tmp_path):
    before = os.umask(0)
    try:
        fs.lock(tmp_path / "lock").release()
    finally:
        os.umask(before)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.name != "posix", reason="record locks are POSIX")
def test_the_lock_is_the_record_lock_of_java(disk_stores):
    store = disk_stores.open()
    script = (
        "import fcntl, sys\n"
        f"file = open({str(store.layout.lock)!r}, 'r+')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)\n"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in other.stderr
    assert store.layout.lock.read_bytes() == b"lock"
    with pytest.raises(StoreLocked):
        MessageStore(disk_stores.root, SMALL, store_host=HOST).open()


def test_a_store_works_on_a_real_disk(disk_stores):
    for i in range(3):
        store = disk_stores.open()
        fill(store, 50, start=50 * i)
        assert numbers(read_queue(store)) == list(range(50 * i + 50))
        store.close()
    assert {path.stat().st_size for path in (disk_stores.root / "commitlog").iterdir()} == {4096}
    assert {path.stat().st_size for path in (disk_stores.root / "consumequeue" / "T" / "0").iterdir()} == {400}
    assert {path.stat().st_size for path in (disk_stores.root / "index").iterdir()} == {40 + 4 * 16 + 20 * 64}


# -- descriptors, and what other platforms lack


@pytest.fixture
def descriptors(monkeypatch):
    """The descriptors that are open, with their paths."""
    held, opening, closing = {}, os.open, os.close

    def opened(path, *more):
        fd = opening(path, *more)
        held[fd] = str(path)
        return fd

    monkeypatch.setattr(os_files.os, "open", opened)
    monkeypatch.setattr(os_files.os, "close", lambda fd: (held.pop(fd), closing(fd)))
    return held


def test_no_descriptor_stays_open(fs, tmp_path, descriptors, monkeypatch):
    file = fs.open(tmp_path / "a" / "b" / "file", 10)
    assert list(descriptors.values()) == [str(tmp_path / "a" / "b" / "file")]
    file.close()
    fs.write(tmp_path / "a" / "b" / "small", b"x")
    fs.sync([tmp_path / "a" / "b" / "small", tmp_path / "missing"])
    assert len(list(fs.inner_folders(tmp_path, 10))) == 1
    assert fs.lock(tmp_path / "lock").release() is None
    assert descriptors == {}
    held = fs.lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError) as locked:
        fs.lock(tmp_path / "lock")
    assert locked.value.errno is not None
    assert len(descriptors) == 1
    held.release()
    monkeypatch.setattr(os_files.os, "ftruncate", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        fs.open(tmp_path / "new", 10)
    assert descriptors == {}


def test_what_is_synced(fs, tmp_path, descriptors, monkeypatch):
    synced = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os_files.os, name, lambda fd, name=name: synced.append((name, descriptors.get(fd))))
    monkeypatch.setattr(os_files.os, "sync", lambda: synced.append("everything"))
    path = tmp_path / "x"
    fs.write(path, b"x")
    assert synced == [("fsync", None), ("fsync", str(tmp_path))], "the new file, then its name"
    file = fs.open(path, 1)
    for covers, call in ((True, "fdatasync"), (False, "fsync")):
        synced.clear()
        monkeypatch.setattr(os_files, "_SYNC_COVERS_MAPPING", covers)
        file.sync()
        assert synced == [(call, str(path))]
    for covers, count, calls in (
        (True, 64, [("fsync", str(path))] * 64), (True, 65, ["everything"]), (False, 65, [("fsync", str(path))] * 65),
    ):  # fmt: skip
        synced.clear()
        monkeypatch.setattr(os_files, "_SYNC_COVERS_MAPPING", covers)
        fs.sync([path] * count)
        assert synced == calls
    file.close()


def test_a_mapping_is_flushed_where_a_sync_does_not_cover_it(fs, tmp_path, monkeypatch):
    class Mapping:
        flushed = 0

        def flush(self):
            self.flushed += 1

        def close(self):
            pass

    monkeypatch.setattr(os_files, "_CAN_DROP", False)
    file = fs.open(tmp_path / "x", 10)
    file._map = mapping = Mapping()
    file.sync()
    assert mapping.flushed == 0
    monkeypatch.setattr(os_files, "_SYNC_COVERS_MAPPING", False)
    file.sync()
    assert mapping.flushed == 1
    file.close()


@pytest.mark.parametrize("has_map", [False, True])
def test_files_without_reads_and_writes_at_a_position(fs, tmp_path, monkeypatch, has_map):
    for name in ("pread", "pwrite", "posix_fallocate"):
        monkeypatch.delattr(os_files.os, name)
    file = fs.open(tmp_path / "x", 10)
    if has_map:
        assert file.buffer[:] == bytes(10)
    file.write(3, b"abc")
    file.write(0, b"xy")
    file.allocate(0, 10)
    assert (file.read(0, 4), file.read(4, 99)) == (b"xy\0a", b"bc" + bytes(4))
    assert bool(file._map) is has_map
    file.close()
    assert (tmp_path / "x").read_bytes() == b"xy\0abc" + bytes(4)


def test_a_write_goes_on_where_the_system_stopped(fs, tmp_path, monkeypatch):
    writing, sizes = os.pwrite, []
    monkeypatch.setattr(
        os_files.os, "pwrite", lambda fd, view, at: (sizes.append(len(view)), writing(fd, view[:3], at))[1]
    )
    file = fs.open(tmp_path / "x", 10)
    file.write(1, b"abcdefgh")
    file.write(1, b"")
    assert (file.read(0, 10), sizes) == (b"\0abcdefgh\0", [8, 5, 2])
    file.close()


def test_disk_space_is_allocated_as_told(fs, tmp_path, monkeypatch):
    parts = []
    monkeypatch.setattr(os_files.os, "posix_fallocate", lambda _, *part: parts.append(part))
    file = fs.open(tmp_path / "x", 100)
    file.allocate(10, 50)
    assert parts == [(10, 50)]
    file.close()


def test_what_is_in_memory_is_asked_of_the_system(fs, tmp_path, monkeypatch):
    asked = []

    def answers(*answers):
        """Let the system answer so, in turn: a number of bytes, or an error."""
        rest = list(answers)

        def preadv(_, buffers, position, flags):
            asked.append((position, len(buffers[0]), flags))
            if isinstance(answer := rest.pop(0), OSError):
                raise answer
            return answer

        asked.clear()
        monkeypatch.setattr(os_files.os, "preadv", preadv)

    file = fs.open(tmp_path / "x", 1000)
    cases = [
        ((10, 50), [50], True, [(10, 50)]),
        ((10, 50), [20, 30], True, [(10, 50), (30, 30)]),
        ((10, 50), [20, 0], False, [(10, 50), (30, 30)]),
        ((10, 50), [20, OSError(errno.EAGAIN, "")], False, [(10, 50), (30, 30)]),
        ((10, 50), [OSError(errno.EOPNOTSUPP, "")], True, [(10, 50)]),
        ((990, 50), [10], True, [(990, 10)]),
        ((1000, 50), [], True, []),
    ]
    for place, system, resident, calls in cases:
        answers(*system)
        assert file.is_resident(*place) is resident
        assert asked == [(*call, os.RWF_NOWAIT) for call in calls]
    answers()
    monkeypatch.setattr(os_files, "_CAN_TRY", False)
    assert not file.is_resident(0, 1)
    assert not fs.tells_residency
    monkeypatch.setattr(os_files, "_CAN_TRY", True)
    assert fs.tells_residency
    file.close()
    large = fs.open(tmp_path / "y", 300_000)
    answers(262_144, 37_856)
    assert large.is_resident(0, 300_000)
    assert [call[:2] for call in asked] == [(0, 262_144), (262_144, 37_856)]
    large.close()


def test_bytes_in_memory_are_read_in_one_call(fs, tmp_path, monkeypatch):
    file = fs.open(tmp_path / "x", 1000)
    file.write(10, b"abcdef")
    system = os.preadv
    assert file.read_if_resident(11, 3) in (b"bcd", None), "a file system may not know"
    asked: list[tuple[int, int, int]] = []

    def answers(answer):
        def preadv(fd, buffers, position, flags):
            asked.append((position, len(buffers[0]), flags))
            if isinstance(answer, OSError):
                raise answer
            return system(fd, [memoryview(buffers[0])[:answer]], position)

        monkeypatch.setattr(os_files.os, "preadv", preadv)

    for answer, found in [
        (3, b"bcd"), (2, None), (0, None), (OSError(errno.EAGAIN, ""), None), (OSError(errno.EOPNOTSUPP, ""), b"bcd"),
    ]:  # fmt: skip
        asked.clear()
        answers(answer)
        assert file.read_if_resident(11, 3) == found
        assert asked == [(11, 3, os.RWF_NOWAIT)]
    monkeypatch.setattr(os_files, "_CAN_TRY", False)
    assert file.read_if_resident(11, 3) is None
    assert len(asked) == 1
    file.close()


@pytest.mark.skipif(not mapped_pages.CAN_TELL, reason="the platform does not tell")
def test_the_pages_of_a_mapped_file_are_asked_about_in_one_call(fs, tmp_path, monkeypatch):
    page = mmap.PAGESIZE
    file = fs.open(tmp_path / "x", 3 * page + 100)
    base = mapped_pages.address_of(file.buffer)
    asked: list[tuple[int, int]] = []
    answers: list[bytes | int] = []

    def ask(address, length, _):
        asked.append(((address - base) // page, length // page))
        assert not (address - base) % page
        answer = answers.pop(0)
        if isinstance(answer, int):
            return answer
        mapped_pages._pages[: len(answer)] = answer
        return 0

    monkeypatch.setattr(mapped_pages, "_ask", ask)
    monkeypatch.setattr(mapped_pages, "_AT_ONCE", 2)
    cases = [
        ((page - 1, 1), [b"\1\0"], True, [(0, 1)]),
        ((page, 1), [b"\1\0"], True, [(1, 1)]),
        ((page - 1, 2), [b"\1\0"], False, [(0, 2)]),
        ((page - 1, 2), [b"\1\1"], True, [(0, 2)]),
        ((10, 9 * page), [b"\1\1", b"\1\0"], False, [(0, 2), (2, 2)]),
        ((10, 9 * page), [b"\1\1", b"\1\1"], True, [(0, 2), (2, 2)]),
        ((10, 9 * page), [b"\0\1"], False, [(0, 2)]),
        ((3 * page + 100, 5), [], True, []),
    ]
    for place, system, resident, calls in cases:
        asked.clear()
        answers[:] = system
        assert file.is_resident(*place) is resident
        assert asked == calls
        assert not answers
    answers[:] = [-1]
    read: list[int] = []
    monkeypatch.setattr(os_files.os, "preadv", lambda *_: read.append(1) or 0)
    assert not file.is_resident(0, 10), "the system does not answer: the file is asked by reading"
    assert read == [1]
    file.erase(10)
    assert not file.is_resident(0, 10), "no longer mapped"
    assert read == [1, 1]
    assert not answers
    file.close()


def test_a_part_of_a_file_is_loaded(fs, tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(bytes(3000))
    monkeypatch.setattr(os_files, "_LOADED_AT_ONCE", 1000)
    read, opening = [], Path.open

    class Noting:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def seek(self, position):
            read.append(("from", position))
            self.file.seek(position)

        def read(self, count):
            read.append(count)
            return self.file.read(count)

    monkeypatch.setattr(Path, "open", lambda path, *how, **more: Noting(opening(path, *how, **more)))
    for part, wanted in (((500, 2500), [1000, 1000, 500]), ((0, 1000), [1000]), ((2000, 1500), [1000, 500])):
        read.clear()
        fs.load(path, *part)
        assert read == [("from", part[0]), *wanted]
    fs.load(tmp_path / "missing", 0, 10)


def test_the_used_part_of_a_disk_is_that_of_df(fs, tmp_path, monkeypatch):
    for usage, ratio in (((100, 30, 20), 0.6), ((100, 0, 0), 0.0), ((100, 30, 0), 1.0)):
        monkeypatch.setattr(os_files.shutil, "disk_usage", lambda _, usage=usage: types.SimpleNamespace(
            total=usage[0], used=usage[1], free=usage[2]
        ))  # fmt: skip
        assert fs.used_ratio(tmp_path) == ratio
        assert tuple(fs.disk_usage(tmp_path)) == usage


def test_only_empty_folders_are_removed(fs, tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    fs.remove_empty(folder)
    fs.write(folder / "x", b"")
    fs.remove_empty(folder)
    assert fs.names(folder) == ["x"]
    fs.remove(folder / "x")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rmdir", lambda _: (_ for _ in ()).throw(PermissionError("not yours")))
        with pytest.raises(PermissionError):
            fs.remove_empty(folder)
    fs.remove_empty(folder)
    assert not folder.exists()


def test_times_of_modification_are_milliseconds(fs, tmp_path):
    (tmp_path / "x").write_bytes(b"")
    os.utime(tmp_path / "x", ns=(0, 1_700_000_000_123_999_999))
    assert fs.modified_ms(tmp_path / "x") == 1_700_000_000_123


def test_whether_a_file_goes_on_behind_its_head(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(b"head")
    os.truncate(path, 1 << 20)
    fd = os.open(path, os.O_RDWR)
    assert os_files._is_hole(fd, 4096, 1 << 20)
    assert os_files._is_hole(fd, 4, 4)
    assert not os_files._is_hole(fd, 0, 1 << 20)
    os.pwrite(fd, b"x", (1 << 20) - 1)
    assert not os_files._is_hole(fd, 4096, 1 << 20)
    monkeypatch.setattr(os_files.os, "lseek", lambda *_: (_ for _ in ()).throw(OSError(errno.EINVAL, "unknown")))
    assert not os_files._is_hole(fd, 4096, 1 << 20)
    monkeypatch.delattr(os_files.os, "SEEK_DATA")
    assert not os_files._is_hole(fd, 4096, 1 << 20)
    assert os_files._is_hole(fd, 9, 4)
    os.close(fd)


def test_a_folder_says_nothing_of_files_it_did_not_read():
    assert InnerFolder("T", "0", {}) == ("T", "0", {}, b"", False)


def test_windows_locks_one_byte_and_syncs_no_folders(fs, tmp_path, descriptors, monkeypatch):
    locks, synced = [], []

    def locking(fd, mode, count):
        locks.append((Path(descriptors[fd]).name, mode, count))
        if len(locks) > 2:
            raise PermissionError(errno.EACCES, "locked")

    monkeypatch.setattr(os_files.os, "fsync", lambda fd: synced.append(descriptors.get(fd)))
    for module in (os_files, readonly):
        monkeypatch.setattr(module, "sys", types.SimpleNamespace(platform="win32"))
        monkeypatch.setattr(module, "msvcrt", types.SimpleNamespace(LK_NBLCK=2, locking=locking), raising=False)
    fs.write(tmp_path / "x", b"x")
    assert synced == [None]
    fs.lock(tmp_path / "lock").release()
    ReadOnlyFileSystem().lock(tmp_path / "lock").release()
    for system in (fs, ReadOnlyFileSystem()):
        with pytest.raises(BlockingIOError) as refused:
            system.lock(tmp_path / "lock")
        assert refused.value.errno == errno.EACCES
    assert locks == [("lock", 2, 1)] * 4
    assert descriptors == {}


# -- open files


def test_the_number_of_open_files_is_bounded(tmp_path):
    memory = MemoryFileSystem()
    files = OpenFiles(memory, 100, 4)
    for i in range(20):
        files.write(tmp_path / str(i), 0, b"%03d" % i)
    for i in range(20):
        assert files.get(tmp_path / str(i)).read(0, 3) == b"%03d" % i
    assert memory.most_open == 4
    assert sorted(files.take_dirty()) == sorted(str(tmp_path / str(i)) for i in range(20))
    assert files.take_dirty() == []
    files.remove(tmp_path / "19")
    assert tmp_path / "19" not in memory.nodes
    files.close()
    assert memory.open_files == 0


def test_many_queues_need_few_files(stores):
    config = StoreConfig(
        mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=400, max_hash_slot_num=16,
        max_index_num=9999, max_open_queue_files=8,
    )  # fmt: skip
    store = stores.open(config)
    for i in range(150):
        fill(store, 2, topic=f"T{i}", size=10)
    store.close()
    store = stores.open(config)
    assert [numbers(read_queue(store, f"T{i}")) for i in range(150)] == [[0, 1]] * 150
    assert stores.fs.most_open < 20


# -- config files


def test_a_config_file_is_written_as_fastjson_does_and_kept_as_backup(fs, tmp_path):
    file = ConfigFile(tmp_path / "consumerOffset.json", fs)
    assert file.load() is None
    value = {"dataVersion": {"counter": 1}, "offsetTable": {"T@g": {BareKey(0): 11, BareKey(1): 12}}}
    file.save(value)
    data = file.path.read_bytes()
    assert data == dumps_pretty(value)
    assert data.startswith(b'{\n\t"dataVersion":{\n\t\t"counter":1\n\t},')
    assert fs.names(tmp_path) == ["consumerOffset.json", "consumerOffset.json.bak", "consumerOffset.json.sum"]
    loaded = {"dataVersion": {"counter": 1}, "offsetTable": {"T@g": {"0": 11, "1": 12}}}
    assert ConfigFile(file.path, fs).load() == loaded
    assert file.path.with_name("consumerOffset.json.bak").read_bytes() == data
    file.save({"a": 1})
    assert ConfigFile(file.path, fs).load() == {"a": 1}


@pytest.mark.parametrize("damage", [b"", b"  \n", b'{"a":', None])
def test_the_backup_is_read_if_the_file_is_damaged(fs, tmp_path, damage):
    file = ConfigFile(tmp_path / "x.json", fs)
    file.save({"n": 1})
    file.save({"n": 2})
    if damage is None:
        file.path.unlink()
    else:
        file.path.write_bytes(damage)
    again = ConfigFile(file.path, fs)
    assert again.load() == {"n": 2}
    again.save({"n": 3})
    assert ConfigFile(file.path, fs).load() == {"n": 3}
    file.path.unlink()
    assert ConfigFile(file.path, fs).load() == {"n": 3}


def test_nothing_is_written_when_nothing_changed(tmp_path):
    memory = MemoryFileSystem()
    file = ConfigFile(tmp_path / "x.json", memory)
    file.save({"n": 1})
    memory.failing.add("replace")
    file.save({"n": 1})
    with pytest.raises(OSError, match="No space left"):
        file.save({"n": 2})
    assert ConfigFile(tmp_path / "x.json", memory).load() == {"n": 1}


# -- names and settings


def test_file_names_are_those_of_java():
    assert segment_name(1 << 30) == "00000000001073741824"
    assert segment_start("00000000001073741824") == 1 << 30
    assert [segment_start(name) for name in ("1", "x" * 20, "٠" * 20, "0" * 21)] == [None] * 4
    noon = int(datetime.datetime(2026, 1, 2, 3, 4, 5).astimezone().timestamp() * 1000) + 67
    assert index_name(noon) == "20260102030405067"
    assert is_index_name("20260102030405067")
    assert not is_index_name("20260102030405067.tmp")


def test_the_places_of_files_are_those_of_java():
    layout = StoreLayout(Path("/s"))
    names = {name: str(path.relative_to("/s")) for name, path in vars(layout).items() if path != layout.root}
    assert names == {
        "commit_log": "commitlog", "consume_queue": "consumequeue", "batch_consume_queue": "batchconsumequeue",
        "index": "index", "config": "config", "checkpoint": "checkpoint", "queue_ends": "queueends",
        "timer_wheel": "timerwheel", "timer_log": "timerlog", "timer_check": "config/timercheck", "abort": "abort",
        "lock": "lock",
    }  # fmt: skip
    assert StoreLayout(Path("/s"), Path("/log")).commit_log == Path("/log")
    assert layout.queue_directory("T", 3) == Path("/s/consumequeue/T/3")
    assert layout.batch_queue_directory("T", 3) == Path("/s/batchconsumequeue/T/3")
    assert layout.topic_directories("T") == (Path("/s/consumequeue/T"), Path("/s/batchconsumequeue/T"))
    for place in (layout.topic_directories, lambda name: layout.queue_directory(name, 0)):
        with pytest.raises(NameIllegal):
            place("..")


def test_settings_are_those_of_java():
    config = StoreConfig()
    assert (config.mapped_file_size_commit_log, config.consume_queue_file_size) == (1 << 30, 6_000_000)
    assert config.index_file_size == 420_000_040
    assert StoreConfig(mapped_file_size_consume_queue=25).consume_queue_file_size == 40
    levels = delay_levels(config.message_delay_level)
    assert (len(levels), levels[0], levels[4], levels[17]) == (18, 1000, 60_000, 7_200_000)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"flush_disk_type": "SOMETIMES"}, "flushDiskType is 'SOMETIMES'"),
        ({"mapped_file_size_commit_log": 100}, "mappedFileSizeCommitLog"),
        ({"mapped_file_size_consume_queue": 0}, "mappedFileSizeConsumeQueue"),
        ({"max_index_num": 1}, "maxIndexNum"),
        ({"message_delay_level": "1s soon"}, "messageDelayLevel has 'soon'"),
    ],
)
def test_wrong_settings_are_named(wrong, text):
    with pytest.raises(ConfigError, match=text):
        StoreConfig(**wrong)


@pytest.mark.skipif(not os_files._CAN_DROP, reason="only Linux keeps what was written to dropped pages")
def test_a_large_file_is_unmapped_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Noted(mmap.mmap):
        def madvise(self, *advice: int) -> None:
            told.append(advice)
            super().madvise(*advice)

        def close(self) -> None:
            told.append(())
            super().close()

    told: list[tuple[int, ...]] = []
    monkeypatch.setattr(os_files.mmap, "mmap", Noted)
    size = 40 * 1024 * 1024
    file = OsFileSystem().open(tmp_path / "log", size)
    file.buffer[size - 3 :] = b"end"
    file.close()
    piece = 16 * 1024 * 1024
    dont_need = mmap.MADV_DONTNEED
    assert told == [(dont_need, 0, piece), (dont_need, piece, piece), (dont_need, 2 * piece, piece // 2), ()]
    with (tmp_path / "log").open("rb") as written:
        written.seek(size - 3)
        assert written.read() == b"end"
