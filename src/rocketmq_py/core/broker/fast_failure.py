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
    """Decides from the durations of event loop iterations ("turns") which kinds of request to refuse.

    If two consecutive turns are each longer than requests of a kind may wait, the next turn refuses this kind.
    """

    def __init__(self) -> None:
        self._before = 0

    def turn(self, worked_ms: int, limits: Mapping[str, int]) -> dict[str, int]:
        """Record the end of an event loop iteration; return which kinds of request to refuse in the next one.

        :param worked_ms: duration of the iteration in milliseconds.
        :param limits: for each kind of request the waiting time in milliseconds from which on it is refused.
        :returns: the kinds to refuse, each with the time in milliseconds that its requests have waited.
        """
        waited, self._before = min(worked_ms, self._before), worked_ms
        return {kind: waited for kind, limit in limits.items() if waited >= limit}

    def refused(self) -> None:
        """Reset the recorded duration after an event loop iteration that refused requests; the next one serves them."""
        self._before = 0
