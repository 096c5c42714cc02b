"""The batches of a replay, which are the same in every run, and the rows that it sends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rocketmq_py.cli.archive import replaying
from rocketmq_py.cli.archive.manifest import Manifest, Part, Stretch
from rocketmq_py.cli.archive.replaying import Pace, Replay, batches, message_rows, opened, replay, sized, targets
from rocketmq_py.cli.output.failures import CommandFailure

TIMES = pa.timestamp("us", tz="UTC")
MAP = pa.map_(pa.string(), pa.string())


def stored(first: int, stop: int, properties: dict[str, str] | None = None) -> pa.Table:
    """Message number i is of queue i % 3, stored i ms after 1970."""
    count = range(first, stop)
    return pa.table({
        "brokerName": pa.array(["a" for _ in count]),
        "queueId": pa.array([i % 3 for i in count], pa.int32()),
        "body": pa.array([b"%d" % i for i in count]),
        "tags": pa.array(["T" for _ in count]),
        "keys": pa.array([None for _ in count], pa.string()),
        "properties": pa.array([list((properties or {"n": str(i)}).items()) for i in count], MAP),
        "flag": pa.array(list(count), pa.int32()),
        "storeTimestamp": pa.array([1000 * i for i in count], TIMES),
    })  # fmt: skip


def archive(directory: Path, *tables: pa.Table) -> Manifest:
    parts = []
    for number, table in enumerate(tables):
        name = f"part-{number}.parquet"
        pq.write_table(table, directory / name, row_group_size=7)
        parts.append(Part(name, table.num_rows, 1, [Stretch("a", queue, 0, 100) for queue in range(3)]))
    return Manifest("t", parts)


def state(following: int = 0, since: int | None = None, until: int | None = None) -> Replay:
    return Replay("q", "copy", since, until, 10, following)


def found(directory: Path, manifest: Manifest, of: Replay) -> dict[int, list[int]]:
    return {
        one.number: [int(b) for b in one.rows.column("body").to_pylist()] for one in batches(directory, manifest, of)
    }


def test_batches_are_the_same_in_every_run(tmp_path: Path) -> None:
    manifest = archive(tmp_path, stored(0, 25), stored(25, 31))
    second = replaying._PER_FILE
    every = {0: [*range(10)], 1: [*range(10, 20)], 2: [*range(20, 25)], second: [*range(25, 31)]}
    assert found(tmp_path, manifest, state()) == every
    for following in (1, 2, 3, second, second + 1):
        later = {number: rows for number, rows in every.items() if number >= following}
        assert found(tmp_path, manifest, state(following)) == later
    (tmp_path / "part-0.parquet").unlink()
    assert list(found(tmp_path, manifest, state(second))) == [second], "a file that was sent is not read again"
    with pytest.raises(CommandFailure, match="part-0"):
        found(tmp_path, manifest, state(second - 1))


def test_batches_of_a_time(tmp_path: Path) -> None:
    manifest = archive(tmp_path, stored(0, 40))
    assert found(tmp_path, manifest, state(since=5, until=17)) == {0: [*range(5, 15)], 1: [15, 16]}
    assert found(tmp_path, manifest, state(1, since=5)) == {
        1: [*range(15, 25)],
        2: [*range(25, 35)],
        3: [*range(35, 40)],
    }
    assert found(tmp_path, manifest, state(until=0)) == {}


def test_rows_are_divided_into_equal_batches() -> None:
    rows = [stored(0, size).combine_chunks().to_batches()[0] for size in (3, 12, 1, 4)]
    rows.insert(1, rows[0].slice(0, 0))
    assert [one.num_rows for one in sized(rows, 5)] == [5, 5, 5, 5]
    assert [one.num_rows for one in sized(rows[:3], 6)] == [6, 6, 3]


def test_the_messages_of_a_queue_go_to_one_queue() -> None:
    manifest = Manifest("t", [Part("p", 1, 1, [Stretch("b", 0, 0, 1), Stretch("a", 1, 0, 1), Stretch("a", 0, 0, 1)])])
    assert targets(manifest, 2) == {("a", 0): 0, ("a", 1): 1, ("b", 0): 0}
    (rows,) = stored(0, 4).to_batches()
    sent = message_rows(rows, {("a", 0): 7, ("a", 1): 8, ("a", 2): 9})
    assert sent.column("queueId").to_pylist() == [7, 8, 9, 7]
    assert sent.column("flag").to_pylist() == [0, 1, 2, 3]
    assert dict(sent.column("properties").to_pylist()[2]) == {"n": "2"}


def test_a_delay_that_is_over_is_left_out() -> None:
    (rows,) = stored(0, 2, {"n": "1", "DELAY": "3", "TIMER_DELIVER_MS": "5"}).to_batches()
    sent = message_rows(rows, {("a", 0): 0, ("a", 1): 0})
    assert [dict(one) for one in sent.column("properties").to_pylist()] == [{"n": "1"}] * 2


def test_a_replay_goes_on_with_its_own_settings(tmp_path: Path) -> None:
    path = tmp_path / "copy" / "replay.json"
    first = opened(path, "copy", None, 9, 70)
    assert (first.batch, first.following, len(first.query_id)) == (70, 0, 16)
    assert opened(path, "copy", None, 9, 3) == first
    with pytest.raises(CommandFailure, match="was begun with other times"):
        opened(path, "copy", 1, 9, None)
    path.write_text("{")
    with pytest.raises(CommandFailure, match="cannot be read"):
        opened(path, "copy", None, 9, None)
    assert opened(tmp_path / "b" / "r.json", "b", None, None, None).batch == 5000
    assert opened(tmp_path / "c" / "r.json", "c", None, None, 10**9).batch == 5000


def test_a_rate_is_kept_over_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept, told = [100.0], list[float](), list[int]()

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        now[0] += seconds

    monkeypatch.setattr("rocketmq_py.cli.archive.replaying.time.monotonic", lambda: now[0])
    monkeypatch.setattr("rocketmq_py.cli.archive.replaying.time.sleep", sleep)
    pace = Pace(10, told.append)
    for took in (0.2, 0.2, 5.0, 0.2):
        now[0] += took
        pace(10)
    assert slept == [0.8, 0.8, 0.0, 0.8], "what a slow batch has lost is not made up for at once"
    Pace(None, told.append)(3)
    assert (told, len(slept)) == ([10, 10, 10, 10, 3], 4)


def test_a_replay_sends_each_batch_and_tells_how_many_messages_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, paced = list[int](), list[int]()
    decisions = SimpleNamespace(latest=lambda: SimpleNamespace(batch_id=0))
    monkeypatch.setattr(replaying, "Decisions", SimpleNamespace(at=lambda _: decisions))
    monkeypatch.setattr(
        replaying, "Committer", lambda *_: SimpleNamespace(commit=lambda _, number: committed.append(number))
    )
    monkeypatch.setattr(replaying, "queues_of", lambda *_: 3)
    prepared = list[int]()
    monkeypatch.setattr(replaying, "_prepared", lambda _, one, rows, __: prepared.append(rows.num_rows))
    manifest, path = archive(tmp_path, stored(0, 10)), tmp_path / "copy" / "replay.json"
    state = opened(path, "copy", None, None, 4)
    sent = replay(tmp_path, manifest, path, state, cast(Any, SimpleNamespace()), 5.0, paced.append)
    assert (sent, paced, committed) == (10, [4, 4, 2], [0, 1, 2])
    assert prepared == [4, 2], "what a decision was made for is sent as it was prepared then"
    kept = opened(path, "copy", None, None, None)
    assert (kept.following, kept.delivered) == (3, 10)
    assert replay(tmp_path, manifest, path, kept, cast(Any, SimpleNamespace()), 5.0, paced.append) == 0
