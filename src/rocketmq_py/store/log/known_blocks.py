"""Which blocks and regions of the log were in main memory a moment ago.

Records of many queues lie side by side in the log. A consumer that reads them queue by queue comes back to the same
pages again and again; asking the kernel each time takes longer than the rest of the read.

While the log is in memory as a whole, the question about a read is answered by its first and last byte, from regions;
otherwise by the block of each record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

BLOCK_BITS = 14
BLOCK = 1 << BLOCK_BITS
"""Bytes that are asked about at once: asking about 16 KiB takes hardly longer than about one record."""
_SECONDS = 1.0
"""Time for which an answer counts: the kernel does not evict within a second what was used a moment ago."""
_MOST = 65_536
REGION_BITS = 22
REGION = 1 << REGION_BITS
"""Bytes of a region. To ask about one takes some 10 µs, or 200 if this process has not read it yet."""
_MOST_REGIONS = 256
"""Maximum number of regions of one read; a file of the log has as many by default."""
_QUESTIONS = 4
"""Maximum number of regions that are asked about for one read."""


class KnownBlocks:
    """Numbers of blocks that are in memory. A block is :data:`BLOCK` bytes, counted from the start of the log.

    :param is_resident: asks about the block with a number.
    :param clock: returns the time in seconds; only differences matter.
    """

    def __init__(self, is_resident: Callable[[int], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._is_resident = is_resident
        self._clock = clock
        self._known: set[int] = set()
        self._until = 0.0

    def absent(self, places: Sequence[int], sizes: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Return those of the records at these places that are not known to be in memory as a whole.

        :param sizes: the sizes of the records in bytes.
        """
        now = self._clock()
        if now >= self._until or len(self._known) > _MOST:
            self._known.clear()
            self._until = now + _SECONDS
        blocks = {at >> BLOCK_BITS for at in places}
        blocks.update([(at + size - 1) >> BLOCK_BITS for at, size in zip(places, sizes, strict=True)])
        known = self._known
        known.update(filter(self._is_resident, blocks - known))
        if known.issuperset(blocks) and max(sizes, default=0) <= BLOCK:  # of larger records, inner blocks are not known
            return ()
        return [
            (at, size)
            for at, size in zip(places, sizes, strict=True)
            if size > BLOCK or at >> BLOCK_BITS not in known or (at + size - 1) >> BLOCK_BITS not in known
        ]


class KnownRegions:
    """Numbers of regions that are in memory, and of those that are not. A region is :data:`REGION` bytes.

    :param is_resident: asks about the region with a number, as far as it is written.
    :param clock: returns the time in seconds; only differences matter.
    """

    def __init__(self, is_resident: Callable[[int], bool], clock: Callable[[], float] = time.monotonic) -> None:
        self._is_resident = is_resident
        self._clock = clock
        self._known: set[int] = set()
        self._absent: set[int] = set()
        self._until = 0.0

    def have(self, begin: int, end: int) -> bool:
        """Return True if all bytes from ``begin`` to ``end`` are known to be in memory.

        False does not say that they are not: a call asks about few regions, and a later one about more of them.
        """
        now = self._clock()
        if now >= self._until:
            self._known.clear()
            self._absent.clear()
            self._until = now + _SECONDS
        wanted = range(begin >> REGION_BITS, ((end - 1) >> REGION_BITS) + 1)
        if not 0 < len(wanted) <= _MOST_REGIONS:
            return False
        if self._known.issuperset(wanted):
            return True
        if self._absent.isdisjoint(wanted):
            self._ask(wanted)
        return self._known.issuperset(wanted)

    def _ask(self, wanted: Iterable[int]) -> None:
        for number in islice((one for one in wanted if one not in self._known), _QUESTIONS):
            if not self._is_resident(number):
                self._absent.add(number)
                return
            self._known.add(number)
