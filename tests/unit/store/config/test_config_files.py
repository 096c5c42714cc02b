"""Configuration files in two generations: which content is loaded after damage, and what is written again."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.fastjson import BareKey
from tests.unit.store.memoryfs import MemoryFileSystem

PATH = Path("/store/config/consumerOffset.json")
BACKUP, SUM, DAMAGED = (PATH.with_name(PATH.name + end) for end in (".bak", ".sum", ".damaged"))
CONTENT = {"offsetTable": {"T@g": {BareKey(0): 150, BareKey(1): 12}}}
LOADED = {"offsetTable": {"T@g": {"0": 150, "1": 12}}}
TEXT = fastjson.dumps_pretty(CONTENT)


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    file = ConfigFile(PATH, fs)
    file.save({"offsetTable": {"T@g": {BareKey(0): 149}}})
    file.save(CONTENT)
    return fs


def offsets(tree: Any) -> dict[str, int]:
    return {queue: int(offset) for queue, offset in tree["offsetTable"]["T@g"].items()}


def damage(fs: MemoryFileSystem, path: Path, data: bytes | None) -> None:
    """Change a file behind the program's back: its time of modification stays."""
    if data is None:
        del fs.nodes[path]
    else:
        fs.nodes[path].content[:] = data


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


DAMAGES = {
    "removed": (None, "is missing"),
    "emptied": (b"", "is empty"),
    "zeros": (bytes(len(TEXT)), "is empty"),
    "cut": (TEXT[:-9], "has a wrong checksum"),
    "another number": (TEXT.replace(b"150", b"151"), "has a wrong checksum"),
    "no number": (TEXT.replace(b"150", b"15p"), "has a wrong checksum"),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGES.values(), ids=DAMAGES)
def test_of_a_damaged_file_nothing_is_lost(
    fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture, data: bytes | None, reason: str
) -> None:
    damage(fs, PATH, data)
    file = ConfigFile(PATH, fs)
    assert file.load() == LOADED
    assert file.is_intact
    assert warnings(caplog) == [f"{PATH} {reason}; its backup is used, which has the same content"]
    file.restore()
    assert fs.read(PATH) == fs.read(BACKUP) == TEXT
    assert fs.read(DAMAGED) == (data or None)
    caplog.clear()
    again = ConfigFile(PATH, fs)
    assert again.load() == LOADED
    assert not again.is_incomplete
    assert not warnings(caplog)


@pytest.mark.parametrize("path", [BACKUP, SUM], ids=["backup", "checksum"])
@pytest.mark.parametrize("data", [None, b"", b"x"])
def test_a_damaged_backup_or_checksum_is_written_again(
    fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture, path: Path, data: bytes | None
) -> None:
    damage(fs, path, data)
    file = ConfigFile(PATH, fs)
    assert file.load() == LOADED
    file.restore()
    assert fs.read(BACKUP) == TEXT
    again = ConfigFile(PATH, fs)
    again.load()
    assert again.is_intact
    assert not again.is_incomplete
    assert not warnings(caplog)


