"""Tables with a journal: contents of file and journal, and after a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.store.config.config_journal import JOURNAL_SIZE, WHOLE_WRITES_SHARE, JournaledFile, Snapshot
from tests.unit.store.memoryfs import MemoryFileSystem

PATH = Path("/store/config/topics.json")
JOURNAL = Path("/store/config/topics.json.journal")
OTHER = Path("/store/config/topics.json.journal2")
WRITE_SECONDS = 1.0


class Later(Executor):
    """An executor that runs its jobs when it is told to."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except OSError as e:
                future.set_exception(e)

        self.jobs.append(run)
        return future

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
    starts = [0] + [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    content[starts[line] + 12] ^= 1
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
