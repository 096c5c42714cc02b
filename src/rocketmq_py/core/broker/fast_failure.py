"""When a server that has fallen behind refuses requests at once, so that clients go elsewhere instead of waiting.

Knows Java's limits of waiting by kind of request (BrokerFastFailure) and how they read in a server of one event loop.
There, requests wait in the sockets while the loop works on those before them. How long each has waited nobody sees,
but all that came during a turn of the loop has waited for its end, so turns are measured, in time spent working.

One long turn is no reason to refuse anything: what came meanwhile is served next. But when turn follows turn, each
longer than a kind of request may wait, there is a standing queue: requests of the kind always wait too long, and those
of the next turn are refused. Refusing takes next to no time, so the turn after that serves again. Refuses to know
loops, clocks and what is answered.
"""

from __future__ import annotations

from collections.abc import Mapping


class FastFailure:
    """Tells from one turn after the other which kinds of request have waited too long."""

    def __init__(self) -> None:
        self._before = 0

    def turn(self, worked_ms: int, limits: Mapping[str, int]) -> dict[str, int]:
        """A turn has ended; the kinds to refuse in the next one, with how many milliseconds they wait by now.

        :param limits: how long requests may wait, in milliseconds, by kind.
        """
        waited, self._before = min(worked_ms, self._before), worked_ms
        return {kind: waited for kind, limit in limits.items() if waited >= limit}

    def refused(self) -> None:
        """The turn that has ended refused requests: what follows is looked at afresh."""
        self._before = 0
