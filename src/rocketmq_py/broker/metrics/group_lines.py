"""The families about consumer groups: the largest part of an exposition, so its lines are made in one pass.

A broker of 1,000 topics and 10 groups has 50,000 of these lines: each is one formatted string, in a list of its family,
with labels that are kept from one exposition to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketmq_py.broker.handlers.long_answers import load_store_times
from rocketmq_py.broker.metrics import families as f
from rocketmq_py.broker.metrics.lag import NEVER, LagCalculator
from rocketmq_py.broker.services import Services
from rocketmq_py.core.metrics.exposition import Labels, escaped
from rocketmq_py.protocol import names
from rocketmq_py.server.monitoring.exposition import Exposition
from rocketmq_py.server.sliced_work import SlicedWork

_OF_GROUPS = (f.LAG, f.INFLIGHT, f.READY, f.LAG_LATENCY, f.QUEUEING_LATENCY)
_OF_QUEUES = (f.QUEUE_LAG, f.QUEUE_LAG_LATENCY)

_GROUPS_AT_ONCE = 20
_ATTEMPTS = 3
"""Groups that go on meanwhile have other store times to read."""


class GroupLines:
    """Makes the lines about groups, of all that have committed offsets.

    :param queue_level: also those about each queue.
    """

    def __init__(
        self, services: Services, exposition: Exposition, slices: SlicedWork, clock: Callable[[], int], *,
        queue_level: bool,
    ) -> None:  # fmt: skip
        self._services, self._exposition, self._slices = services, exposition, slices
        self._clock = clock
        self._families = _OF_GROUPS + (_OF_QUEUES if queue_level else ())
        self._queue_level = queue_level
        self._calculator = LagCalculator(services.store, services.topics, services.offsets)
        self._labels: dict[str, Labels] = {}
        """Labels by ``topic@group``, of the last exposition."""

    async def collect(self) -> list[bytes]:
        """Return the lines in pieces."""
        if not self._exposition.is_wanted(*self._families):
            return []
        calculator = self._calculator
        await self._slices.run(calculator.all(self._services.pop.revive_log.inflight))
        for _ in range(_ATTEMPTS):
            if not calculator.missing:
                break
            await load_store_times(self._services.store, dict.fromkeys(calculator.missing))
            await self._slices.run(calculator.learn())
            await self._slices.run(calculator.again())
        return await self._slices.run(self._lines())

    def _lines(self) -> Iterator[bytes]:
        lines: list[list[str]] = [[] for _ in (*_OF_GROUPS, *_OF_QUEUES)]
        labels: dict[str, Labels] = {}
        count = len(self._calculator.keys)
        for begin in range(0, count, _GROUPS_AT_ONCE):
            self._add(begin, lines, labels)
            yield b""
        self._labels = labels
        for family, of_family in zip(self._families, lines, strict=False):
            yield from map(str.encode, self._exposition.made(family, of_family))
            of_family.clear()

    def _add(self, begin: int, lines: list[list[str]], labels: dict[str, Labels]) -> None:
        """Add the lines of some groups.

        :param labels: gets the labels of these groups.
        """
        lag_lines, inflight_lines, ready_lines, age_lines, queueing_lines, *queue_lines = lines
        now, known, end = self._clock(), self._labels, begin + _GROUPS_AT_ONCE
        keys = self._calculator.keys[begin:end]
        for key, lag in zip(keys, self._calculator.lags[begin:end], strict=True):
            inflight, ready, unconsumed, undelivered = lag
            text = labels[key] = known.get(key) or self._labels_of(key)
            age = now - unconsumed if unconsumed < now else 0
            queueing = now - undelivered if undelivered < now else 0
            lag_lines.append(f"rocketmq_consumer_lag_messages{{{text}}} {inflight + ready}.0\n")
            inflight_lines.append(f"rocketmq_consumer_inflight_messages{{{text}}} {inflight}.0\n")
            ready_lines.append(f"rocketmq_consumer_ready_messages{{{text}}} {ready}.0\n")
            age_lines.append(f"rocketmq_consumer_lag_latency_milliseconds{{{text}}} {age}.0\n")
            queueing_lines.append(f"rocketmq_consumer_queueing_latency_milliseconds{{{text}}} {queueing}.0\n")
            if self._queue_level:
                self._add_queues(key, text, now, queue_lines)

    def _labels_of(self, key: str) -> Labels:
        topic, _, group = key.partition("@")
        is_system = self._services.topics.is_system(topic) or names.is_system_group(group)
        return (
            f'{self._exposition.base},consumer_group="{escaped(group)}",topic="{escaped(topic)}",'
            f'is_retry="{"true" if topic.startswith(names.RETRY_PREFIX) else "false"}",'
            f'is_system="{"true" if is_system else "false"}"'
        )

    def _add_queues(self, key: str, text: str, now: int, lines: list[list[str]]) -> None:
        for queue, lag, since in self._calculator.queues(key):
            of_queue = f'{text},queue_id="{queue}"'
            age = max(0, now - since) if since != NEVER else 0
            for family, value, of_family in zip(_OF_QUEUES, (lag, age), lines, strict=True):
                of_family.append(f"{family.name}{{{of_queue}}} {value}.0\n")
