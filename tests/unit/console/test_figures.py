"""What the console counts of its pages."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from rocketmq_py.console.figures import BOUNDS, Figures
from rocketmq_py.console.state import Console
from tests.unit.console.browsing import JSON, Browser, browse
from tests.unit.console.test_app import admin_of_topics

Samples = dict[str, dict[tuple[str, ...], float]]


def samples(figures: Figures, *names: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(figures.exposition(5_500, frozenset(names)).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_pages_are_counted_by_name_and_status() -> None:
    found: list[Samples] = []

    async def work(browser: Browser, console: Console) -> None:
        for path in ("/topics", "/topics/t", "/topics/t", "/topics/none"):
            await browser.get(path, headers=JSON)
        found.append(samples(console.figures))

    browse(admin_of_topics(), work)
    assert found[0]["rocketmq_py_console_pages_total"] == {
        ("topics.topics", "200"): 1.0, ("topics.topic", "200"): 2.0, ("topics.topic", "404"): 1.0,
    }  # fmt: skip
    assert found[0]["rocketmq_py_console_page_seconds_count"] == {("topics.topics",): 1.0, ("topics.topic",): 3.0}
    assert found[0]["rocketmq_py_console_start_time_seconds"] == {(): 5.5}
    assert "rocketmq_py_console_changes_total" not in found[0]


def test_times_changes_and_names_that_are_asked_for() -> None:
    figures = Figures()
    figures.answered("a.b", 200, 0.02)
    figures.answered("a.b", 200, 60)
    figures.changed("reset")
    figures.changed("reset")
    found = samples(figures)
    assert found["rocketmq_py_console_changes_total"] == {("reset",): 2.0}
    buckets = found["rocketmq_py_console_page_seconds_bucket"]
    assert [buckets["a.b", le] for le in ("0.01", "0.025", "30.0", "+Inf")] == [0.0, 1.0, 1.0, 2.0]
    for name in ("rocketmq_py_console_pages_total", "rocketmq_py_console_changes_total"):
        assert list(samples(figures, name)) == [name]
    assert list(samples(figures, "rocketmq_py_console_start_time_seconds")) == [
        "rocketmq_py_console_start_time_seconds"
    ]


def test_bounds_of_times_are_for_pages() -> None:
    assert BOUNDS == (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


def test_without_pages_only_the_start_is_told() -> None:
    figures = Figures()
    start = "rocketmq_py_console_start_time_seconds"
    assert list(samples(figures)) == [start]
    assert samples(figures, "rocketmq_py_console_pages_total", "rocketmq_py_console_page_seconds") == {}
    assert samples(figures, "rocketmq_py_console_changes_total") == {}
    figures.answered("a.b", 200, 0.5)
    figures.changed("reset")
    assert set(samples(figures, "rocketmq_py_console_page_seconds")) == {
        f"rocketmq_py_console_page_seconds_{part}" for part in ("bucket", "sum", "count")
    }
    assert figures.exposition(1_500).decode().startswith("# HELP rocketmq_py_console_pages_total ")


def test_the_time_of_a_page_is_from_its_request_to_its_answer() -> None:
    async def work(browser: Browser, console: Console) -> None:
        await browser.get("/topics", headers=JSON)
        assert 0 < console.figures._seconds["topics.topics"].total < 5

    browse(admin_of_topics(), work)