def test_one_flipped_bit_in_the_checksum_changes_nothing(
    fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    fs.nodes[SUM].content[3] ^= 1
    assert ConfigFile(PATH, fs).load() == LOADED
    assert not warnings(caplog)


def test_what_a_java_broker_wrote_later_is_accepted(fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    fs.write(BACKUP, TEXT)
    fs.write(PATH, TEXT.replace(b"150", b"151"))
    file = ConfigFile(PATH, fs)
    assert file.load(offsets) == {"0": 151, "1": 12}
    assert not file.is_intact
    assert not file.may_be_old
    assert not warnings(caplog)
    file.restore()
    again = ConfigFile(PATH, fs)
    assert again.load(offsets) == {"0": 151, "1": 12}
    assert again.is_intact


def test_of_a_damaged_file_of_java_the_previous_content_is_used(
    fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    fs.remove(SUM)
    fs.write(PATH, TEXT.replace(b"150", b"15p0"))
    fs.modified[BACKUP] = 1_700_000_000_000
    file = ConfigFile(PATH, fs)
    assert file.load(offsets) == {"0": 150, "1": 12}
    assert file.may_be_old
    (line,) = warnings(caplog)
    assert line.startswith(f"{PATH} is not valid: invalid literal for int() with base 10: '15p0'; its backup is used, ")
    assert line.endswith("which was written at 2023-11-14 22:13:20 UTC, later changes are missing")


def test_the_loss_of_both_is_said(fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    damage(fs, PATH, b"")
    damage(fs, BACKUP, b"{")
    assert ConfigFile(PATH, fs).load() is None
    (line,) = warnings(caplog)
    assert line.startswith(
        f"{PATH} and its backup cannot be used, it starts without content: {PATH} is empty; {BACKUP}"
    )


def test_if_two_of_the_three_are_damaged_the_file_is_used_and_that_is_said(
    fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    damage(fs, PATH, TEXT.replace(b"150", b"151"))
    damage(fs, BACKUP, None)
    assert ConfigFile(PATH, fs).load(offsets) == {"0": 151, "1": 12}
    assert warnings(caplog) == [
        f"{PATH} has a wrong checksum, and its backup differs; it is used, and entries may be wrong"
    ]


def test_a_new_file_is_no_damage(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    file = ConfigFile(PATH, fs)
    assert file.load() is None
    file.restore()
    assert not fs.nodes
    assert not warnings(caplog)


def test_a_crash_at_any_write_leaves_the_old_or_the_new_content(caplog: pytest.LogCaptureFixture) -> None:
    for number in range(1, 4):
        fs = MemoryFileSystem()
        file = ConfigFile(PATH, fs)
        file.save({"n": 1})
        fs.operations, fs.snapshot_at, left = 0, number, []
        fs.snapshot = lambda fs=fs, left=left: left.append(fs.after_kill())  # type: ignore[misc]
        file.save({"n": 2})
        assert len(left) == 1
        again = ConfigFile(PATH, left[0])
        assert again.load() == {"n": 1 if number == 1 else 2}
        again.restore()
        assert left[0].read(PATH) == left[0].read(BACKUP)
    assert not warnings(caplog)


LONG = {"offsetTable": {"T@g": {BareKey(queue): 1_000_000 + queue for queue in range(60)}}}
"""Some 1,300 bytes: 21 blocks."""


def with_two(fs: MemoryFileSystem, main: bytes, backup: bytes) -> tuple[Any, bool]:
    """What is loaded of a file that was saved with ``LONG`` and damaged since, and whether it may be old."""
    ConfigFile(PATH, fs).save(LONG)
    damage(fs, PATH, main)
    damage(fs, BACKUP, backup)
    file = ConfigFile(PATH, fs)
    loaded = file.load()
    if loaded is not None and file.is_intact:
        file.restore()
        assert fs.nodes[PATH].content == fs.nodes[BACKUP].content == fastjson.dumps_pretty(LONG)
    return loaded, file.may_be_old


def spoiled(*parts: tuple[int, int], text: bytes = fastjson.dumps_pretty(LONG)) -> bytes:
    """The saved content with zeros from each begin to each end."""
    content = bytearray(text)
    for begin, end in parts:
        content[begin:end] = bytes(end - begin)
    return bytes(content)


END = len(spoiled())
TWO = {
    "at both ends": (spoiled((0, 60)), spoiled((END - 60, END))),
    "one block apart": (spoiled((0, 64)), spoiled((128, 192))),
    "each in two places": (spoiled((70, 71), (700, 900)), spoiled((300, 301), (1_000, 1_001))),
    "three and three": (spoiled((0, 1), (256, 257), (512, 513)), spoiled((128, 129), (384, 385), (640, 641))),
    "one is cut": (spoiled()[:900], spoiled((70, 400))),
    "the other is cut": (spoiled((70, 400)), spoiled()[:900]),
    "one is too long": (spoiled((70, 400)) + b"x", spoiled((600, 601))),
}


@pytest.mark.parametrize(("main", "backup"), TWO.values(), ids=TWO)
def test_two_that_are_damaged_in_different_places_are_put_together(
    fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture, main: bytes, backup: bytes
) -> None:
    loaded, may_be_old = with_two(fs, main, backup)
    assert (loaded, may_be_old) == (fastjson.loads(fastjson.dumps_pretty(LONG)), False)
    assert warnings(caplog) == [f"{PATH} and its backup are damaged in different places and are put together"]
    assert fs.nodes[DAMAGED].content == main
    file = ConfigFile(PATH, fs)
    assert (file.load(), file.is_intact, file.may_be_old) == (loaded, True, False)


@pytest.mark.parametrize(
    ("main", "backup"),
    [
        (spoiled((0, 60)), spoiled((10, 20))),
        (spoiled((0, 60)), spoiled((0, 60))),
        (spoiled(*((at, at + 1) for at in range(0, 128 * 7, 128))), spoiled((END - 1, END))),
    ],
    ids=["in the same block", "in the same way", "in too many places"],
)
def test_two_that_cannot_be_put_together_are_lost(fs: MemoryFileSystem, main: bytes, backup: bytes) -> None:
    assert with_two(fs, main, backup) == (None, True)
