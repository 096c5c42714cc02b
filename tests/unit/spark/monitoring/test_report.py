"""The report of streaming queries: reading logs and checkpoints, and the page."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocketmq_py.cli import main
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.spark.monitoring.progress import BatchProgress, QueueProgress
from rocketmq_py.spark.monitoring.report import page, totals
from rocketmq_py.spark.monitoring.report_plots import bar_plot, line_plot, short, stacked_plot, ticks
from rocketmq_py.spark.monitoring.report_sources import read_batches


def report(batch: int, rows: int = 10) -> dict:
    return {
        "id": "q1", "runId": "r", "name": "late", "timestamp": f"2026-03-01T12:00:{batch:02}.000Z", "batchId": batch,
        "numInputRows": rows, "durationMs": {"addBatch": 300, "latestOffset": 20, "triggerExecution": 400},
        "sources": [{
            "startOffset": {"t": {"a": {"0": batch * rows}}}, "endOffset": {"t": {"a": {"0": (batch + 1) * rows}}},
            "latestOffset": {"t": {"a": {"0": 100}}}, "numInputRows": rows,
        }],
    }  # fmt: skip


def batches(number: int) -> list[BatchProgress]:
    queue = MessageQueue("t", "a", 0)
    return [
        BatchProgress(
            query="<late>", query_id="q1", batch_id=i, at=1_772_366_400.0 + i, rows=10, input_rate=5, processed_rate=9,
            durations={"addBatch": 0.3, "triggerExecution": 0.4}, queues=(QueueProgress(queue, 10, 100 - 10 * i),),
        )
        for i in range(number)
    ]  # fmt: skip


class Pictures(HTMLParser):
    """Collects what a page would fetch from elsewhere, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [tag] if tag in {"script", "link", "img", "iframe"} else []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def pictures(html: str) -> list[ET.Element]:
    return [ET.fromstring("<svg" + part.split("</svg>")[0] + "</svg>") for part in html.split("<svg")[1:]]


def test_a_page_has_no_external_resources_and_escapes_names() -> None:
    html = page(batches(5), "a & b")
    parser = Pictures()
    parser.feed(html)
    assert parser.fetched == []
    assert "<late>" in parser.words
    assert "50" in parser.words, "rows of all micro-batches"
    assert "60" in parser.words, "lag at the end"
    assert len(pictures(html)) == 4


def test_every_query_has_a_section() -> None:
    other = BatchProgress(query="other", query_id="q2", batch_id=0, at=0, rows=1)
    html = page([*batches(2), other], "log")
    assert html.count("<h2>") == 2


def test_messages_are_summed_by_queue_with_the_last_lag() -> None:
    assert [(total.messages, total.lag) for total in totals(batches(3))] == [(30, 80)]


def test_rows_of_unknown_queues_are_shown(tmp_path: Path) -> None:
    first = report(0)
    first["sources"][0]["startOffset"] = None  # as Spark reports the first micro-batch of a query
    log = tmp_path / "progress.jsonl"
    log.write_text(json.dumps(first))
    html = page(read_batches(log), "log")
    assert "Without the 10 rows of micro-batch 0" in html
    assert "0.0%" not in html
    assert len(pictures(html)) == 3, "no bars of nothing"
    log.write_text(f"{json.dumps(first)}\n{json.dumps(report(1))}\n")
    html = page(read_batches(log), "log")
    assert "Without the 10 rows of micro-batch 0" in html
    assert "100.0%" in html


def test_progress_reports_are_read_and_other_lines_skipped(tmp_path: Path) -> None:
    log = tmp_path / "progress.jsonl"
    lines = [json.dumps(report(1)), "{broken", "WARN something", json.dumps({"other": 1}), json.dumps(report(2))]
    log.write_text("\n".join(lines))
    assert [batch.batch_id for batch in read_batches(log)] == [1, 2]


