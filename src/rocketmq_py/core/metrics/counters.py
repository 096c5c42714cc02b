"""What a broker counts for its metrics and for nothing else. Names, types and buckets are those of Apache RocketMQ.

Everything else that the metrics show is known anyway and collected when they are read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from rocketmq_py.core.metrics.histogram import Histogram
from rocketmq_py.protocol import names

Key = TypeVar("Key", bound=Hashable)

NORMAL, FIFO, DELAY, TRANSACTION = "normal", "fifo", "delay", "transaction"
TIMER_TOPIC = "rmq_sys_wheel_timer"

SIZE_BOUNDS = (1024, 4096, 524288, 1048576, 2097152, 4194304)
RPC_BOUNDS = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
FINISH_BOUNDS = (5, 60, 600, 3600, 43200, 86400)
CREATE_BOUNDS = (10, 100, 1000, 3000, 5000)
DELAY_BOUNDS = (60, 600, 3600, 43200, 86400, 259200)
SCAN_BOUNDS = (1, 10, 100, 1000, 2000, 3000)

CHECK_POINT, ACK = "CK", "ACK"
"""Kinds of entries of the revive log, under the names of Apache RocketMQ."""


class Traffic:
    """Messages, bytes and sizes of one kind of messages."""

    __slots__ = ("messages", "size", "sizes")

    def __init__(self) -> None:
        self.messages = 0
        self.size = 0
        self.sizes = Histogram(SIZE_BOUNDS)


class MessageCounts:
    """Counts sends, ended transactions, delays, and requests that create topics and groups.

    :ivar received: by topic and type of message.
    :ivar open_halves: open half messages by topic, of those that were stored since the start.
    :ivar delays: by topic, seconds for which timed messages wait.
    :ivar topics_created: by success, and whether the topic is one of the system, milliseconds of a request.
    :ivar groups_created: by success, milliseconds of a request.
    """

    def __init__(self) -> None:
        self.received: dict[tuple[str, str], Traffic] = {}
        self.committed: dict[str, int] = {}
        self.rolled_back: dict[str, int] = {}
        self.finish_seconds: dict[str, Histogram] = {}
        self.open_halves: dict[str, int] = {}
        self.delays: dict[str, Histogram] = {}
        self.topics_created: dict[tuple[bool, bool], Histogram] = {}
        self.groups_created: dict[bool, Histogram] = {}
        self.pops = PopCounts()

    def delayed(self, topic: str, seconds: int) -> None:
        """Count a timed message that begins to wait."""
        _histogram(self.delays, topic, DELAY_BOUNDS).observe(max(0, seconds))

    def created_topic(self, milliseconds: float, *, succeeded: bool, is_system: bool) -> None:
        """Count a request that creates or changes topics."""
        _histogram(self.topics_created, (succeeded, is_system), CREATE_BOUNDS).observe(milliseconds)

    def created_group(self, milliseconds: float, *, succeeded: bool) -> None:
        """Count a request that creates or changes consumer groups."""
        _histogram(self.groups_created, succeeded, CREATE_BOUNDS).observe(milliseconds)

    def sent(self, sent_to: str, stored_in: str, properties: str | None, size: int) -> None:
        """Count one stored send.

        :param sent_to: the topic the producer named.
        :param stored_in: the topic of the record, which is another one for delayed messages and half messages.
        :param properties: the properties as the producer sent them.
        :param size: bytes of the record.
        """
        topic, kind = sent_to, NORMAL
        if stored_in != sent_to:
            topic, kind = _redirected(sent_to, stored_in)
            if kind == TRANSACTION:
                self.open_halves[sent_to] = self.open_halves.get(sent_to, 0) + 1
        elif properties is not None and "__SHARDINGKEY\x01" in properties:
            kind = FIFO
        flow = self.received.get((topic, kind)) or self._flow(topic, kind)
        flow.messages += 1
        flow.size += size
        flow.sizes.observe(size)

    def sent_many(self, topic: str, kind: str, count: int, size: int, observations: int) -> None:
        """Count messages that were stored together.

        :param size: bytes of all records.
        :param observations: how often the mean size counts in the histogram of sizes; once for a batch.
        """
        flow = self.received.get((topic, kind)) or self._flow(topic, kind)
        flow.messages += count
        flow.size += size
        flow.sizes.observe(size / count, observations)

    def sent_halves(self, topic: str, count: int, size: int, observations: int = 1) -> None:
        """Count half messages that were stored together.

        :param topic: the topic the producer named.
        :param observations: as for :meth:`sent_many`.
        """
        self.sent_many(names.HALF_TOPIC, TRANSACTION, count, size, observations)
        self.open_halves[topic] = self.open_halves.get(topic, 0) + count

    def _flow(self, topic: str, kind: str) -> Traffic:
        flow = self.received[topic, kind] = Traffic()
        return flow

    def ended(self, topic: str, seconds: float, *, commit: bool, count: int = 1) -> None:
        """Count ended transactions.

        :param seconds: from the birth of the half message to its end; counts for commits only, as in Java.
        """
        table = self.committed if commit else self.rolled_back
        table[topic] = table.get(topic, 0) + count
        if topic in self.open_halves:  # not if it was stored before the start
            self.open_halves[topic] = max(0, self.open_halves[topic] - count)
        if commit:
            _histogram(self.finish_seconds, topic, FINISH_BOUNDS).observe(seconds, count)

    def remove_topic(self, topic: str) -> None:
        """Forget a deleted topic."""
        for kind in (NORMAL, FIFO, DELAY, TRANSACTION):
            self.received.pop((topic, kind), None)
        for table in (self.committed, self.rolled_back, self.open_halves):
            table.pop(topic, None)
        self.finish_seconds.pop(topic, None)
        self.delays.pop(topic, None)
        self.pops.remove(topic=topic)

    def remove_group(self, group: str) -> None:
        """Forget a deleted group."""
        self.pops.remove(group=group)


class PopEntries(NamedTuple):
    """Entries of the revive log of one kind: of which topic and group, and in which queue of the log."""

    topic: str
    group: str
    queue: int
    kind: str


class PopCounts:
    """Counts what is written to the revive log, and what is revived.

    :ivar entered: check-points and acks that were written to the log.
    :ivar left: those of them that the broker needs no longer, see :meth:`leave`.
    :ivar retried: by topic and group, messages that were stored again, because they were not acked in time.
    :ivar scans: milliseconds that the search for messages to revive took.
    """

    def __init__(self) -> None:
        self.entered: dict[PopEntries, int] = {}
        self.left: dict[PopEntries, int] = {}
        self.retried: dict[tuple[str, str], int] = {}
        self.scans = Histogram(SCAN_BOUNDS)

    def enter(self, entries: PopEntries) -> None:
        """Count an entry that was written."""
        self.entered[entries] = self.entered.get(entries, 0) + 1

    def leave(self, needed: Mapping[PopEntries, int]) -> None:
        """Count all entries as left but those that are still needed. The counts never fall.

        :param needed: how many entries are, also of those that were written before the start.
        """
        for entries, count in self.entered.items():
            left = count - needed.get(entries, 0)
            if left > self.left.get(entries, 0):
                self.left[entries] = left

    def retry(self, topic: str, group: str) -> None:
        """Count a message that was stored again."""
        self.retried[topic, group] = self.retried.get((topic, group), 0) + 1

    def remove(self, *, topic: str | None = None, group: str | None = None) -> None:
        """Forget a deleted topic, or a deleted group."""
        for table in (self.entered, self.left):
            for entries in [one for one in table if topic == one.topic or group == one.group]:
                del table[entries]
        for place in [place for place in self.retried if topic == place[0] or group == place[1]]:
            del self.retried[place]


def _histogram(table: dict[Key, Histogram], key: Key, bounds: Sequence[float]) -> Histogram:
    found = table.get(key)
    if found is None:
        found = table[key] = Histogram(bounds)
    return found


def _redirected(sent_to: str, stored_in: str) -> tuple[str, str]:
    """Return topic and type under which a Java broker counts a message that it stores in another topic."""
    if stored_in == names.HALF_TOPIC:
        return stored_in, TRANSACTION
    if stored_in == TIMER_TOPIC:
        return stored_in, DELAY
    return (sent_to, DELAY) if stored_in == names.SCHEDULE_TOPIC else (stored_in, NORMAL)


class RpcKey(NamedTuple):
    """Labels of the latency of requests."""

    request: int
    response: int
    is_long_polling: bool
    result: str
    protocol: str = "remoting"


SUCCESS, ONEWAY = "success", "oneway"
GRPC = "grpc"


class RpcLatency:
    """Counts how long requests took, in milliseconds, from their handling to their answer."""

    def __init__(self) -> None:
        self.spans: dict[RpcKey, Histogram] = {}

    def observe(self, key: RpcKey, milliseconds: float, times: int = 1) -> None:
        spans = self.spans.get(key)
        if spans is None:
            spans = self.spans[key] = Histogram(RPC_BOUNDS)
        spans.observe(milliseconds, times)

    def observe_read(self, codes: Iterable[tuple[int, int, bool]], milliseconds: float) -> None:
        """Count the requests of one read of a socket, which are answered together.

        :param codes: request code, response code, and True for one-way requests, of each.
        """
        counts: dict[tuple[int, int, bool], int] = {}
        for code in codes:
            counts[code] = counts.get(code, 0) + 1
        for (request, response, oneway), times in counts.items():
            self.observe(RpcKey(request, response, False, ONEWAY if oneway else SUCCESS), milliseconds, times)
