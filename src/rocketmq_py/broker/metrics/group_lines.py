"""The families about consumer groups: the largest part of an exposition, so its lines are made in one pass.

A broker of 1,000 topics and 10 groups has 50,000 of these lines. Those about messages are kept from one exposition to
the next, in blocks; those about latencies are formatted each time, with labels that are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketmq_py.broker.handlers.long_answers import load_store_times
from rocketmq_py.broker.metrics import families as f
from rocketmq_py.broker.metrics.blocks import ROWS, Blocks
from rocketmq_py.broker.metrics.lag import NEVER, Lag, LagCalculator
from rocketmq_py.broker.services import Services
from rocketmq_py.core.metrics.exposition import Labels, escaped
from rocketmq_py.protocol import names
from rocketmq_py.server.monitoring.exposition import Exposition
from rocketmq_py.server.sliced_work import SlicedWork

_OF_GROUPS = (f.LAG, f.INFLIGHT, f.READY, f.LAG_LATENCY, f.QUEUEING_LATENCY)
_OF_QUEUES = (f.QUEUE_LAG, f.QUEUE_LAG_LATENCY)

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
        self._blocks = Blocks(self._make)
        self._labels: dict[str, Labels] = {}
        """Labels by ``topic@group``."""

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
        pieces = list[bytes]()
        await self._slices.run(self._lines(pieces))
        return pieces

    def _lines(self, pieces: list[bytes]) -> Iterator[None]:
        """Add all lines to a list."""
        ages: tuple[list[bytes], list[bytes]] = [], []
        queue_lines: tuple[list[str], list[str]] = [], []
        self._blocks.begin()
        for begin in range(0, len(self._calculator.keys), ROWS):
            self._add(begin, ages, queue_lines)
            yield
        self._blocks.end()
        if len(self._labels) > self._blocks.series:  # groups or topics are gone
            self._labels = {key: self._labels[key] for key in self._calculator.keys}
        blocks, series = self._blocks, self._blocks.series
        for family, lines in zip(_OF_GROUPS, (*map(blocks.of, range(3)), *ages), strict=True):
            pieces.extend(self._exposition.blocks(family, lines, series))
            yield
        for family, texts in zip(_OF_QUEUES, queue_lines, strict=True):
            for text in self._exposition.made(family, texts):
                pieces.append(text.encode())
                yield

    def _add(self, begin: int, ages: tuple[list[bytes], list[bytes]], queue_lines: tuple[list[str], list[str]]) -> None:
        """Add the lines of some groups.

        :param ages: get those of both latencies; unlike the others they change while groups stand still.
        """
        end = begin + ROWS
        rows = list(zip(self._calculator.keys[begin:end], self._calculator.lags[begin:end], strict=True))
        self._blocks.add(rows)
        now, labels = self._clock(), self._labels
        of_lag, of_queueing = list[str](), list[str]()
        for key, (_, _, unconsumed, undelivered) in rows:
            text = labels[key]
            age = now - unconsumed if unconsumed < now else 0
            queueing = now - undelivered if undelivered < now else 0
            of_lag.append(f"rocketmq_consumer_lag_latency_milliseconds{{{text}}} {age}.0\n")
            of_queueing.append(f"rocketmq_consumer_queueing_latency_milliseconds{{{text}}} {queueing}.0\n")
            if self._queue_level:
                self._add_queues(key, text, now, queue_lines)
        for texts, lines in zip(ages, (of_lag, of_queueing), strict=True):
            texts.append("".join(lines).encode())

    def _make(self, rows: list[tuple[str, Lag]]) -> tuple[str, str, str]:
        """Return the lines of some groups about messages: all that are not consumed, and those delivered or not."""
        labels = self._labels
        found = [
            (labels.get(key) or labels.setdefault(key, self._labels_of(key)), inflight, ready)
            for key, (inflight, ready, _, _) in rows
        ]
        return (
            "".join(
                [f"rocketmq_consumer_lag_messages{{{text}}} {inflight + ready}.0\n" for text, inflight, ready in found]
            ),
            "".join([f"rocketmq_consumer_inflight_messages{{{text}}} {inflight}.0\n" for text, inflight, _ in found]),
            "".join([f"rocketmq_consumer_ready_messages{{{text}}} {ready}.0\n" for text, _, ready in found]),
        )

    def _labels_of(self, key: str) -> Labels:
        topic, _, group = key.partition("@")
        is_system = self._services.topics.is_system(topic) or names.is_system_group(group)
        return (
            f'{self._exposition.base},consumer_group="{escaped(group)}",topic="{escaped(topic)}",'
            f'is_retry="{"true" if topic.startswith(names.RETRY_PREFIX) else "false"}",'
            f'is_system="{"true" if is_system else "false"}"'
        )

    def _add_queues(self, key: str, text: str, now: int, lines: tuple[list[str], list[str]]) -> None:
        for queue, lag, since in self._calculator.queues(key):
            of_queue = f'{text},queue_id="{queue}"'
            age = max(0, now - since) if since != NEVER else 0
            for family, value, of_family in zip(_OF_QUEUES, (lag, age), lines, strict=True):
                of_family.append(f"{family.name}{{{of_queue}}} {value}.0\n")