def test_reports_are_found_in_sparks_own_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    head = "26/03/01 12:00:00 INFO MicroBatchExecution: Streaming query made progress: "
    log.write_text("".join(f"{head}{json.dumps(report(i), indent=2)}\n26/03/01 INFO other\n" for i in range(3)))
    assert [batch.batch_id for batch in read_batches(log)] == [0, 1, 2]


def test_idle_triggers_are_skipped(tmp_path: Path) -> None:
    log = tmp_path / "progress.jsonl"
    idle = report(5, rows=0) | {"durationMs": {"latestOffset": 1, "triggerExecution": 1}}
    log.write_text(f"{json.dumps(report(4))}\n{json.dumps(idle)}\n")
    assert [batch.batch_id for batch in read_batches(log)] == [4]


def checkpoint(folder: Path, numbers: range) -> Path:
    """What Spark leaves behind: 25 messages and two seconds a micro-batch, committed half a second later."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q1"}')
    for number in numbers:
        millis = 1_772_366_400_000 + number * 2000
        offsets = json.dumps({"t": {"a": {"0": number * 20, "1": number * 5}}})
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"batchTimestampMs":{millis}}}\n{offsets}\n-')
        commit = folder / "commits" / str(number)
        commit.write_text("v1\n{}")
        os.utime(commit, (millis / 1000 + 0.5,) * 2)
    (folder / "offsets" / ".9.crc").write_bytes(b"crc")
    return folder


def test_a_checkpoint_is_read_for_offsets_and_times(tmp_path: Path) -> None:
    first, second = read_batches(checkpoint(tmp_path / "late", range(9, 12)))  # 10 is written with two digits
    assert (first.batch_id, second.batch_id) == (10, 11)
    assert (first.query, first.rows, first.input_rate) == ("late", 25, 12.5)
    assert first.seconds == pytest.approx(0.5)
    assert first.skew == pytest.approx(1.6)
    assert first.lag == {}


@pytest.mark.parametrize(("make", "said"), [
    (lambda path: path.write_text("nothing here"), "no progress report"),
    (lambda path: path.mkdir(), "no checkpoint of a streaming query"),
    (lambda path: checkpoint(path, range(1)), "two of them"),
])  # fmt: skip
def test_a_directory_without_reports_is_refused(tmp_path: Path, make, said: str) -> None:
    make(tmp_path / "it")
    with pytest.raises(ConfigError, match=said):
        read_batches(tmp_path / "it")


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    source = checkpoint(tmp_path / "late", range(4))
    result = CliRunner().invoke(main, ["spark", "report", str(source), "--to", str(target)])
    assert (result.exit_code, result.output) == (0, f"{target}: 3 micro-batches of 1 query\n")
    assert pictures(target.read_text())


@pytest.mark.parametrize(("top", "marks"), [(0, [0, 1]), (1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (7, [0, 2, 4, 6, 8])])
def test_axes_have_round_numbers(top, marks) -> None:
    assert ticks(top) == pytest.approx(marks)


def test_axis_labels_are_short() -> None:
    assert [short(value) for value in (0.25, 12, 1500, 2_500_000, 3e9)] == ["0.25", "12", "1.5k", "2.5M", "3G"]


def test_a_plot_of_many_points_keeps_its_peaks() -> None:
    points = [(float(i), 1.0) for i in range(10_000)]
    points[4321] = (4321.0, 50.0)
    svg = ET.fromstring(line_plot("t", "u", {"a": points}))
    line = svg.find(".//{*}polyline")
    assert line is not None
    heights = [float(place.split(",")[1]) for place in line.get("points", "").split()]
    assert len(heights) <= 1200
    assert min(heights) < sorted(heights)[1], "the peak stands out"


def test_plots_can_have_one_point_or_none() -> None:
    assert "circle" in line_plot("t", "u", {"a": [(1.0, 2.0)]})
    assert "polygon" in stacked_plot("t", "u", [1.0], {"a": [2.0]})
    for empty in (line_plot("t", "u", {}), stacked_plot("t", "u", [], {}), bar_plot("t", "u", {})):
        assert "no data" in empty
