"""Progress reports of Spark: parsing and display."""

from __future__ import annotations

import io
import json
import sys

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.monitoring.progress import BatchProgress, QueueProgress, batch_progress
from rocketmq_py.spark.monitoring.terminal import Line, TerminalProgress, describe, duration


def report(batch: int = 3, name: str | None = "late", **changes) -> dict:
    """A report as Spark 4.3 writes it, of two queues: 30 and 10 messages read, 5 and 0 left."""
    return {
        "id": "5f5a820a-5076-43c6-aa5e-dd8b8bf3fb93",
        "runId": "20e4620b-ce0f-4856-ad23-34c3ebe5b795",
        "name": name,
        "timestamp": "2026-03-01T12:00:00.500Z",
        "batchId": batch,
        "numInputRows": 40,
        "inputRowsPerSecond": 20.0,
        "processedRowsPerSecond": 80.0,
        "durationMs": {"addBatch": 400, "triggerExecution": 500},
        "sources": [
            {
                "description": "rocketmq",
                "startOffset": {"t": {"a": {"0": 10, "1": 0}}},
                "endOffset": {"t": {"a": {"0": 40, "1": 10}}},
                "latestOffset": {"t": {"a": {"0": 45, "1": 10}}},
                "numInputRows": 40,
            }
        ],
        **changes,
    }


def queue(number: int) -> MessageQueue:
    return MessageQueue("t", "a", number)


def test_a_report_has_rows_rates_and_lag_per_queue() -> None:
    progress = batch_progress(report())
    assert (progress.query, progress.batch_id, progress.rows, progress.seconds) == ("late", 3, 40, 0.5)
    assert progress.at == pytest.approx(1772366400.5)
    assert progress.queues == (QueueProgress(queue(0), 30, 5), QueueProgress(queue(1), 10, 0))
    assert progress.lag == {"t": 5}
    assert progress.skew == 1.5


def test_offsets_may_be_text_and_the_latest_missing() -> None:
    source = report()["sources"][0]
    text = {key: json.dumps(source[key]) for key in ("startOffset", "endOffset")}
    progress = batch_progress(report(sources=[{**text, "latestOffset": None, "numInputRows": 40}]))
    assert progress.queues == (QueueProgress(queue(0), 30, None), QueueProgress(queue(1), 10, None))
    assert progress.lag == {}


def test_other_sources_count_rows_and_have_no_queues() -> None:
    kafka = {"startOffset": {"t": {"0": 3}}, "endOffset": {"t": {"0": 9}}, "latestOffset": None, "numInputRows": 6}
    assert batch_progress(report(sources=[kafka])).queues == ()


def test_missing_totals_are_sums_over_the_sources() -> None:
    connect = report()
    for name in ("numInputRows", "inputRowsPerSecond", "processedRowsPerSecond"):
        del connect[name]
    connect["sources"][0] |= {"inputRowsPerSecond": 20.0, "processedRowsPerSecond": 80.0}
    progress = batch_progress(connect)
    assert (progress.rows, progress.input_rate, progress.processed_rate) == (40, 20.0, 80.0)


def test_rows_without_start_offsets_belong_to_no_queue() -> None:
    """A query's first report has no start; what its queues held before is not what the micro-batch read."""
    source = {**report()["sources"][0], "startOffset": None}
    progress = batch_progress(report(batch=0, sources=[source]))
    assert progress.lag == {"t": 5}
    assert progress.skew is None


@pytest.mark.parametrize("wrong", [{}, {"id": "x"}, report(timestamp="noon"), report(sources=3)])
def test_a_malformed_report_is_refused(wrong) -> None:
    with pytest.raises(ConfigError, match="no progress report"):
        batch_progress(wrong)


def test_a_query_without_a_name_is_shown_by_its_id() -> None:
    assert batch_progress(report(name=None)).query == report()["id"]


def test_a_progress_line_shows_rates_and_lag() -> None:
    assert describe(batch_progress(report())) == "late batch 3: 40 rows | 80 rows/s | 0.50 s | lag t 5 | 0 s left"


def test_a_progress_line_of_a_query_without_queues_says_nothing_of_lag() -> None:
    line = describe(
        BatchProgress(query="q", query_id="q", batch_id=1, at=0, rows=7, durations={"triggerExecution": 0.5})
    )
    assert line == "q batch 1: 7 rows | 0 rows/s | 0.50 s"


def test_a_growing_lag_has_no_estimate() -> None:
    assert "left" not in describe(batch_progress(report(inputRowsPerSecond=100.0)))


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (59, "59 s"), (200, "3 min 20 s"), (7260, "2 h 1 min"), (90_000, "1 d 1 h")]
)
def test_durations_are_shown_in_two_units(seconds, said) -> None:
    assert duration(seconds) == said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rich_updates_a_text_longer_than_a_line_in_place() -> None:
    pytest.importorskip("rich")
    out = Terminal()
    line = Line(out)
    line.show("one " * 40)
    line.show("two")
    line.finish()
    moves_up = out.getvalue().partition("two")[0].count("\x1b[1A")
    assert moves_up == 1
    assert out.getvalue().endswith("two\n\x1b[?25h")


