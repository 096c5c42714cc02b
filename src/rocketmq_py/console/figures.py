"""What the console counts of itself, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from rocketmq_py.core.metrics.exposition import COUNTER, GAUGE, HISTOGRAM, Family, labels
from rocketmq_py.core.metrics.histogram import Histogram

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

PAGES = Family("rocketmq_py_console_pages_total", COUNTER, "Pages that were answered, by name and status.")
SECONDS = Family("rocketmq_py_console_page_seconds", HISTOGRAM, "Time from a request for a page to its answer.")
CHANGES = Family("rocketmq_py_console_changes_total", COUNTER, "Changes, by action; each has a line in the audit log.")
START_TIME = Family("rocketmq_py_console_start_time_seconds", GAUGE, "When it started, in seconds since the epoch.")


class Figures:
    """Counts pages and changes. Labels are names in the program, so nobody can make more series."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, int], int] = {}
        self._seconds: dict[str, Histogram] = {}
        self._changes: dict[str, int] = {}

    def answered(self, page: str, status: int, seconds: float) -> None:
        """Count a page.

        :param page: its name in the program, as ``topics.topic``.
        """
        self._pages[page, status] = self._pages.get((page, status), 0) + 1
        found = self._seconds.get(page)
        if found is None:
            found = self._seconds[page] = Histogram(BOUNDS)
        found.observe(seconds)

    def changed(self, action: str) -> None:
        """Count a change."""
        self._changes[action] = self._changes.get(action, 0) + 1

    def exposition(self, started_ms: int, wanted: frozenset[str] = frozenset()) -> bytes:
        """Return the exposition.

        :param wanted: names of metrics; empty for all.
        """
        return "".join(self._lines(started_ms, wanted)).encode()

    def _lines(self, started_ms: int, wanted: frozenset[str]) -> Iterator[str]:
        def is_wanted(family: Family) -> bool:
            return not wanted or family.name in wanted

        if self._pages and is_wanted(PAGES):
            yield PAGES.head()
            for (page, status), count in self._pages.items():
                yield PAGES.sample(labels([("page", page), ("status", str(status))]), count)
        if self._seconds and is_wanted(SECONDS):
            yield SECONDS.head()
            for page, found in self._seconds.items():
                yield SECONDS.buckets(labels([("page", page)]), found)
        if self._changes and is_wanted(CHANGES):
            yield CHANGES.head()
            for action, count in self._changes.items():
                yield CHANGES.sample(labels([("action", action)]), count)
        if is_wanted(START_TIME):
            yield START_TIME.head() + START_TIME.sample("", started_ms / 1000)
