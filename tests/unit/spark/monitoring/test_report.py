"""The report of streaming queries: reading logs and checkpoints, and the page."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from dataclasses import replace
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


def words(html: str) -> list[str]:
    parser = Pictures()
    parser.feed(html)
    return parser.words


def test_the_figures_of_a_query() -> None:
    """Two queues of two topics, the lag of one is not known; the last micro-batch is a slow one."""
    other, known = MessageQueue("u", "b", 3), batches(3)
    last = replace(
        known[2], rows=1200, queues=(*known[2].queues, QueueProgress(other, 10, None)),
        durations={"addBatch": 75.0, "latestOffset": 0.5, "triggerExecution": 80.0},
    )  # fmt: skip
    html = page([last, known[1], known[0]], "log")
    said = words(html)
    start = said.index("<late>")
    assert said[start + 1] == "q1, micro-batches 0 to 2, 2026-03-01 12:00:00 to 2026-03-01 12:01:22", "in their order"
    cards = dict(zip(said[start + 3 : start + 14 : 2], said[start + 2 : start + 13 : 2], strict=True))
    assert cards == {
        "rows": "1,220", "micro-batches": "3", "rows/s while busy": "15", "a micro-batch, median": "400 ms",
        "the longest": "1 min 20 s", "lag at the end": "80",
    }  # fmt: skip
    table = said[said.index("queue") :]
    assert table[:14] == [
        "queue", "messages", "share", "lag at the end", "1", "t a:0", "30", "75.0%", "80",
        "2", "u b:3", "10", "25.0%", "–",
    ]  # fmt: skip
    assert {"Rows (per second)", "coming in", "processed", "Lag by topic (messages behind the micro-batch)"} <= {*said}
    assert {"latestOffset", "addBatch", "other", "even share 20", "Messages by queue (skew shows as unequal bars)"} <= {
        *said
    }
    assert not {"whole", "walCommit"} & {*said}
    assert said.count("no data") == 0
    areas = [one.get("points", "") for one in pictures(html)[2].iter("{http://www.w3.org/2000/svg}polygon")]
    ends = [[float(place.split(",")[1]) for place in area.split()[3:4]] for area in areas]
    assert ends == [[244.8], [66.7], [56.0]], "0.5 s, 75 s more, and the rest of 80 s"


def test_a_query_without_figures_has_dashes() -> None:
    idle = BatchProgress(query="idle", query_id="q2", batch_id=4, at=0.0, rows=0)
    html = page([idle], "log")
    assert words(html).count("–") == 2
    assert "0 ms" in words(html)
    assert "no data" in words(html), "no lag is known"
    assert "whole" in words(html)
    assert "of micro-batch 0" not in html
    slow = replace(idle, durations={"triggerExecution": 59.9})
    assert "59.9 s" in words(page([slow], "log"))
    assert "1.0 s" in words(page([replace(idle, durations={"triggerExecution": 1.0})], "log"))


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


def test_a_checkpoint_shows_what_its_files_say(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "late", range(4))
    (folder / "commits" / "1").unlink()
    os.utime(folder / "commits" / "2", (0, 0))
    (folder / "offsets" / "3x").write_text("not one of Spark's")
    source = json.dumps({"t": {"a": {"0": 1000, "1": 1000}}})
    (folder / "offsets" / "3").write_text(f'v1\n{{"batchTimestampMs":1772366404000}}\n{{"logOffset":1}}\n{source}')
    first, second, third = read_batches(folder)
    assert (first.seconds, first.processed_rate, first.input_rate) == (0.0, 0.0, 12.5), "not committed"
    assert (second.seconds, second.processed_rate) == (0.0, 0.0), "the clock was put back"
    assert (third.rows, third.input_rate, third.batch_id) == (1950, 0.0, 3), "planned at the same time, says the file"
    assert third.seconds == 2.5
    assert third.processed_rate == 780.0
    assert (third.at, third.query_id) == (1772366404.0, "q1")


def test_a_checkpoint_needs_metadata_of_a_query(tmp_path: Path) -> None:
    for text in ("{}", "[]", "{", '"q1"'):
        folder = checkpoint(tmp_path / text.encode().hex(), range(3))
        (folder / "metadata").write_text(text)
        with pytest.raises(ConfigError, match="is no checkpoint of a streaming query: no metadata with an id in it"):
            read_batches(folder)
    folder = checkpoint(tmp_path / "other", range(3))
    for file in (folder / "offsets").glob("[0-9]*"):
        file.write_text('v1\n{"batchTimestampMs":1772366404000}\n{"logOffset":1}')
    with pytest.raises(ConfigError, match="fewer than two micro-batches of this source"):
        read_batches(folder)
