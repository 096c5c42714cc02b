"""Parts of remote files, fetched with few requests: blocks that were fetched stay for a while, and a file that is read
from one end to the other is fetched in ever larger parts, the next one while the last one is used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

BLOCK = 64 * 1024
"""Bytes of a block; a file is fetched in whole blocks."""
WIDEST = 128
"""Most blocks that one request fetches beyond what is asked for: 8 MiB."""
_AHEAD_FROM = 16
"""A file that is fetched in parts of so many blocks is fetched ahead of its use."""
_MOST = 1024
"""Most blocks that stay: 64 MiB."""

Fetch = Callable[[int, int], bytes]
"""Returns the bytes of a file from a position on, of a given number; fewer at the end of the file."""


class Part(NamedTuple):
    """Consecutive blocks of a file: the first, and how many."""

    first: int
    number: int


class Pattern:
    """How a file is read, from one end to the other or here and there, and how much a request fetches for that."""

    def __init__(self) -> None:
        self._width = 1
        self._next = 0

    @property
    def is_long(self) -> bool:
        """Return True if the file is read from one end to the other, in large parts."""
        return self._width >= _AHEAD_FROM

    def part(self, first: int, wanted: int) -> Part:
        """Return what to fetch for a read of ``wanted`` blocks from ``first`` on."""
        in_order = self._next <= first <= self._next + self._width
        self._width = min(max(2 * self._width, wanted), WIDEST) if in_order else 1
        found = Part(first, max(wanted, self._width))
        self._next = first + found.number
        return found

    def following(self) -> Part:
        """Return what to fetch after the last part."""
        return self.part(self._next, 0)


class _Ahead(NamedTuple):
    """A part of a file that is being fetched before it is asked for."""

    name: str
    part: Part
    data: Future[bytes]


class BlockCache:
    """Blocks of the files of one store; close it when done. Used by one thread at a time.

    :param most: most blocks that stay.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._patterns: dict[str, Pattern] = {}
        self._ahead: _Ahead | None = None
        self._executor: ThreadPoolExecutor | None = None

    def read(self, name: str, size: int, fetch: Fetch, position: int, length: int) -> bytes:
        """Return bytes of a file; fewer than ``length`` at its end.

        :param size: bytes of the file.
        :param fetch: fetches bytes of it; also called in another thread.
        """
        end = min(position + length, size)
        if position >= end:
            return b""
        first, last = position // BLOCK, (end - 1) // BLOCK
        found: list[bytes] = []
        while first + len(found) <= last:
            at = first + len(found)
            block = self._blocks.get((name, at))
            if block is None:
                found += self._fetched(name, size, fetch, at, last - at + 1)
            else:
                self._blocks.move_to_end((name, at))
                found.append(block)
            if first + len(found) == at or len(found[-1]) < BLOCK:  # the end of the file
                break
        return b"".join(found)[position - first * BLOCK : end - first * BLOCK]

    def forget_ahead(self, name: str) -> None:
        """Drop the part of a file that is fetched ahead of its use: the file is closed."""
        if self._ahead is not None and self._ahead.name == name:
            self._stop_ahead()

    def close(self) -> None:
        """Forget all blocks, and wait for a request that is under way. Idempotent."""
        self._stop_ahead()
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
        self._blocks.clear()

    def _fetched(self, name: str, size: int, fetch: Fetch, first: int, wanted: int) -> list[bytes]:
        """Fetch blocks from ``first`` on, and keep them; return at most ``wanted``."""
        pattern = self._patterns.setdefault(name, Pattern())
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.name == name and 0 <= first - ahead.part.first < ahead.part.number:
            part, data = ahead.part, ahead.data.result()
        else:
            self._ahead = ahead
            self._stop_ahead()
            part = pattern.part(first, wanted)
            data = fetch(part.first * BLOCK, min(part.number * BLOCK, size - part.first * BLOCK))
        blocks = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]
        for at, block in enumerate(blocks, part.first):
            self._blocks[name, at] = block
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)
        if pattern.is_long:
            self._fetch_ahead(name, size, fetch, pattern.following())
        return blocks[first - part.first : first - part.first + wanted]

    def _fetch_ahead(self, name: str, size: int, fetch: Fetch, part: Part) -> None:
        length = min(part.number * BLOCK, size - part.first * BLOCK)
        if length > 0:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, "store-read-ahead")
            self._ahead = _Ahead(name, part, self._executor.submit(fetch, part.first * BLOCK, length))

    def _stop_ahead(self) -> None:
        """Drop what is fetched ahead; if that fails, nobody has asked for it."""
        if self._ahead is not None:
            self._ahead.data.cancel()
            self._ahead = None
