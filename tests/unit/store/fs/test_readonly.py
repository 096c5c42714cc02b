"""Tools that look at a store cannot change it, whatever they try."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketmq_py.store.fs.os_files import OsFileSystem
from rocketmq_py.store.fs.readonly import ReadOnlyFileSystem

CONTENT = b"content of a file"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "queue" / "0"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    path.chmod(0o444)
    return path


CHANGES: dict[str, Callable[[ReadOnlyFileSystem, Path], object]] = {
    "write": lambda fs, path: fs.write(path, b"other"),
    "sync": lambda fs, path: fs.sync([path]),
    "remove": lambda fs, path: fs.remove(path),
    "remove_empty": lambda fs, path: fs.remove_empty(path.parent),
    "remove_tree": lambda fs, path: fs.remove_tree(path.parent),
    "write in a file": lambda fs, path: fs.open(path, 99).write(0, b"other"),
    "allocate in a file": lambda fs, path: fs.open(path, 99).allocate(0, 99),
    "erase in a file": lambda fs, path: fs.open(path, 99).erase(0),
    "sync of a file": lambda fs, path: fs.open(path, 99).sync(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_refused(path: Path, change: Callable[[ReadOnlyFileSystem, Path], object]) -> None:
    with pytest.raises(PermissionError, match="opened read-only"):
        change(ReadOnlyFileSystem(), path)
    assert path.read_bytes() == CONTENT


def test_a_file_of_another_size_is_read_as_it_is(path: Path) -> None:
    file = ReadOnlyFileSystem().open(path, 99)
    assert file.read(0, 7) == b"content"
    assert bytes(file.buffer) == CONTENT
    with pytest.raises(TypeError, match=r"read-?only|modify"):
        file.buffer[0] = 1
    file.close()
    assert path.read_bytes() == CONTENT


def test_a_file_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ReadOnlyFileSystem().open(tmp_path / "1", 99, create=True)
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_names_the_file(path: Path, tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match=re.escape(f"{path} is opened")):
        ReadOnlyFileSystem().sync([path, tmp_path])


def test_nothing_to_sync_is_no_change() -> None:
    ReadOnlyFileSystem().sync([])


def test_tools_exclude_brokers_but_not_each_other(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(FileNotFoundError):
        ReadOnlyFileSystem().lock(lock)
    broker = OsFileSystem().lock(lock)
    with pytest.raises(BlockingIOError):
        ReadOnlyFileSystem().lock(lock)
    broker.release()
    one, two = ReadOnlyFileSystem().lock(lock), ReadOnlyFileSystem().lock(lock)
    one.release()
    with pytest.raises(BlockingIOError):
        OsFileSystem().lock(lock)
    two.release()
    OsFileSystem().lock(lock).release()
