"""Search for the newest messages of a topic with a tag.

Java brokers from 5.4 on index messages by tags. Here the search scans the consume queues, which have the hashes of tags
anyway: sends cost nothing more. As with keys, the caller compares the tags of the messages found.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from rocketmq_py.store.fs.residency import Loadable, NotInMemory, Residency
from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.read.reader import Reader

_STEP = 2048
_MOST = 200_000
"""Maximum number of entries scanned by one search, over all queues, so that a rare tag does not block the broker."""


class TagSearch:
    """A search that does not wait for the disk: it is run again after each load.

    :param limit: maximum number of messages.
    :param begin: begin of the time window; ``begin`` and ``end`` are inclusive, in milliseconds since the epoch.
    """

    def __init__(
        self, reader: Reader, queues: Iterable[ConsumeQueue], code: int, limit: int, begin: int, end: int
    ) -> None:
        self._reader = reader
        self._queues = [(queue, queue.max_offset) for queue in queues]
        self._code = code
        self._limit = limit
        self._begin = begin
        self._end = end

    def run(self, residency: Residency | None) -> list[int]:
        """Return physical offsets of the newest messages with the tags code in the time window, oldest first.

        :param residency: None to wait for the disk.
        :raises NotInMemory: only with ``residency``.
        """
        spans = self._spans(residency)
        if residency is not None:
            self._reader.check_spans(spans, residency)
        found: list[int] = []
        for queue, low, high in spans:
            matching = _backwards(queue, low, high, self._code)
            found += [physical for physical, _ in zip(matching, range(self._limit), strict=False)]
        return sorted(heapq.nlargest(self._limit, found))

    def query(self, residency: Residency | None) -> list[bytes]:
        """As :meth:`run`, but return the records."""
        offsets = self.run(residency)
        if residency is not None:
            self._reader.check_messages(offsets, residency)
        return [record for record in map(self._reader.message_at, offsets) if record is not None]

    def _spans(self, residency: Residency | None) -> list[tuple[ConsumeQueue, int, int]]:
        """Return queues with the range of offsets to scan in each.

        :raises NotInMemory: it has the parts that all queues need next.
        """
        share = _MOST // max(1, len(self._queues))
        spans, missing = [], list[Loadable]()
        for queue, last in self._queues:
            try:
                low = self._reader.first_since(queue, self._begin, last, residency)
                high = self._reader.first_since(queue, self._end + 1, last, residency)
            except NotInMemory as e:
                missing += e.parts
            else:
                spans.append((queue, max(low, high - share), high))
        if missing:
            raise NotInMemory(missing)
        return spans


def _backwards(queue: ConsumeQueue, low: int, high: int, code: int) -> Iterator[int]:
    """Iterate over the physical offsets of entries from ``low`` to before ``high`` with a tags code, newest first."""
    while high > low:
        start = max(low, high - _STEP)
        entries = queue.span(start, high)
        yield from (physical for physical, _, found in reversed(entries) if found == code)
        high = start
