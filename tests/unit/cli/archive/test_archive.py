"""``rocketmq archive`` of the files of a store, ``rocketmq replay`` with a sender in memory; what both refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from deltalake import DeltaTable, write_deltalake

from rocketmq_py.arrow.ranges import DataLossError
from rocketmq_py.cli.archive import delta, replaying
from rocketmq_py.cli.archive.manifest import load
from rocketmq_py.cli.archive.replaying import Prepared, Replay
from rocketmq_py.cli.output.failures import Status
from tests.unit.store.helpers import Stores, fill

Run = Callable[..., Result]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = Stores(tmp_path / "store", None)
    yield opened
    opened.close()


@pytest.fixture
def store(stores: Stores) -> Path:
    """20 messages of T in two queues, one of U."""
    add(stores, 0, 20)
    return stores.root


def add(stores: Stores, first: int, stop: int) -> None:
    store = stores.open()
    for i in range(first, stop):
        fill(store, 1, start=i, queue_id=i % 2)
    fill(store, 1, topic="U")
    store.close()


def archived(run: Run, store: Path, to: Path, *more: object, topic: str = "T") -> str:
    result = run("archive", topic, "--to", str(to), "--store", str(store), *map(str, more))
    assert result.exit_code == 0, result.output
    return result.output.splitlines()[-1]


def refused(result: Result) -> str:
    assert result.exit_code == Status.FAILED, result.output
    return result.output


def numbers(to: Path) -> list[int]:
    manifest = load(to)
    assert manifest is not None
    tables = [pq.read_table(to / part.name) for part in manifest.parts]
    assert [table.num_rows for table in tables] == [part.rows for part in manifest.parts]
    return sorted(int(body.split(b"|")[0]) for table in tables for body in table.column("body").to_pylist())


def test_each_run_adds_what_is_new(run: Run, stores: Stores, store: Path, tmp_path: Path) -> None:
    to = tmp_path / "new" / "archive"
    assert archived(run, store, to, "--rows", 8) == f"archived 20 messages of topic T; {to} has 20 in 4 files"
    assert [part.name for part in load(to).parts] == [f"part-{n:06d}.parquet" for n in range(4)]  # type: ignore[union-attr]
    assert archived(run, store, to) == f"archived 0 messages of topic T; {to} has 20 in 4 files"
    add(stores, 20, 23)
    (to / "part-000004.parquet").write_bytes(b"of a killed run")
    assert archived(run, store, to) == f"archived 3 messages of topic T; {to} has 23 in 5 files"
    assert numbers(to) == list(range(23))
    assert list(to.glob("*.tmp")) == []


def test_an_archive_is_of_one_topic(run: Run, store: Path, tmp_path: Path) -> None:
    to = tmp_path / "archive"
    archived(run, store, to)
    said = refused(run("archive", "U", "--to", str(to), "--store", str(store)))
    assert f"{to} is an archive of topic T: each topic needs its own" in said


def test_a_file_that_is_not_as_the_manifest_says_is_named(run: Run, store: Path, tmp_path: Path) -> None:
    to = tmp_path / "archive"
    archived(run, store, to, "--rows", 8)
    last = to / "part-000003.parquet"
    pq.write_table(pq.read_table(last).slice(0, 3), last)
    again = ("archive", "T", "--to", str(to), "--store", str(store))
    assert f"{last} has 3 rows, archive.json says 5" in refused(run(*again))
    last.unlink()
    assert f"{last}, which archive.json names, cannot be read" in refused(run(*again))
    assert f"{last}, which archive.json names" in refused(run("replay", str(to), "--topic", "copy"))


@pytest.mark.parametrize(("text", "said"), [
    ("{", "cannot be read"),
    ('{"topic": "T", "form": 2}', "has form 2, this version reads 1: use a newer version"),
    ('{"topic": "T", "parts": [{"name": "../x", "rows": 1, "size": 1, "stretches": []}]}', "names '../x', which is no"),
])  # fmt: skip
def test_a_manifest_that_cannot_be_used_is_refused(run: Run, store: Path, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "archive.json").write_text(text)
    assert said in refused(run("archive", "T", "--to", str(tmp_path), "--store", str(store)))
    assert said in refused(run("replay", str(tmp_path), "--topic", "copy"))


def test_two_runs_at_once_are_refused(run: Run, store: Path, tmp_path: Path) -> None:
    from rocketmq_py.cli.archive.archive import locked

    to = tmp_path / "archive"
    archived(run, store, to)
    with locked(to):
        assert f"another run is using {to}" in refused(run("archive", "T", "--to", str(to), "--store", str(store)))
    archived(run, store, to)


def test_a_directory_that_cannot_be_made_is_refused(run: Run, store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    to = tmp_path / "file" / "archive"
    assert f"{to} cannot be written: " in refused(run("archive", "T", "--to", str(to), "--store", str(store)))


def test_addresses_cannot_be_mapped(run: Run, store: Path, tmp_path: Path) -> None:
    mapped = ("--map", "a:1=b:1")
    said = refused(run("archive", "T", "--to", str(tmp_path / "a"), "--store", str(store), *mapped))
    assert "archive cannot map addresses" in said
    assert "replay cannot map addresses" in refused(run("replay", str(tmp_path), "--topic", "copy", *mapped))


class Sender:
    """What replay sends: bodies by batch number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.committed: dict[int, list[int]] = {}
        self.made: int | None = None
        self.settings: Any = None
        self._prepared: list[int] = []
        monkeypatch.setattr(replaying, "Decisions", SimpleNamespace(at=lambda _: self))
        monkeypatch.setattr(replaying, "Committer", lambda settings, _, timeout: self._committer(settings, timeout))
        monkeypatch.setattr(replaying, "queues_of", lambda *_: 2)
        monkeypatch.setattr(replaying, "_prepared", self._prepare)
        self.fails_at: int | None = None

    def latest(self) -> Any:
        return None if self.made is None else SimpleNamespace(batch_id=self.made)

    def _committer(self, settings: Any, timeout: float) -> Sender:
        self.settings, self.timeout = settings, timeout
        return self

    def _prepare(self, state: Replay, batch: Any, rows: Any, settings: Any) -> Prepared:
        assert settings is self.settings
        self._prepared = [int(body.split(b"|")[0]) for body in rows.column("body").to_pylist()]
        return Prepared(state.query_id, "attempt")

    def commit(self, prepared: list[Prepared], number: int) -> None:
        if number == self.fails_at:
            self.made = number
            raise OSError(28, "No space left on device")
        (one,) = prepared
        self.committed[number] = [] if one.attempt == "none" else self._prepared


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> Sender:
    return Sender(monkeypatch)


