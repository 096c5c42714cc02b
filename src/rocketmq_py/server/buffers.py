"""A limit of the bytes that a server buffers for all connections: unread replies and incomplete frames.

Each connection has a limit of its own, but there may be thousands of connections. If the sum is over the limit, the
connections with the largest buffers are closed.
"""

from __future__ import annotations

from typing import Protocol

_NOT_COUNTED = 64 * 1024
"""Connections that buffer at most this many bytes are not counted."""


class Buffering(Protocol):
    """A connection with buffered bytes."""

    @property
    def buffered(self) -> int:
        """Number of buffered bytes."""
        ...

    def cut_off(self, why: str) -> None:
        """Close the connection immediately and log the reason."""
        ...


class Buffers:
    """Tracks the connections with large buffers, and closes the largest ones if the sum is over a limit.

    :param limit: maximum of buffered bytes of all connections; the largest ones are closed until the sum is below it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._connections: set[Buffering] = set()

    def grown(self, connection: Buffering) -> None:
        """Count a connection whose buffer has grown; close the largest ones if the sum is over the limit."""
        self._connections.add(connection)
        sizes = {each: size for each in self._connections if (size := each.buffered) > _NOT_COUNTED}
        self._connections = set(sizes)
        total = sum(sizes.values())
        while total > self._limit:
            largest = max(sizes, key=sizes.__getitem__)
            total -= sizes.pop(largest)
            self._connections.discard(largest)
            largest.cut_off(
                f"it holds most of the {self._limit} bytes that may be buffered for all connections: its client does "
                "not read replies, or does not complete requests"
            )

    def discard(self, connection: Buffering) -> None:
        """Stop counting a connection that is closed or has nothing buffered."""
        self._connections.discard(connection)
