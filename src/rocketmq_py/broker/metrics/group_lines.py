"""The families about consumer groups: the largest part of an exposition, so its lines are made in one pass.

A broker of 1,000 topics and 10 groups has 50,000 of these lines: each is one formatted string, in a list of its family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketmq_py.broker.handlers.long_answers import load_store_times
from rocketmq_py.broker.metrics import families as f
from rocketmq_py.broker.metrics.lag import NEVER, GroupLag, LagCalculator
from rocketmq_py.broker.services import Services
from rocketmq_py.core.metrics.exposition import Family, escaped
from rocketmq_py.protocol import names
from rocketmq_py.server.monitoring.exposition import Exposition
from rocketmq_py.server.sliced_work import SlicedWork

_OF_GROUPS = (f.LAG, f.INFLIGHT, f.READY, f.LAG_LATENCY, f.QUEUEING_LATENCY)
_OF_QUEUES = (f.QUEUE_LAG, f.QUEUE_LAG_LATENCY)

_GROUPS_AT_ONCE = 20
_LINES_AT_ONCE = 500
_TIMES_OF_A_GROUP = 64
"""Store times that are kept, for each group and topic."""
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

    async def collect(self) -> list[bytes]:
        """Return the lines in pieces."""
        if not self._exposition.is_wanted(*self._families):
            return []
        calculator = self._calculator
        lags = await self._gather(calculator.all(self._services.pop.revive_log.inflight))
        for _ in range(_ATTEMPTS):
            if not calculator.missing:
                break
            await load_store_times(self._services.store, calculator.missing)
            await self._slices.run(calculator.learn())
            lags = await self._gather(calculator.again())
        calculator.forget(_TIMES_OF_A_GROUP * len(lags))
        return await self._slices.run(self._lines(lags))

    async def _gather(self, steps: Iterator[GroupLag | None]) -> list[GroupLag]:
        lags: list[GroupLag] = []

        def gather() -> Iterator[None]:
            for number, lag in enumerate(steps):
                if lag is not None:
                    lags.append(lag)
                if number % _GROUPS_AT_ONCE == 0:
                    yield

        await self._slices.run(gather())
        return lags

    def _lines(self, lags: list[GroupLag]) -> Iterator[bytes]:
        lines: list[list[str]] = [[] for _ in (*_OF_GROUPS, *_OF_QUEUES)]
        systems: dict[str, bool] = {}
        for begin in range(0, len(lags), _GROUPS_AT_ONCE):
            self._add(lags[begin : begin + _GROUPS_AT_ONCE], lines, systems)
            yield b""
        for family, of_family in zip(self._families, lines, strict=False):
            yield from self._encoded(family, of_family)
            of_family.clear()

    def _encoded(self, family: Family, lines: list[str]) -> Iterator[bytes]:
        if not lines or not self._exposition.is_wanted(family):
            return
        yield family.head().encode()
        most = min(len(lines), self._exposition.most)
        for begin in range(0, most, _LINES_AT_ONCE):
            yield "".join(lines[begin : min(begin + _LINES_AT_ONCE, most)]).encode()
        self._exposition.note(family, len(lines))

    def _add(self, lags: list[GroupLag], lines: list[list[str]], systems: dict[str, bool]) -> None:
        """Add the lines of some groups.

        :param systems: whether topics are system topics, as far as that was needed.
        """
        lag_lines, inflight_lines, ready_lines, age_lines, queueing_lines, *queue_lines = lines
        now, base = self._clock(), self._exposition.base
        for topic, group, inflight, ready, unconsumed, undelivered in lags:
            is_system = systems.get(topic)
            if is_system is None:
                is_system = systems[topic] = self._services.topics.is_system(topic)
            text = (
                f'{base},consumer_group="{escaped(group)}",topic="{escaped(topic)}",'
                f'is_retry="{"true" if topic.startswith(names.RETRY_PREFIX) else "false"}",'
                f'is_system="{"true" if is_system or names.is_system_group(group) else "false"}"'
            )
            age = now - unconsumed if unconsumed < now else 0
            queueing = now - undelivered if undelivered < now else 0
            lag_lines.append(f"rocketmq_consumer_lag_messages{{{text}}} {inflight + ready}.0\n")
            inflight_lines.append(f"rocketmq_consumer_inflight_messages{{{text}}} {inflight}.0\n")
            ready_lines.append(f"rocketmq_consumer_ready_messages{{{text}}} {ready}.0\n")
            age_lines.append(f"rocketmq_consumer_lag_latency_milliseconds{{{text}}} {age}.0\n")
            queueing_lines.append(f"rocketmq_consumer_queueing_latency_milliseconds{{{text}}} {queueing}.0\n")
            if self._queue_level:
                self._add_queues(topic, group, text, now, queue_lines)

    def _add_queues(self, topic: str, group: str, text: str, now: int, lines: list[list[str]]) -> None:
        for queue, lag, since in self._calculator.queues(topic, group):
            of_queue = f'{text},queue_id="{queue}"'
            age = max(0, now - since) if since != NEVER else 0
            for family, value, of_family in zip(_OF_QUEUES, (lag, age), lines, strict=True):
                of_family.append(f"{family.name}{{{of_queue}}} {value}.0\n")
