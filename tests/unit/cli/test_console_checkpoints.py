"""What the console reads of the checkpoint of a streaming query."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.cli import console_checkpoints as module
from rocketmq_py.cli.console_checkpoints import checked, read_query
from rocketmq_py.console.views.spark import QueryState
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.decision_store.decisions import Decision, Decisions
from tests.unit.spark.monitoring.test_report import checkpoint

Q0, Q1 = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)
AT = 1_772_366_400_000


def decide(folder: Path, batch: int) -> None:
    Decisions.at(str(folder / "rocketmq")).make(Decision("q1", batch, frozenset({"x", "y"}), {}, ("out",), ("a",)))


def test_the_latest_micro_batches_are_read(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "late", range(8, 12))  # names are compared as numbers
    (folder / "commits" / "11").unlink()
    (folder / "commits" / ".11.tmp").write_text("half")
    assert read_query(folder) == QueryState(
        str(folder), query="q1", planned=11, planned_at=AT + 22_000, committed=10, committed_at=AT + 20_500,
        done={Q0: 200, Q1: 50}, ends={Q0: 220, Q1: 55},
    )  # fmt: skip


@pytest.mark.parametrize(("batch", "is_decided"), [(9, False), (10, False), (11, True)])
def test_a_decision_is_that_of_the_running_micro_batch_or_of_an_earlier_one(
    tmp_path: Path, batch: int, is_decided: bool
) -> None:
    folder = checkpoint(tmp_path / "late", range(10, 12))
    (folder / "commits" / "11").unlink()
    (folder / "rocketmq").mkdir()
    assert read_query(folder).is_decided is False
    decide(folder, batch)
    found = read_query(folder)
    assert (found.is_decided, found.decided, found.attempts, found.topics) == (is_decided, batch, 2, ("out",))


def test_a_query_that_has_not_begun_or_reads_something_else_has_no_offsets(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "new", range(0))
    assert read_query(folder) == QueryState(str(folder), query="q1")
    (folder / "offsets" / "0").write_text('v1\n{"batchTimestampMs":5}\n{"rate": 1}')
    (folder / "commits" / "0").write_text("v1\n{}")
    found = read_query(folder)
    assert (found.planned, found.planned_at, found.committed, found.done) == (0, None, 0, {})
    (folder / "offsets").rename(folder / "gone")
    assert (read_query(folder).planned, read_query(folder).committed, read_query(folder).done) == (None, 0, {})


def test_what_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(tmp_path / "late", range(2))
    for about in ("{}", "x", "[]", '{"batchTimestampMs":"x"}', None):
        text = "v1" if about is None else f'v1\n{about}\n{{"t":{{"a":{{"0":1}}}}}}'
        (folder / "offsets" / "1").write_text(text)
        found = read_query(folder)
        assert (found.error is not None, found.query) == (True, None), text
    (folder / "offsets" / "1").write_text("v1\n" + " " * 40)
    monkeypatch.setattr(module, "_MOST_BYTES", 42)
    assert "is longer than 42 bytes" in (read_query(folder).error or "")
    monkeypatch.undo()
    (folder / "offsets" / "1").unlink()
    (folder / "rocketmq").mkdir()
    (folder / "rocketmq" / f"{1:020}.json").write_text("{}")
    assert "it is no decision record" in (read_query(folder).error or "")
    (folder / "metadata").unlink()
    assert "is no checkpoint of a streaming query" in (read_query(folder).error or "")


def test_names_that_are_no_numbers_of_micro_batches_are_left_out(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "late", range(2))
    for name in ("9" * 19, "²", "1.tmp", "-5"):
        (folder / "commits" / name).write_text("")
    assert read_query(folder).committed == 1


def test_a_directory_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    good = checkpoint(tmp_path / "late", range(1))
    assert checked([str(good)]) == [good]
    with pytest.raises(ConfigError, match="is no checkpoint"):
        checked([str(good), str(tmp_path)])
