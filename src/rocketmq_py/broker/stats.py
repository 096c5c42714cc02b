"""How much goes in and out, for those who ask: totals and rates of the broker, its topics and its groups.

Counting is cheap and does not touch the send path: what arrived is told by the store once per settle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rocketmq_py.store import Arrival

_WINDOWS_MS = (10_000, 60_000, 600_000)
_KEPT = 601
_SAMPLE_MS = 1_000
_MINUTE_MS = 60_000


class Meter:
    """A growing count and its recent past."""

    __slots__ = ("_samples", "count")

    def __init__(self, kept: int) -> None:
        self.count = 0
        self._samples: deque[tuple[int, int]] = deque(maxlen=kept)

    def sample(self, now_ms: int) -> None:
        self._samples.append((now_ms, self.count))

    def rate(self, window_ms: int) -> float:
        """Per second over the last ``window_ms``, as far as samples reach."""
        if len(self._samples) < 2:
            return 0.0
        last_ms, last = self._samples[-1]
        first_ms, first = next(sample for sample in self._samples if sample[0] >= last_ms - window_ms)
        return (last - first) * 1000 / (last_ms - first_ms) if last_ms > first_ms else 0.0


class Stats:
    """The broker's meters.

    :param now_ms: when the broker started.
    """

    def __init__(self, now_ms: int) -> None:
        self.started_ms = now_ms
        self.put = Meter(_KEPT)
        self.got = Meter(_KEPT)
        self.pulls_found = Meter(_KEPT)
        self.pulls_missed = Meter(_KEPT)
        self.got_bytes = 0
        self._topics: dict[str, Meter] = {}
        self._groups: dict[tuple[str, str], Meter] = {}
        self._next_sample = now_ms

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """Messages have been stored."""
        for arrival in arrivals:
            count = arrival.next_offset - arrival.queue_offset
            self.put.count += count
            meter = self._topics.get(arrival.topic)
            if meter is None:
                meter = self._topics[arrival.topic] = _minute_meter()
            meter.count += count

    def pulled(self, group: str, topic: str, count: int, size: int) -> None:
        """A pull has been answered with messages."""
        self.got.count += count
        self.got_bytes += size
        self.pulls_found.count += 1
        meter = self._groups.get((group, topic))
        if meter is None:
            meter = self._groups[group, topic] = _minute_meter()
        meter.count += count

    def missed(self) -> None:
        """A pull has been answered without messages."""
        self.pulls_missed.count += 1

    def tick(self, now_ms: int) -> None:
        """Take samples when it is time to. Call it at least every second."""
        if now_ms < self._next_sample:
            return
        self._next_sample = now_ms + _SAMPLE_MS
        for meter in (self.put, self.got, self.pulls_found, self.pulls_missed):
            meter.sample(now_ms)
        for meter in (*self._topics.values(), *self._groups.values()):
            meter.sample(now_ms)

    def topic_rate(self, topic: str) -> float:
        """Messages a second sent to a topic during the last minute."""
        meter = self._topics.get(topic)
        return meter.rate(_MINUTE_MS) if meter else 0.0

    def group_rate(self, group: str, topic: str) -> float:
        """Messages a second a group pulled from a topic during the last minute."""
        meter = self._groups.get((group, topic))
        return meter.rate(_MINUTE_MS) if meter else 0.0

    def forget_topic(self, topic: str) -> None:
        self._topics.pop(topic, None)


def _minute_meter() -> Meter:
    return Meter(_MINUTE_MS // _SAMPLE_MS + 1)


def three_rates(meter: Meter) -> str:
    """Rates over 10 s, 1 min and 10 min, as Java prints them."""
    return " ".join(f"{meter.rate(window)}" for window in _WINDOWS_MS)
