"""Fast failure: an overloaded broker refuses requests, so that clients try another broker instead of waiting
(BrokerFastFailure).

Java measures how long each request waits in a queue. Here, requests wait in the sockets while the event loop handles
earlier ones: those that arrive during one iteration of the loop wait until it ends. So this module measures the
duration of the loop's iterations ("turns").

After a single long turn, the waiting requests are served. If two consecutive turns are each longer than a kind of
request may wait, requests are queueing up, and that kind is refused in the next turn. Refusing is cheap, so the turn
after that serves requests again.
"""

from __future__ import annotations

from collections.abc import Mapping


class FastFailure:
    """Decides from the duration of consecutive turns which kinds of request to refuse."""

    def __init__(self) -> None:
        self._before = 0

    def turn(self, worked_ms: int, limits: Mapping[str, int]) -> dict[str, int]:
        """Record the end of a turn; return the kinds of request to refuse in the next turn, each with the time it has
        waited in milliseconds.

        :param worked_ms: duration of the turn in milliseconds.
        :param limits: the waiting time in milliseconds from which on a kind is refused, by kind.
        """
        waited, self._before = min(worked_ms, self._before), worked_ms
        return {kind: waited for kind, limit in limits.items() if waited >= limit}

    def refused(self) -> None:
        """Forget the previous turn, after a turn that refused requests."""
        self._before = 0
