"""Counters of messages in and out: totals and rates of the broker, its topics and its consumer groups.

Names and meanings of the counters are Apache RocketMQ's (BrokerStatsManager). The send path does not count: the store
reports arrivals once per read.
"""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import NamedTuple

from rocketmq_py.core.broker.put_times import PutTimes
from rocketmq_py.core.broker.stats import MINUTE, StatsClock, StatsItem
from rocketmq_py.core.broker.topic_group_index import TopicGroupIndex
from rocketmq_py.core.metrics.counters import MessageCounts
from rocketmq_py.server.sliced_work import at_once
from rocketmq_py.store import Arrival

_WINDOWS_MS = (10_000, 60_000, 600_000)
_KEPT = 601
_SAMPLE_MS = 1_000

TOPIC_PUT_NUMS, TOPIC_PUT_SIZE = "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"
GROUP_GET_NUMS, GROUP_GET_SIZE = "GROUP_GET_NUMS", "GROUP_GET_SIZE"
BROKER_PUT_NUMS, BROKER_GET_NUMS = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"
BROKER_PUT_NUMS_OF_USERS = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
BROKER_GET_NUMS_OF_USERS = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"
SENT_BACK_NUMS, SENT_BACK_TO_DLQ_TIMES = "SNDBCK_PUT_NUMS", "SNDBCK2DLQ_TIMES"


class Meter:
    """A counter with samples of its recent values, from which rates are computed.

    :param kept: the maximum number of samples.
    """

    __slots__ = ("_samples", "count")

    def __init__(self, kept: int) -> None:
        self.count = 0
        self._samples: deque[tuple[int, int]] = deque(maxlen=kept)

    def sample(self, now_ms: int) -> None:
        self._samples.append((now_ms, self.count))

    def rate(self, window_ms: int) -> float:
        """Return the rate per second over the last ``window_ms``, or since the oldest sample if that is more recent."""
        if len(self._samples) < 2:
            return 0.0
        last_ms, last = self._samples[-1]
        first_ms, first = next(sample for sample in self._samples if sample[0] >= last_ms - window_ms)
        return (last - first) * 1000 / (last_ms - first_ms) if last_ms > first_ms else 0.0


class Day:
    """A counter's values at the last two midnights."""

    def __init__(self, counter: StatsItem) -> None:
        self.yesterday_morning = 0
        self.today_morning = 0
        self._counter = counter

    @property
    def now(self) -> int:
        return self._counter.value

    def begin(self) -> None:
        self.yesterday_morning, self.today_morning = self.today_morning, self.now


class _Flow(NamedTuple):
    """Counters of messages and bytes, in or out of a topic; ``of_users`` is False for a system topic."""

    nums: StatsItem
    size: StatsItem
    of_users: bool


