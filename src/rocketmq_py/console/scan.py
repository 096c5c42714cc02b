"""Read messages of a topic from the newest to the oldest, with a bound on what one page costs.

The queues are merged by store time. Each queue is read backwards in chunks, because most pages need only the last few
messages. A scan that ends early says why and where it goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.console.connection import each
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageExt, MessageQueue

MOST_QUEUES = 256
"""Number of queues that one scan reads; the others are said to be left out."""

_CHUNK = 32
"""Largest number of messages of one pull."""
_MOST_AT_ONCE = 1024
"""Largest number of offsets of a queue that are read before the other queues are looked at again."""

Window = tuple[int, int]
"""First offset and exclusive end of a range of a queue."""


Accepts = Callable[[MessageExt], bool]


class Budget(NamedTuple):
    """What one scan may cost: offsets looked at, bytes of bodies read, seconds."""

    offsets: int = 20_000
    size: int = 32 * 1024 * 1024
    seconds: float = 5.0


_USUAL = Budget()


class Scan(NamedTuple):
    """The result of a scan.

    :ivar messages: the messages found, newest first.
    :ivar left: the ranges that are not read yet, by queue; empty if the scan has reached the end.
    :ivar stopped: why it ended before the page was full: ``offsets``, ``bytes`` or ``seconds``; None if it did not.
    :ivar looked_at: the number of offsets that were read.
    """

    messages: list[MessageExt]
    left: dict[MessageQueue, Window]
    stopped: str | None
    looked_at: int


class _Backward:
    """Reads one queue backwards.

    :param chunk: number of offsets that are read first, and ``most`` that of later chunks: few messages may match.
    :param accepts: whether a message is looked for.
    """

    def __init__(
        self, admin: Admin, queue: MessageQueue, window: Window, chunk: int, most: int, tags: str, accepts: Accepts
    ) -> None:
        self.queue = queue
        self.first, self.end = window
        self.found: list[MessageExt] = []
        """Messages that are read and not taken yet, oldest first."""
        self._admin, self._chunk, self._most, self._tags, self._accepts = admin, chunk, most, tags, accepts

    @property
    def is_unread(self) -> bool:
        return not self.found and self.end > self.first

    @property
    def left(self) -> Window:
        return self.first, self.found[-1].queue_offset + 1 if self.found else self.end

    async def fill(self) -> tuple[int, int]:
        """Read the chunk before ``end``; returns the numbers of offsets and bytes that were read."""
        start = max(self.first, self.end - self._chunk)
        read, size, offset = self.end - start, 0, start
        while offset < self.end:
            pulled = await self._admin.pull(
                self.queue, offset, max_messages=min(_CHUNK, self.end - offset), tags=self._tags
            )
            taken = [message for message in pulled.messages if message.queue_offset < self.end]
            size += sum(message.store_size for message in taken)
            self.found += filter(self._accepts, taken)
            if pulled.next_offset <= offset:
                break
            offset = pulled.next_offset
        self.end = start
        self._chunk = min(4 * self._chunk, self._most)
        return read, size


async def newest_first(
    admin: Admin,
    windows: Mapping[MessageQueue, Window],
    count: int,
    *,
    tags: str = "*",
    accepts: Accepts = lambda _: True,
    budget: Budget = _USUAL,
    clock: Callable[[], float] = time.monotonic,
) -> Scan:
    """Return the newest ``count`` messages in ranges of queues, newest first.

    :param tags: only messages with one of these tags: ``"a || b"``.
    :param accepts: only messages for which it returns True.
    :param clock: monotonic clock, in seconds.
    """
    chunk = max(1, min(_CHUNK, 2 * count // len(windows))) if windows else 0
    most = max(chunk, min(_MOST_AT_ONCE, budget.offsets // len(windows))) if windows else 0
    readers = [
        _Backward(admin, queue, window, chunk, most, tags, accepts)
        for queue, window in windows.items()
        if window[1] > window[0]
    ]
    found: list[MessageExt] = []
    offsets = size = 0
    until = clock() + budget.seconds
    stopped = None
    while len(found) < count:
        unread = [reader for reader in readers if reader.is_unread]
        if unread:
            stopped = _spent(offsets, size, clock() > until, budget)
            if stopped:
                break
            costs = await each(unread, _Backward.fill)
            offsets, size = offsets + sum(cost[0] for cost in costs), size + sum(cost[1] for cost in costs)
            continue
        ready = [reader for reader in readers if reader.found]
        if not ready:
            break
        found.append(max(ready, key=_time_of_last).found.pop())
    left = {reader.queue: reader.left for reader in readers if reader.left[1] > reader.left[0]}
    return Scan(found, left, stopped, offsets)


def _time_of_last(reader: _Backward) -> tuple[int, int]:
    last = reader.found[-1]
    return last.store_timestamp, last.commit_log_offset


def _spent(offsets: int, size: int, is_late: bool, budget: Budget) -> str | None:
    if offsets >= budget.offsets:
        return "offsets"
    if size >= budget.size:
        return "bytes"
    return "seconds" if is_late else None


def cursor_of(left: Mapping[MessageQueue, Window]) -> str:
    """Encode the ranges that a scan has not read for a URL: ``broker:queue:first:end`` separated by blanks."""
    return " ".join(f"{queue.broker_name}:{queue.queue_id}:{first}:{end}" for queue, (first, end) in left.items())


def parse_cursor(topic: str, text: str) -> dict[MessageQueue, Window]:
    """Decode :func:`cursor_of`.

    :raises ConfigError: the text has another form, or names too many queues.
    """
    found: dict[MessageQueue, Window] = {}
    for part in text.split():
        broker, *numbers = part.rsplit(":", 3)
        if len(numbers) != 3 or not all(number.isdecimal() and len(number) < 19 for number in numbers):
            raise ConfigError(f"{part[:80]!r} is no range of a queue: BROKER:QUEUE:FIRST:END")
        queue_id, first, end = map(int, numbers)
        found[MessageQueue(topic, broker, queue_id)] = (first, end)
    if len(found) > MOST_QUEUES:
        raise ConfigError(f"{len(found)} queues are more than one scan reads: {MOST_QUEUES}")
    return found