def test_a_terminal_line_is_updated_in_place_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.live", None)
    out = Terminal()
    line = Line(out)
    line.show("one")
    line.show("two")
    line.finish()
    assert out.getvalue() == "\r\x1b[2Kone\r\x1b[2Ktwo\n"


def test_without_a_terminal_lines_are_rare_and_the_last_is_printed() -> None:
    out, now = io.StringIO(), [0.0]
    line = Line(out, every=5, clock=lambda: now[0])
    for at, text in ((0, "a"), (1, "b"), (6, "c"), (7, "d"), (8, "e")):
        now[0] = at
        line.show(text)
    line.finish()
    assert out.getvalue() == "a\nc\ne\n"


def test_running_queries_share_the_line() -> None:
    out = Terminal()
    shown = TerminalProgress(out)
    one, two = (batch_progress(report(name=name, id=name)) for name in ("one", "two"))
    shown.batch(one, "")
    shown.batch(two, "")
    assert out.getvalue().replace("\n", "").endswith(f"{describe(one)} || {describe(two)}")
    shown.ended("one")
    shown.ended("two")
    assert out.getvalue().removesuffix("\x1b[?25h").endswith("\n")


def test_the_skew_of_an_empty_batch_is_unknown() -> None:
    idle = BatchProgress(query="q", query_id="q", batch_id=1, at=0, rows=0, queues=(QueueProgress(queue(0), 0, 0),))
    assert idle.skew is None


class Flushed(io.StringIO):
    """Shows what a reader of the file sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = ""

    def flush(self) -> None:
        self.seen = self.getvalue()


def test_a_plain_line_is_seen_at_once_and_then_after_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    out, now = Flushed(), [100.0]
    line = Line(out, clock=lambda: now[0])
    for at, text, seen in ((100.0, "a", "a\n"), (104.9, "b", "a\n"), (105.0, "c", "a\nc\n"), (106.0, "d", "a\nc\n")):
        now[0] = at
        line.show(text)
        assert out.seen == seen
    line.finish()
    line.finish()
    assert out.seen == "a\nc\nd\n", "once"
    line.show("e")
    now[0] = 111.0
    line.show("f")
    line.finish()
    assert out.seen == "a\nc\nd\nf\n", "a text that was replaced is not written"
    monkeypatch.setattr(sys, "stderr", out)
    TerminalProgress().batch(batch_progress(report()), "")
    assert out.seen.endswith("lag t 5 | 0 s left\n")


def test_plain_lines_of_queries_are_as_rare_as_asked_for() -> None:
    out = io.StringIO()
    shown = TerminalProgress(out, every=1e9)
    for _ in range(3):
        shown.batch(batch_progress(report()), "")
    shown.ended("another")
    assert out.getvalue().count("\n") == 1
    shown.ended("5f5a820a-5076-43c6-aa5e-dd8b8bf3fb93")
    assert out.getvalue().count("\n") == 2


def test_rates_of_sources_are_added_if_the_sum_is_missing() -> None:
    given = report()
    del given["inputRowsPerSecond"], given["numInputRows"]
    given["processedRowsPerSecond"] = None
    source = given["sources"][0]
    given["sources"] = [
        source | {"inputRowsPerSecond": 3.0},
        source | {"inputRowsPerSecond": None, "numInputRows": "2"},
    ]
    progress = batch_progress(given)
    assert (progress.rows, progress.input_rate, progress.processed_rate) == (42, 3.0, 0.0)
    assert len(progress.queues) == 4


def test_the_time_that_is_left_is_known_while_the_lag_shrinks() -> None:
    def left(**changes: float) -> str | None:
        last = describe(batch_progress(report(**changes))).split(" | ")[-1]  # type: ignore[arg-type]
        return last if last.endswith("left") else None

    assert left(processedRowsPerSecond=2.5, inputRowsPerSecond=2.0) == "2 s left"
    assert left(processedRowsPerSecond=2.0, inputRowsPerSecond=2.0) is None
    assert left(processedRowsPerSecond=1.0, inputRowsPerSecond=2.0) is None
    assert left(batch=0, processedRowsPerSecond=1.0, inputRowsPerSecond=2.0) == "5 s left", "what came before counts"


def test_a_queue_that_was_not_there_counts_from_offset_0() -> None:
    source = report()["sources"][0] | {
        "startOffset": {"t": {"a": {"0": 10}}},
        "endOffset": {"t": {"a": {"0": 5, "1": 7}}},
    }
    progress = batch_progress(report(sources=[source]))
    assert progress.queues == (QueueProgress(queue(0), 0, 40), QueueProgress(queue(1), 7, 3)), "never fewer than none"
