"""What Spark's listener passes to watchers, and the file of reports."""

import json
from types import SimpleNamespace

import pytest

from rocketmq_py.spark.monitoring.listener import ProgressListener, ProgressLog

REPORT = json.dumps({
    "id": "id-1", "name": "q", "batchId": 3, "timestamp": "2024-01-02T03:04:05.000Z", "numInputRows": 7,
    "durationMs": {"triggerExecution": 1500}, "sources": [],
})  # fmt: skip


class Watcher:
    def __init__(self, fails=False):
        self.calls = []
        self.fails = fails

    def batch(self, progress, report):
        self.calls.append((progress.query, progress.batch_id, progress.rows, progress.seconds, report))
        if self.fails:
            raise RuntimeError("the watcher is broken")

    def ended(self, query_id):
        self.calls.append(query_id)
        if self.fails:
            raise RuntimeError("the watcher is broken")


def progress(report):
    return SimpleNamespace(progress=SimpleNamespace(json=report))


def test_every_watcher_gets_each_micro_batch_and_the_end_of_the_query():
    watchers = [Watcher(), Watcher()]
    listener = ProgressListener(*watchers)
    listener.onQueryStarted(SimpleNamespace())
    listener.onQueryProgress(progress(REPORT))
    listener.onQueryIdle(SimpleNamespace())
    listener.onQueryTerminated(SimpleNamespace(id="id-1"))
    for watcher in watchers:
        assert watcher.calls == [("q", 3, 7, 1.5, REPORT), "id-1"]


def test_a_failing_watcher_is_logged_and_the_next_one_called(caplog):
    broken, sound = Watcher(fails=True), Watcher()
    listener = ProgressListener(broken, sound)
    listener.onQueryProgress(progress(REPORT))
    listener.onQueryTerminated(SimpleNamespace(id="id-1"))
    assert sound.calls == broken.calls
    assert len(sound.calls) == 2
    assert [record.getMessage().endswith("failed; the query goes on") for record in caplog.records] == [True, True]


@pytest.mark.parametrize("report", ["{", "{}", '{"id": 1}'])
def test_a_report_of_another_form_is_logged_and_not_passed_on(report, caplog):
    watcher = Watcher()
    ProgressListener(watcher).onQueryProgress(progress(report))
    assert watcher.calls == []
    assert [record.getMessage() for record in caplog.records] == [
        f"a progress report of Spark was not understood: {report}"
    ]


def test_reports_are_appended_one_a_line(tmp_path):
    path = tmp_path / "progress.jsonl"
    log = ProgressLog(path)
    assert path.read_text() == ""
    log.batch(None, '{"a": 1,\n "b": "é"}')
    ProgressLog(str(path)).batch(None, '{"a": 2}')
    log.ended("id-1")
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"a": 1, "b": "é"}, {"a": 2}]


def test_the_file_is_opened_anew_for_each_report(tmp_path):
    path = tmp_path / "progress.jsonl"
    log = ProgressLog(path)
    log.batch(None, "{}")
    path.rename(tmp_path / "rotated")
    log.batch(None, "{}")
    assert path.read_text() == "{}\n"


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        ProgressLog(tmp_path / "missing" / "progress.jsonl")