class Stats:
    """The broker's counters.

    :param now_ms: the start time of the broker, in milliseconds since the epoch.
    :param cluster: the cluster's name, which is the key of the broker's own counters.
    :param is_system: returns True for a system topic; daily totals leave these out.
    :param begin: runs the short steps that sample all counters, by default at once. A sampling of 20,000 topics takes
        20 ms.
    """

    def __init__(
        self, now_ms: int, cluster: str, is_system: Callable[[str], bool],
        begin: Callable[[Iterator[None]], None] = at_once,
    ) -> None:  # fmt: skip
        self.started_ms = now_ms
        self.put = Meter(_KEPT)
        self.got = Meter(_KEPT)
        self.pulls_found = Meter(_KEPT)
        self.pulls_missed = Meter(_KEPT)
        self.put_times = PutTimes(now_ms)
        self._cluster = cluster
        self._is_system = is_system
        self._clock = StatsClock(now_ms)
        self._begin = begin
        self._sampling: Iterator[None] = iter(())
        """What is left of the last sampling."""
        self._items: dict[tuple[str, str], StatsItem] = {}
        self._keys: TopicGroupIndex[tuple[str, str]] = TopicGroupIndex()
        """Index of the keys of ``_items`` by topic and by group."""
        self._puts: dict[str, _Flow] = {}
        self._gets: dict[tuple[str, str], _Flow] = {}
        self._dead: dict[tuple[str, str], StatsItem] = {}
        """Dead letters by topic and group."""
        self.popped: dict[tuple[str, str], tuple[int, int]] = {}
        """Of what groups got from topics, the messages and bytes that they got by POP."""
        self.message_counts: MessageCounts | None = None
        """What is counted for metrics; None: they are off."""
        self._all_puts, self._user_puts = self._totals(BROKER_PUT_NUMS, BROKER_PUT_NUMS_OF_USERS)
        self._all_gets, self._user_gets = self._totals(BROKER_GET_NUMS, BROKER_GET_NUMS_OF_USERS)
        self.uncounted: Callable[[], tuple[int, list[tuple[str, int, int, int]]]] = lambda: (0, [])
        """Returns what is not counted by topic yet: number of calls of :meth:`counted`; topic, messages, bytes and
        number of arrivals of each topic. What was returned is counted."""
        self.put_day = Day(self._user_puts)
        self.got_day = Day(self._user_gets)
        self._next_sample = now_ms
        self._next_morning = next_morning(now_ms)

    def _totals(self, *names: str) -> list[StatsItem]:
        return [self.item(name, self._cluster) for name in names]

    # -- counting

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """Count stored messages."""
        total = of_users = 0
        for arrival in arrivals:
            count = arrival.next_offset - arrival.queue_offset
            flow = self._puts.get(arrival.topic) or self._put_flow(arrival.topic)
            flow.nums.value += count
            flow.nums.times += 1
            flow.size.value += arrival.entries[1] if count == 1 else sum(arrival.entries[1::3])
            flow.size.times += 1
            total += count
            if flow.of_users:
                of_users += count
        self.put.count += total
        self._all_puts.value += total
        self._all_puts.times += 1
        self._user_puts.value += of_users
        self._user_puts.times += 1

    def counted(self, messages: int) -> None:
        """Count stored messages that :attr:`uncounted` returns by topic later."""
        self.put.count += messages

    def count_the_rest(self) -> None:
        """Count by topic what is not yet: at least every ten seconds, and before counters are read."""
        times, topics = self.uncounted()
        self._all_puts.times += times
        self._user_puts.times += times
        for topic, messages, size, arrivals in topics:
            flow = self._puts.get(topic) or self._put_flow(topic)
            flow.nums.value += messages
            flow.nums.times += arrivals
            flow.size.value += size
            flow.size.times += arrivals
            self._all_puts.value += messages
            if flow.of_users:
                self._user_puts.value += messages

    def pulled(self, group: str, topic: str, count: int, size: int) -> None:
        """Count a pull that was answered with messages.

        :param size: bytes of the messages.
        """
        flow = self._gets.get((group, topic)) or self._get_flow(group, topic)
        flow.nums.value += count
        flow.nums.times += 1
        flow.size.value += size
        flow.size.times += 1
        self.got.count += count
        self.pulls_found.count += 1
        self._all_gets.value += count
        self._all_gets.times += 1
        if flow.of_users:
            self._user_gets.value += count
            self._user_gets.times += 1

    def pulled_by_pop(self, group: str, topic: str, count: int, size: int) -> None:
        """As :meth:`pulled`, for a pop."""
        self.pulled(group, topic, count, size)
        messages, before = self.popped.get((group, topic), (0, 0))
        self.popped[group, topic] = messages + count, before + size

    def got_by(self) -> Iterator[tuple[str, str, int, int]]:
        """Iterate over what groups got from topics: group, topic, messages and bytes. Changes meanwhile are allowed."""
        for (group, topic), flow in list(self._gets.items()):
            yield group, topic, flow.nums.value, flow.size.value

    def dead_letters(self) -> Iterator[tuple[str, str, int]]:
        """Iterate over dead letters that consumers sent back: topic, group and number."""
        for (topic, group), item in list(self._dead.items()):
            yield topic, group, item.value

    def missed(self) -> None:
        """Count a pull that was answered without messages."""
        self.pulls_missed.count += 1

    def sent_back(self, group: str, topic: str, *, dead: bool) -> None:
        """Count a message that a consumer sent back.

        :param dead: it went to the dead-letter topic.
        """
        for name in (SENT_BACK_NUMS, SENT_BACK_TO_DLQ_TIMES) if dead else (SENT_BACK_NUMS,):
            item = self.item(name, f"{topic}@{group}")
            item.value += 1
            item.times += 1
        if dead:
            self._dead[topic, group] = item

    def _put_flow(self, topic: str) -> _Flow:
        nums, size = self.item(TOPIC_PUT_NUMS, topic), self.item(TOPIC_PUT_SIZE, topic)
        flow = self._puts[topic] = _Flow(nums, size, not self._is_system(topic))
        return flow

    def _get_flow(self, group: str, topic: str) -> _Flow:
        nums, size = self.item(GROUP_GET_NUMS, f"{topic}@{group}"), self.item(GROUP_GET_SIZE, f"{topic}@{group}")
        flow = self._gets[group, topic] = _Flow(nums, size, not self._is_system(topic))
        return flow

    def item(self, name: str, key: str) -> StatsItem:
        """Return a counter; create it if it does not exist.

        :param name: what it counts, such as ``TOPIC_PUT_NUMS``.
        :param key: for which topic, ``topic@group`` or cluster.
        """
        found = self._items.get((name, key))
        if found is None:
            found = self._items[name, key] = StatsItem(self._clock)
            if key != self._cluster:
                topic, _, group = key.partition("@")
                self._keys.add((name, key), topic, group)
        return found

    def find(self, name: str, key: str) -> StatsItem | None:
        """Return a counter, see :meth:`item`; None if it has not counted anything."""
        self.count_the_rest()
        return self._items.get((name, key))

    # -- time

    def tick(self, now_ms: int) -> None:
        """Take samples if a second has passed since the last ones. Call it at least every second."""
        if now_ms < self._next_sample:
            return
        self._next_sample = now_ms + _SAMPLE_MS
        self.put_times.tick(now_ms)
        for meter in (self.put, self.got, self.pulls_found, self.pulls_missed):
            meter.sample(now_ms)
        if self._clock.is_due(now_ms):
            self.count_the_rest()
        sampling = self._clock.advance(now_ms, self._items.values())
        if sampling is not None:
            at_once(self._sampling)  # samples must be in the order of their times
            self._sampling = sampling
            self._begin(sampling)
        if now_ms >= self._next_morning:
            self.count_the_rest()
            self._next_morning = next_morning(now_ms)
            self.put_day.begin()
            self.got_day.begin()

    # -- queries

    def topic_rate(self, topic: str) -> float:
        """Messages per second sent to a topic during the last minute."""
        item = self.find(TOPIC_PUT_NUMS, topic)
        return item.snapshot(MINUTE).tps if item else 0.0

    def group_rate(self, group: str, topic: str) -> float:
        """Messages per second that a group pulled from a topic during the last minute."""
        item = self.find(GROUP_GET_NUMS, f"{topic}@{group}")
        return item.snapshot(MINUTE).tps if item else 0.0

    def remove_topic(self, topic: str) -> None:
        """Drop the counters of a deleted topic."""
        self.count_the_rest()
        self._puts.pop(topic, None)
        if self.message_counts is not None:
            self.message_counts.remove_topic(topic)
        for key, group in self._keys.take_topic(topic).items():
            del self._items[key]
            self._gets.pop((group, topic), None)
            self.popped.pop((group, topic), None)
            self._dead.pop((topic, group), None)

    @contextmanager
    def timed(self, count: Callable[[MessageCounts, float, bool], None]) -> Iterator[None]:
        """Count for metrics, if they are on, how long the ``with`` block takes.

        :param count: counts the milliseconds, and whether the block ended without an exception.
        """
        begin, succeeded = monotonic(), False
        try:
            yield
            succeeded = True
        finally:
            if self.message_counts is not None:
                count(self.message_counts, (monotonic() - begin) * 1000, succeeded)

    def remove_group(self, group: str) -> None:
        """Drop the counters of a deleted group."""
        if self.message_counts is not None:
            self.message_counts.remove_group(group)
        for key, topic in self._keys.take_group(group).items():
            del self._items[key]
            self._gets.pop((group, topic), None)
            self.popped.pop((group, topic), None)
            self._dead.pop((topic, group), None)


def next_morning(now_ms: int) -> int:
    """Return the next local midnight after ``now_ms``, both in milliseconds since the epoch."""
    today = datetime.datetime.fromtimestamp(now_ms / 1000).astimezone().date()
    midnight = datetime.datetime.combine(today + datetime.timedelta(days=1), datetime.time.min).astimezone()
    return int(midnight.timestamp() * 1000)


def three_rates(*meters: Meter) -> str:
    """Return the rates over 10 s, 1 min and 10 min, summed over the meters, separated by spaces as Java prints them."""
    return " ".join(f"{sum(meter.rate(window) for meter in meters)}" for window in _WINDOWS_MS)
