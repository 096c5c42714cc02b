"""The number of undelivered timed messages of each topic (TimerMetrics, ``config/timermetrics``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rocketmq_py.broker.metadata.java_files import bean, version_of
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.store.config.config_files import ConfigFile


class TimerMetrics:
    """Counts undelivered timed messages by topic.

    :param save: writes the file; it is called often and should not block on the disk.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self, file: ConfigFile, clock: Callable[[], int], save: Callable[[ConfigFile, Any], None] = ConfigFile.save
    ) -> None:
        self._file, self._clock, self._save = file, clock, save
        self._counts: dict[str, list[int]] = {}
        self.entered: dict[str, int] = {}
        """By topic: how many messages began to wait since the start."""
        self.left: dict[str, int] = {}
        """By topic: how many were delivered or cancelled since the start."""
        self._version = DataVersion(timestamp=clock())
        self._is_changed = False

    def load(self) -> None:
        """Read the file."""
        self._file.load(self._read)

    def take_over(self, tree: Any) -> None:
        """Replace the counts by those of the master.

        :param tree: the master's answer, in the form of the file.
        """
        if version_of(tree, self._version) != self._version:
            self._read(tree)
            self._save(self._file, self.tree())

    def _read(self, tree: Any) -> None:
        version = version_of(tree, self._version)
        self._counts = {
            topic: [int(metric["count"]), int(metric["timeStamp"])]
            for topic, metric in (tree.get("timingCount") or {}).items()
        }
        self._version = version

    def add(self, topic: str, change: int, now_ms: int) -> None:
        """Change a topic's count: +1 for a message that begins to wait, -1 for one that was delivered or cancelled."""
        metric = self._counts.get(topic) or self._counts.setdefault(topic, [0, 0])
        metric[0] = max(0, metric[0] + change)
        metric[1] = now_ms
        self._is_changed = True
        moved = self.entered if change > 0 else self.left
        moved[topic] = moved.get(topic, 0) + abs(change)

    def reset(self) -> None:
        """Clear all counts, because all entries are written again."""
        self._counts.clear()

    @property
    def total(self) -> int:
        """The number of undelivered timed messages of all topics."""
        return sum(count for count, _ in self._counts.values())

    def waiting(self) -> Iterator[tuple[str, int]]:
        """Iterate over the topics and the numbers of their undelivered timed messages."""
        yield from [(topic, count) for topic, (count, _) in self._counts.items()]

    def persist(self) -> None:
        """Write the file if anything changed since the last time."""
        if self._is_changed:
            self._is_changed = False
            self._version = self._version.bump(self._clock())
            self._save(self._file, self.tree())

    def tree(self) -> dict[str, object]:
        """Return the content of the file, which is also the answer to a slave."""
        counts = {topic: {"count": count, "timeStamp": time} for topic, (count, time) in sorted(self._counts.items())}
        return {"dataVersion": bean(self._version), "timingCount": counts}
