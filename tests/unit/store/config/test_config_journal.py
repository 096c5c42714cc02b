"""Tables with a journal: contents of file and journal, and after a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.store.config.config_journal import JOURNAL_SIZE, WHOLE_WRITES_SHARE, JournaledFile, Snapshot
from tests.unit.store.memoryfs import MemoryFileSystem

PATH = Path("/store/config/topics.json")
JOURNAL = Path("/store/config/topics.json.journal")
OTHER = Path("/store/config/topics.json.journal2")
SUM = Path("/store/config/topics.json.sum")
WRITE_SECONDS = 1.0


class Later(Executor):
    """An executor that runs its jobs when it is told to."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self.new_future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except OSError as e:
                future.set_exception(e)

        self.jobs.append(run)
        return future

    def new_future(self) -> Future[Any]:
        return Future()

    def run(self) -> None:
        while self.jobs:
            self.jobs.pop(0)()


class Keeper:
    """A table and its file. Writing it as a whole takes a second of its clock, all else no time."""

    def __init__(self, fs: MemoryFileSystem, thread: Executor | None = None) -> None:
        self.fs = fs
        self.now = 0.0
        self.file = JournaledFile(PATH, fs, lambda: self.now, thread)
        tree = self.file.load() or {"dataVersion": {"counter": 0}, "table": {}}
        self.counter: int = tree["dataVersion"]["counter"]
        self.table: dict[str, Any] = tree["table"]

    def whole(self) -> Snapshot:
        version, table = {"counter": self.counter}, dict(self.table)

        def content() -> dict[str, Any]:
            self.now += WRITE_SECONDS
            return {"dataVersion": version, "table": table}

        return Snapshot(version, content)

    def put(self, **entries: Any) -> None:
        self.counter += 1
        self.table = {k: v for k, v in (self.table | entries).items() if v is not None}
        self.file.change({"counter": self.counter}, {"table": entries}, self.whole)

    def pass_and_catch_up(self) -> None:
        """Note the end of a rewrite, and let the time pass until the next one is due."""
        self.file.catch_up(self.whole)
        self.now += WRITE_SECONDS * WHOLE_WRITES_SHARE
        self.file.catch_up(self.whole)

    def in_file(self) -> Any:
        data = self.fs.read(PATH)
        return json.loads(data)["table"] if data else None


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


def test_an_occasional_change_is_written_to_the_file_at_once(fs: MemoryFileSystem) -> None:
    keeper = Keeper(fs)
    for number in range(3):
        keeper.put(**{f"t{number}": number})
        assert keeper.in_file() == keeper.table
        assert JOURNAL not in fs.nodes
        keeper.now += WRITE_SECONDS * WHOLE_WRITES_SHARE


def test_a_burst_is_written_to_the_journal_and_later_to_the_file(fs: MemoryFileSystem) -> None:
    keeper = Keeper(fs)
    for number in range(100):
        keeper.put(**{f"t{number}": number})
    keeper.put(t7=None)
    assert keeper.in_file() == {"t0": 0}
    keeper.file.catch_up(keeper.whole)
    assert keeper.in_file() == {"t0": 0}, "too soon"
    assert Keeper(fs).table == keeper.table
    keeper.now += WRITE_SECONDS * WHOLE_WRITES_SHARE
    keeper.file.catch_up(keeper.whole)
    assert keeper.in_file() == keeper.table
    assert JOURNAL not in fs.nodes
    assert fs.open_files == 0
    writes = fs.operations
    keeper.now += WRITE_SECONDS * WHOLE_WRITES_SHARE
    keeper.file.catch_up(keeper.whole)
    assert fs.operations == writes, "there was nothing to write"


