"""Finding the messages of a topic that have a tag, newest first.

Java brokers from 5.4 on file every message under its tags in the index too. Here the consume queues are asked, which
have the hash of the tags anyway: a send costs nothing more, and a store no Java broker has written is searched as well.
Knows how far it is worth looking. Refuses to compare tags: who asked looks at the message, as with keys.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from rocketmq_py.store.queue.consume_queue import ConsumeQueue
from rocketmq_py.store.read.reader import Reader

_STEP = 2048
_MOST = 200_000
"""Entries looked at for one question, over all queues: somebody who asks for a rare tag must not hold up the others."""


def offsets_by_tag(
    reader: Reader, queues: Iterable[ConsumeQueue], code: int, limit: int, begin: int, end: int
) -> list[int]:
    """Physical offsets of the newest messages with a tags code stored within a time window, oldest first.

    :param limit: no more than this many. :param begin: milliseconds, inclusive as ``end``.
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
    """Physical offsets of entries with a tags code, the newest first."""
    while high > low:
        start = max(low, high - _STEP)
        entries = queue.span(start, high)
        yield from (physical for physical, _, found in reversed(entries) if found == code)
        high = start
