"""``rocketmq spark report``: a page from what Spark left."""

from types import SimpleNamespace

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.monitoring import report, report_sources


@pytest.fixture
def batches(monkeypatch, tmp_path):
    """Micro-batches of two queries are read, and the page says from where."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").touch()
    found = [SimpleNamespace(query_id="a"), SimpleNamespace(query_id="a"), SimpleNamespace(query_id="b")]
    monkeypatch.setattr(report_sources, "read_batches", lambda path: found)
    monkeypatch.setattr(report, "page", lambda given, source: f"{len(given)} of {source} ä")
    return found


def test_a_page_is_written(batches, run, tmp_path):
    result = run("spark report log")
    assert (result.exit_code, result.output) == (0, "spark-report.html: 3 micro-batches of 2 queries\n")
    assert (tmp_path / "spark-report.html").read_text(encoding="utf-8") == "3 of log ä"


def test_one_query_is_said_in_the_singular(batches, run, tmp_path):
    batches.pop()
    assert run("spark report log --to page.html").output == "page.html: 2 micro-batches of 1 query\n"
    assert (tmp_path / "page.html").exists()


def test_a_file_that_cannot_be_written_is_named(batches, run):
    result = run("spark report log --to nix/page.html")
    assert (result.exit_code, "No such file or directory: 'nix/page.html'" in result.output) == (1, True)


def test_a_source_that_is_not_there_is_refused(run, tmp_path, monkeypatch):
    assert run("spark", "report", str(tmp_path / "nix")).exit_code == 2

    def refuse(path):
        raise ConfigError(f"{path}: no micro-batch")

    (tmp_path / "log").touch()
    monkeypatch.setattr(report_sources, "read_batches", refuse)
    result = run("spark", "report", str(tmp_path / "log"))
    assert (result.exit_code, result.output) == (2, f"Error: {tmp_path / 'log'}: no micro-batch\n")
