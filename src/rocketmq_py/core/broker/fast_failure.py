"""Fast failure: an overloaded server refuses requests, so that clients go elsewhere instead of waiting
(BrokerFastFailure).

Java measures how long each request waits in a queue. In a server with one event loop, requests wait in the sockets
while the loop handles the ones before them. All requests that arrive during a turn of the loop wait for its end, so
this module measures turns, as working time.

One long turn is no reason to refuse requests: they are served next. If two turns in a row are each longer than a kind
of request may wait, there is a standing queue, and that kind is refused in the next turn. Refusing is cheap, so the
turn after that serves again.
"""

from __future__ import annotations

from collections.abc import Mapping


class FastFailure:
    """Decides from consecutive turns which kinds of request have waited too long."""

    def __init__(self) -> None:
        self._before = 0

    def turn(self, worked_ms: int, limits: Mapping[str, int]) -> dict[str, int]:
        """Record the end of a turn; return the kinds to refuse in the next one, with their waiting time in
        milliseconds.

        :param limits: the longest waiting time in milliseconds by kind.
        """
        waited, self._before = min(worked_ms, self._before), worked_ms
        return {kind: waited for kind, limit in limits.items() if waited >= limit}

    def refused(self) -> None:
        """Start again after a turn that refused requests."""
        self._before = 0
