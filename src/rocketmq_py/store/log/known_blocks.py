"""Which blocks of the log were in main memory a moment ago.

Records of many queues lie side by side in the log. A consumer that reads them queue by queue comes back to the same
pages again and again; asking the kernel each time takes longer than the rest of the read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

BLOCK_BITS = 14
BLOCK = 1 << BLOCK_BITS
"""Bytes that are asked about at once: asking about 16 KiB takes hardly longer than about one record."""
_SECONDS = 1.0
"""Time for which an answer counts: the kernel does not evict within a second what was used a moment ago."""
_MOST = 65_536


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