def test_an_archive_is_sent_once(run: Run, store: Path, sender: Sender, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(replaying.time, "sleep", lambda _: None)
    to = tmp_path / "archive"
    archived(run, store, to)
    first = run("replay", str(to), "--topic", "copy", "--rate", "6", "--check-timeout", "30", "--namesrv", "h:9876")
    assert first.output.splitlines()[-1] == "replayed 20 messages to topic copy, 20 in all runs"
    assert [len(bodies) for bodies in sender.committed.values()] == [6, 6, 6, 2]
    assert sorted(number for bodies in sender.committed.values() for number in bodies) == list(range(20))
    assert (sender.settings.namesrv, sender.settings.producer_group, sender.timeout) == (("h:9876",), "replay", 30)
    sender.committed.clear()
    again = run("replay", str(to), "--topic", "copy", "--namesrv", "h:9876")
    assert again.output.splitlines()[-1] == "replayed 0 messages to topic copy, 20 in all runs"
    assert sender.committed == {}
    assert "was begun with other times" in refused(run("replay", str(to), "--topic", "copy", "--from", "2020-01-01"))


def test_a_run_that_fails_is_continued(run: Run, store: Path, sender: Sender, tmp_path: Path) -> None:
    to = tmp_path / "archive"
    archived(run, store, to, "--rows", 8)
    sender.fails_at = 2 * replaying._PER_FILE
    said = refused(run("replay", str(to), "--topic", "copy"))
    assert f"{to / 'replays' / 'copy'} cannot be written: No space left on device" in said
    begun = sum(map(len, sender.committed.values()))
    sender.fails_at = None
    rest = run("replay", str(to), "--topic", "copy")
    assert rest.output.splitlines()[-1] == f"replayed {20 - begun} messages to topic copy, 20 in all runs"
    assert sender.committed[2 * replaying._PER_FILE] == []  # decided by the run that failed: nothing is sent twice


def test_a_time_sends_a_part(run: Run, store: Path, sender: Sender, tmp_path: Path) -> None:
    to = tmp_path / "archive"
    archived(run, store, to)
    some = run("replay", str(to), "--topic", "copy", "--to", "2001-01-01")
    assert some.output.splitlines()[-1] == "replayed 0 messages to topic copy, 0 in all runs"
    assert "has no archive.json: rocketmq archive makes archives" in refused(
        run("replay", str(tmp_path), "--topic", "copy")
    )
    state = to / "replays" / "copy" / "replay.json"
    assert json.loads(state.read_bytes())["until"] is not None
    state.write_text("{")
    assert f"{state} cannot be read" in refused(run("replay", str(to), "--topic", "copy"))


def test_a_delta_table_is_of_one_topic_and_of_nobody_else(run: Run, store: Path, tmp_path: Path) -> None:
    to, other, foreign = tmp_path / "table", tmp_path / "files", tmp_path / "foreign"
    assert f"archived 20 messages of topic T; {to} has 20 in " in archived(run, store, to, "--format", "delta")
    assert "archived 0 messages" in archived(run, store, to, "--format", "delta")
    archived(run, store, other)
    write_deltalake(foreign, pa.table({"n": [1]}))

    def tried(topic: str, directory: Path, format_name: str) -> str:
        words = ["archive", topic, "--to", str(directory), "--store", str(store), "--format", format_name]
        return refused(run(*words))

    assert "is an archive of topic T: each topic needs its own" in tried("U", to, "delta")
    assert "has Parquet files: --format parquet adds to them" in tried("T", other, "delta")
    assert "has a Delta table: --format delta adds to it" in tried("T", to, "parquet")
    assert "has a Delta table that 'rocketmq archive' has not made" in tried("T", foreign, "delta")
    (to / "_delta_log" / f"{1:020d}.json").write_bytes(b"damaged")
    assert "the Delta table" in tried("T", to, "delta")


def test_what_a_read_says_is_said_when_it_fails_within_delta(
    run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> Iterator[pa.RecordBatch]:
        raise DataLossError(["two messages are gone"])
        yield

    monkeypatch.setattr(delta, "read_ranges", lost)
    to = tmp_path / "table"
    result = run("archive", "T", "--to", str(to), "--store", str(store), "--format", "delta")
    assert "two messages are gone" in result.output
    assert DeltaTable(to).count() == 0
    monkeypatch.undo()
    assert "archived 20 messages" in archived(run, store, to, "--format", "delta")
