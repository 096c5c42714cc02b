"""Search for the newest messages of a topic with a tag.

Java brokers from 5.4 on index messages by tags. Here the search scans the consume queues, which have the hashes of tags
anyway: sends cost nothing more. As with keys, the caller compares the tags of the messages found.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.read.reader import Reader

_STEP = 2048
_MOST = 200_000
"""Maximum number of entries scanned by one search, over all queues, so that a rare tag does not block the broker."""


def offsets_by_tag(
    reader: Reader, queues: Iterable[ConsumeQueue], code: int, limit: int, begin: int, end: int
) -> list[int]:
    """Return physical offsets of the newest messages with a tags code, stored within a time window, oldest first.

    :param limit: maximum number of messages.
    :param begin: begin of the window; ``begin`` and ``end`` are inclusive, in milliseconds since the epoch.
    """
    chosen = list(queues)
    share = _MOST // max(1, len(chosen))
    found: list[int] = []
    for queue in chosen:
        low = reader.first_since(queue, begin)
        high = reader.first_since(queue, end + 1)
        matching = _backwards(queue, max(low, high - share), high, code)
        found += [physical for physical, _ in zip(matching, range(limit), strict=False)]
    return sorted(heapq.nlargest(limit, found))


def _backwards(queue: ConsumeQueue, low: int, high: int, code: int) -> Iterator[int]:
    """Iterate over the physical offsets of entries from ``low`` to before ``high`` with a tags code, newest first."""
    while high > low:
        start = max(low, high - _STEP)
        entries = queue.span(start, high)
        yield from (physical for physical, _, found in reversed(entries) if found == code)
        high = start
