"""What all connections together make a server keep: answers nobody takes, frames that do not become whole.

Each connection has limits of its own, but there may be thousands. Knows the sum and who holds most of it. Refuses to
know how a connection is ended.
"""

from __future__ import annotations

from typing import Protocol

_LITTLE = 64 * 1024
"""Bytes up to which a connection is forgotten again: what it was about has become whole, or was taken."""


class Holder(Protocol):
    """A connection."""

    @property
    def buffered(self) -> int:
        """Bytes kept for it."""
        ...

    def cut_off(self, why: str) -> None:
        """End it at once."""
        ...


class Buffers:
    """The connections that hold much, which are few.

    :param limit: bytes all of them may hold together; over it, those that hold most are ended.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._holders: set[Holder] = set()

    def grown(self, holder: Holder) -> None:
        """A connection holds much, or more than before."""
        self._holders.add(holder)
        held = {one: size for one in self._holders if (size := one.buffered) > _LITTLE}
        self._holders = set(held)
        total = sum(held.values())
        while total > self._limit:
            largest = max(held, key=held.__getitem__)
            total -= held.pop(largest)
            self._holders.discard(largest)
            largest.cut_off(
                f"it holds most of the {self._limit} bytes that connections may make this server keep: answers it does "
                "not read, or requests it does not finish"
            )

    def forget(self, holder: Holder) -> None:
        """A connection holds nothing to speak of any more, or is gone."""
        self._holders.discard(holder)