def test_a_full_journal_is_merged_into_the_file(fs: MemoryFileSystem) -> None:
    keeper = Keeper(fs)
    keeper.put(a=1)
    keeper.put(b="x" * (JOURNAL_SIZE // 2))
    assert keeper.in_file() == {"a": 1}
    keeper.put(c="x" * (JOURNAL_SIZE // 2))
    assert keeper.in_file() == keeper.table
    keeper.put(d="x" * (2 * JOURNAL_SIZE))
    assert keeper.in_file() == keeper.table == Keeper(fs).table


def test_a_journal_of_another_file_is_ignored_with_a_warning(
    fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(fs)
    keeper.put(a=1)
    keeper.put(b=2)
    fs.write(PATH, b'{"dataVersion":{"counter":1,"timestamp":7},"table":{"java":1}}')
    again = Keeper(fs)
    assert again.table == {"java": 1}
    assert "topics.json.journal is ignored: another program has rewritten" in caplog.text
    again.put(c=3)
    assert again.in_file() == {"java": 1, "c": 3}
    assert JOURNAL not in fs.nodes


@pytest.mark.parametrize("torn", [b'{"dataVersion":{"counter":3},"ta', b"7\n", b"\0\0\n{}\n"])
def test_a_torn_line_ends_the_journal(fs: MemoryFileSystem, torn: bytes) -> None:
    keeper = Keeper(fs)
    keeper.put(a=1)
    keeper.put(b=2)
    content = fs.nodes[JOURNAL].content
    end = bytes(content).rstrip(b"\0")
    content[len(end) : len(end) + len(torn)] = torn
    assert Keeper(fs).table == {"a": 1, "b": 2}


def test_a_disk_that_fails_refuses_the_change_and_keeps_the_others(fs: MemoryFileSystem) -> None:
    keeper = Keeper(fs)
    keeper.put(a=1)
    keeper.put(b=2)
    fs.failing.add("write")
    with pytest.raises(OSError, match="No space left"):
        keeper.put(c=3)
    assert Keeper(fs).table == {"a": 1, "b": 2}
    fs.failing.clear()
    keeper.put(d=4)
    assert Keeper(fs).table == {"a": 1, "b": 2, "d": 4}, "what was refused is written with the next whole"


def test_a_change_never_writes_the_file_in_the_calling_thread(fs: MemoryFileSystem) -> None:
    thread = Later()
    keeper = Keeper(fs, thread)
    replaced = list[Path]()

    def note(operation: str, path: Path) -> bool:
        replaced.extend([path] if operation == "replace" else [])
        return False

    fs.fails = note
    for number in range(5):
        keeper.put(**{f"t{number}": number})
        keeper.now += WRITE_SECONDS * WHOLE_WRITES_SHARE
        keeper.file.catch_up(keeper.whole)
    assert replaced == []
    assert len(thread.jobs) == 1, "one rewrite at a time"
    thread.run()
    assert PATH in replaced


def test_changes_during_a_rewrite_are_in_the_other_journal(fs: MemoryFileSystem) -> None:
    thread = Later()
    keeper = Keeper(fs)
    keeper.put(a=1)
    keeper = Keeper(fs, thread)
    for name in "bcdefg":
        keeper.put(**{name: 1})  # begins a rewrite
        keeper.put(**{name: 2})
        assert {JOURNAL, OTHER} <= set(fs.nodes)
        assert Keeper(fs.after_kill()).table == keeper.table
        thread.run()
        assert keeper.in_file() == keeper.table | {name: 1}
        assert len({JOURNAL, OTHER} & set(fs.nodes)) == 1
        assert Keeper(fs.after_kill()).table == keeper.table
        keeper.pass_and_catch_up()
        thread.run()
        keeper.pass_and_catch_up()
        assert keeper.in_file() == keeper.table
        assert not {JOURNAL, OTHER} & set(fs.nodes)


def test_a_file_that_has_all_changes_is_not_written_at_the_end(fs: MemoryFileSystem) -> None:
    keeper = Keeper(fs)
    keeper.put(a=1)
    for again in (keeper, Keeper(fs)):
        before = fs.operations
        again.file.save(again.whole)
        assert fs.operations == before
    fs.remove(PATH)
    keeper.file.save(keeper.whole)
    assert keeper.in_file() == {"a": 1}


def test_a_failed_rewrite_is_told_later_and_loses_nothing(fs: MemoryFileSystem) -> None:
    thread = Later()
    keeper = Keeper(fs)
    keeper.put(a=1)
    keeper = Keeper(fs, thread)
    keeper.put(b=2)
    keeper.put(c=3)
    fs.failing.add("replace")
    thread.run()
    with pytest.raises(OSError, match="No space left"):
        keeper.file.catch_up(keeper.whole)
    assert Keeper(fs.after_kill()).table == keeper.table
    fs.failing.clear()
    keeper.file.save(keeper.whole)
    assert keeper.in_file() == keeper.table
    assert not {JOURNAL, OTHER} & set(fs.nodes)


def test_a_replaced_table_is_written_soon_and_again_if_it_is_replaced_meanwhile(fs: MemoryFileSystem) -> None:
    thread = Later()
    keeper = Keeper(fs, thread)
    for content in (1, 2):
        keeper.counter, keeper.table = 70 + content, {"master": content}
        keeper.file.rewrite(keeper.whole)
    thread.run()
    assert keeper.in_file() == {"master": 1}
    keeper.pass_and_catch_up()
    thread.run()
    assert keeper.in_file() == {"master": 2}
    keeper.file.catch_up(keeper.whole)
    assert thread.jobs == []


steps = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9), min_size=1),
        st.sampled_from([0.0, 5.0, 25.0]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(steps, st.integers(1, 60), st.booleans())
def test_acknowledged_changes_survive_a_kill_at_any_point(
    steps: list[tuple[dict[str, Any], float, bool, bool]], kill_at: int, in_thread: bool
) -> None:
    fs, thread = MemoryFileSystem(), Later()
    keeper = Keeper(fs, thread if in_thread else None)
    keeper.file.save(keeper.whole)
    before, under_way = keeper.table, keeper.table
    left: list[tuple[MemoryFileSystem, dict[str, Any], dict[str, Any]]] = []
    fs.snapshot_at = kill_at
    fs.snapshot = lambda: left.append((fs.after_kill(), before, under_way))
    for entries, pause, catch_up, writes in steps:
        before = keeper.table
        under_way = {k: v for k, v in (before | entries).items() if v is not None}
        keeper.put(**entries)
        before = under_way
        keeper.now += pause
        if catch_up:
            keeper.file.catch_up(keeper.whole)
        if writes:
            thread.run()
    left.append((fs.after_kill(), before, before))
    for crashed, *allowed in left:
        again = Keeper(crashed)
        assert again.table in allowed
        again.put(z=1)
        assert Keeper(crashed.after_kill()).table == again.table


def after_changes(fs: MemoryFileSystem) -> dict[str, Any]:
    """Make a store with changes in the journal, and return the table."""
    keeper = Keeper(fs)
    for number in range(5):
        keeper.put(**{f"t{number}": "x" * 40})
    assert JOURNAL in fs.nodes
    return keeper.table


@pytest.mark.parametrize("line", range(5))
def test_a_damaged_line_of_the_journal_costs_its_own_change(
    fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture, line: int
) -> None:
    table = after_changes(fs)
    content = fs.nodes[JOURNAL].content
    lines = bytes(content).rstrip(b"\0").splitlines(keepends=True)
    content[sum(map(len, lines[:line])) + 12] ^= 1
    again = Keeper(fs)
    assert again.file.may_be_old
    assert again.table == {name: value for name, value in table.items() if line == 0 or name != f"t{line}"}
    assert (
        f"{JOURNAL} has 1 damaged lines: changes to {PATH} made shortly before the last stop may be lost" in caplog.text
    )


def test_the_journal_applies_to_the_backup_of_a_damaged_file(fs: MemoryFileSystem) -> None:
    table = after_changes(fs)
    fs.nodes[PATH].content[:] = b""
    again = Keeper(fs)
    assert again.table == table
    assert not again.file.may_be_old
    again.now += WRITE_SECONDS * WHOLE_WRITES_SHARE
    again.file.catch_up(again.whole)
    assert again.in_file() == table


def test_a_damaged_file_without_a_journal_is_restored(fs: MemoryFileSystem) -> None:
    keeper = Keeper(fs)
    keeper.put(a=1)
    fs.remove(PATH)
    again = Keeper(fs)
    assert again.table == {"a": 1}
    assert again.file.is_behind
    again.file.catch_up(again.whole)
    assert again.in_file() == {"a": 1}


def test_lines_without_a_checksum_are_read(fs: MemoryFileSystem) -> None:
    table = after_changes(fs)
    lines = bytes(fs.nodes[JOURNAL].content).split(b"\n")[:-1]
    fs.write(JOURNAL, b"".join(line.partition(b" ")[2] + b"\n" for line in lines))
    assert Keeper(fs).table == table


def test_a_lost_journal_is_noticed(fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    after_changes(fs)
    fs.remove(JOURNAL)
    again = Keeper(fs)
    assert again.table == {"t0": "x" * 40}
    assert again.file.may_be_old
    assert f"{JOURNAL} is missing: changes to {PATH} made shortly before the last stop are lost" in caplog.text
    again.file.catch_up(again.whole)
    assert not Keeper(fs).file.may_be_old


def test_a_rewrite_waits_for_twenty_times_as_long_as_the_last_one_took(fs: MemoryFileSystem) -> None:
    keeper = Keeper(fs)
    keeper.put(a=1)  # is written at 0 s, which takes a second
    keeper.put(b=2)
    for now, table in ((20.99, {"a": 1}), (21.0, {"a": 1, "b": 2})):
        keeper.now = now
        keeper.file.catch_up(keeper.whole)
        assert keeper.in_file() == table
    keeper.put(c=3)
    keeper.now = 22.0 + 19.99
    keeper.put(d=4)
    assert keeper.in_file() == {"a": 1, "b": 2}
    keeper.now = 22.0 + 20.0
    keeper.put(e=5)
    assert keeper.in_file() == keeper.table


MEGABYTE = 1024 * 1024
LINES = 2 * len('01234567 {"dataVersion":{"counter":1}}\n') + len(',"table":{"b":""}')
"""Bytes of a journal with the begin of a table and one empty entry."""


@pytest.mark.parametrize(("size", "is_in_journal"), [(MEGABYTE - 1, True), (MEGABYTE, False)])
def test_a_journal_of_a_megabyte_is_full(fs: MemoryFileSystem, size: int, is_in_journal: bool) -> None:
    keeper = Keeper(fs)
    keeper.put(a=1)
    created = list[Path]()
    fs.fails = lambda operation, path: operation == "create" and created.append(path) is not None
    keeper.put(b="x" * (size - LINES))
    assert created == ([JOURNAL] if is_in_journal else []), "what has no room begins no journal"
    assert (JOURNAL in fs.nodes) is is_in_journal
    assert keeper.in_file() == ({"a": 1} if is_in_journal else keeper.table)
    assert Keeper(fs).table == keeper.table
    if is_in_journal:
        assert len(bytes(fs.nodes[JOURNAL].content).rstrip(b"\0")) == size
        keeper.put(c=3)
        assert keeper.in_file() == keeper.table


def test_a_journal_has_room_up_to_its_last_byte_but_one(fs: MemoryFileSystem) -> None:
    keeper = Keeper(fs)
    keeper.put(a=1)
    keeper.put(b="")
    rest = MEGABYTE - LINES - len('01234567 {"dataVersion":{"counter":3},"table":{"c":""}}\n')
    keeper.put(c="x" * (rest - 1))
    assert keeper.in_file() == {"a": 1}
    assert bytes(fs.nodes[JOURNAL].content[-2:]) == b"\n\0"
    keeper.put(d=1)
    assert keeper.in_file() == keeper.table


class Waited(Future[Any]):
    """A future whose job runs when its result is waited for."""

    def __init__(self, thread: OnDemand) -> None:
        super().__init__()
        self._thread = thread

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._thread.run()
        return super().exception(timeout)


class OnDemand(Later):
    """Runs its jobs as soon as somebody waits for one of them."""

    def new_future(self) -> Future[Any]:
        return Waited(self)


def rewriting(fs: MemoryFileSystem) -> tuple[Keeper, OnDemand]:
    """A table whose file is being rewritten; a change was made since."""
    thread = OnDemand()
    Keeper(fs).put(a=1)
    keeper = Keeper(fs, thread)
    keeper.put(b=2)
    keeper.put(c=3)
    assert len(thread.jobs) == 1
    return keeper, thread


def test_a_save_waits_for_the_rewrite_that_runs(fs: MemoryFileSystem) -> None:
    """Otherwise the rewrite would write older content afterwards."""
    keeper, thread = rewriting(fs)
    keeper.file.save(keeper.whole)
    assert thread.jobs == []
    assert keeper.in_file() == {"a": 1, "b": 2, "c": 3}
    assert not {JOURNAL, OTHER} & set(fs.nodes)


def test_a_save_makes_up_for_a_rewrite_that_fails(fs: MemoryFileSystem) -> None:
    keeper, _ = rewriting(fs)
    failed = list[str]()
    fs.fails = lambda operation, path: operation == "replace" and not failed and failed.append("once") is None
    keeper.file.save(keeper.whole)
    assert failed == ["once"]
    assert keeper.in_file() == {"a": 1, "b": 2, "c": 3}


def test_a_change_without_room_in_both_journals_waits_for_the_rewrite(fs: MemoryFileSystem) -> None:
    keeper, thread = rewriting(fs)
    keeper.put(d="x" * (MEGABYTE - 100))
    assert len(thread.jobs) == 1, "the next rewrite"
    assert keeper.in_file() == {"a": 1, "b": 2}, "what the rewrite was begun with"
    assert Keeper(fs.after_kill()).table == keeper.table
    keeper.put(e="x" * MEGABYTE)
    assert keeper.in_file() == keeper.table, "a change that no journal can take"


def test_a_save_waits_for_the_mark_of_a_journal(fs: MemoryFileSystem) -> None:
    thread = OnDemand()
    keeper = Keeper(fs)
    keeper.put(a=1)
    keeper = Keeper(fs, thread)
    keeper.put(b=2)
    thread.run()
    keeper.file.catch_up(keeper.whole)
    keeper.put(c=3)
    keeper.file.catch_up(keeper.whole)
    assert len(thread.jobs) == 1, "the mark beside the checksum"
    keeper.file.save(keeper.whole)
    assert thread.jobs == []
    assert Keeper(fs).table == keeper.table
    assert not Keeper(fs).file.may_be_old


def test_the_mark_is_written_once_for_each_journal(fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper(fs)
    keeper.put(a=1)
    written = list[str]()
    fs.fails = lambda operation, path: operation == "replace" and written.append(path.name) is not None
    keeper.put(b=2)
    for _ in range(3):
        keeper.file.catch_up(keeper.whole)
    assert written == ["topics.json.sum"]
    assert (fs.read(PATH.with_name("topics.json.sum")) or b"").endswith(b" journal\n")
    keeper.now += 21
    keeper.file.catch_up(keeper.whole)
    assert written == ["topics.json.sum", "topics.json", "topics.json.sum", "topics.json.bak"]
    fs.fails = lambda operation, path: operation == "replace"
    keeper.put(c=3)
    assert f"a loss of the journal of {PATH} will not be noticed: " in caplog.text


def line(counter: int | None, **entries: Any) -> bytes:
    """A line of a journal: the step to a version."""
    text = json.dumps({"dataVersion": {"counter": counter}, "table": entries}).encode()
    return b"%08x %s\n" % (crc32(text), text)


def put_down(fs: MemoryFileSystem, version: Any, table: dict[str, Any], *journals: bytes) -> None:
    fs.write(PATH, json.dumps({"dataVersion": version, "table": table}).encode())
    for place, journal in zip((JOURNAL, OTHER), journals, strict=False):
        if journal:
            fs.write(place, journal.ljust(200, b"\0"))


def test_what_is_loaded_of_a_file_and_its_journals(caplog: pytest.LogCaptureFixture) -> None:
    first = line(1) + line(2, a=2) + line(3, a=3, b=1)
    second = line(3) + line(4, a=4)
    apart = line(8) + line(9, b=9)
    version, begin, damaged = {"counter": 1}, {"a": 1}, b"00000000 {}\n"
    cases: dict[str, tuple[Any, tuple[bytes, ...], dict[str, Any], bool, str]] = {
        "no journal": (version, (), {"a": 1}, False, ""),
        "a journal": (version, (first,), {"a": 3, "b": 1}, False, ""),
        "a journal that is continued": (version, (first, second), {"a": 4, "b": 1}, False, ""),
        "a journal that continues": (version, (second, first), {"a": 4, "b": 1}, False, ""),
        "only the second place": (version, (b"", first), {"a": 3, "b": 1}, False, ""),
        "a file with the first step": ({"counter": 2}, (first,), {"a": 3, "b": 1}, False, ""),
        "a file with all steps": ({"counter": 3}, (first,), {"a": 1}, False, ""),
        "a file with all of the first": ({"counter": 3}, (first, second), {"a": 4}, False, ""),
        "a file with all of both": ({"counter": 4}, (first, second), {"a": 1}, False, ""),
        "a file of another program": ({"counter": 7}, (first,), {"a": 1}, False, f"{JOURNAL} is ignored"),
        "a begin of another file": ({"counter": 7}, (line(1),), {"a": 1}, False, f"{JOURNAL} is ignored"),
        "an older journal of another file": (version, (first, apart), {"a": 3, "b": 1}, False, f"{OTHER} is ignored"),
        "journals of another file": ({"counter": 8}, (apart, first), {"a": 1, "b": 9}, False, f"{OTHER} is ignored"),
        "an empty journal": (version, (bytes(9),), {"a": 1}, True, ""),
        "an end within a line": (version, (first + b'00000000 {"d',), {"a": 3, "b": 1}, True, ""),
        "a damaged begin": (version, (damaged + line(2, a=2),), {"a": 2}, True, "1 damaged lines"),
        "a damaged begin of an older file": (version, (damaged + line(1, a=7),), {"a": 1}, True, "1 damaged lines"),
        "a damaged version": (None, (damaged + line(2, a=2),), {"a": 1}, True, "1 damaged lines"),
        "two damaged lines": (
            version,
            (line(1) + 2 * damaged + line(4, b=4),),
            {"a": 1, "b": 4},
            True,
            "has 2 damaged",
        ),
        "steps of another count": (
            {"counter": 2, "timestamp": 5},
            (damaged + line(2, a=2) + line(3, b=3),),
            {"a": 1, "b": 3},
            True,
            "1 damaged",
        ),
        "no step": (version, (damaged,), {"a": 1}, True, "1 damaged lines"),
        "a step that is no object": (version, (line(1) + b"[1]\n" + line(2, a=2),), {"a": 2}, True, "1 damaged"),
    }
    wrong = []
    for name, (version, journals, table, is_old, said) in cases.items():
        fs = MemoryFileSystem()
        put_down(fs, version, begin, *journals)
        caplog.clear()
        file = JournaledFile(PATH, fs)
        tree = file.load()
        if tree is None or tree["table"] != table or file.may_be_old != is_old or said not in caplog.text:
            wrong.append((name, tree, file.may_be_old, caplog.text))
        if bool(said) != bool(caplog.text):
            wrong.append((name, caplog.text))
    assert wrong == []


def test_entries_and_tables_are_replaced_added_and_removed(fs: MemoryFileSystem) -> None:
    text = json.dumps({"dataVersion": {"counter": 2}, "new": {"x": 1}, "table": {"a": None, "b": 2, "z": None}})
    put_down(fs, {"counter": 1}, {"a": 1, "c": 3}, line(1) + b"%08x %s\n" % (crc32(text.encode()), text.encode()))
    assert JournaledFile(PATH, fs).load() == {
        "dataVersion": {"counter": 2}, "new": {"x": 1}, "table": {"b": 2, "c": 3},
    }  # fmt: skip


def test_the_loss_of_the_second_journal_is_noticed(fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    thread = Later()
    keeper = Keeper(fs, thread)
    keeper.put(a=1)  # to the first journal, and the file is rewritten
    keeper.put(b=2)  # meanwhile: to the second one
    thread.run()
    keeper.file.catch_up(keeper.whole)
    thread.run()  # notes the journal
    assert (fs.read(JOURNAL), bool(fs.read(OTHER))) == (None, True)
    assert (fs.read(SUM) or b"").endswith(b" journal2\n")
    fs.remove(OTHER)
    again = Keeper(fs)
    assert again.table == {"a": 1}
    assert again.file.may_be_old
    assert f"{OTHER} is missing: changes to {PATH} made shortly before the last stop are lost" in caplog.text


def test_of_two_journals_each_is_missed(fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    table = after_changes(fs)
    noted = fs.read(SUM) or b""
    assert noted.endswith(b" journal\n")
    fs.write(SUM, noted[:-1] + b" journal2\n")
    again = Keeper(fs)
    assert (again.table, again.file.may_be_old) == (table, True)
    assert f"{OTHER} is missing: " in caplog.text
    fs.remove(JOURNAL)
    assert Keeper(fs).file.may_be_old
    assert f"{JOURNAL} and {OTHER} are missing: " in caplog.text


def test_version_1_0_notes_the_first_journal_for_either(fs: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    table = after_changes(fs)
    fs.write(OTHER, fs.read(JOURNAL) or b"")
    fs.remove(JOURNAL)
    again = Keeper(fs)
    assert (again.table, again.file.may_be_old, caplog.text) == (table, False, "")
