"""Lanes: limits of concurrent requests and of waiting time, by kind of request.

If one kind of request stalls (a slow disk, a client that does not answer), only its own lane becomes full. Further
requests of that lane are refused immediately with SYSTEM_BUSY, so clients try another broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class LaneLimit(NamedTuple):
    """The limits of a lane.

    ``in_flight``: maximum number of concurrent asynchronous handlers; the default is the length of Java's queues.
    ``wait_ms``: maximum time a request waits for its handler in an overloaded server, in milliseconds; None: no limit.
    """

    in_flight: int = 10_000
    wait_ms: int | None = None


class Lane:
    """A group of request codes with one limit (in Java: an executor and its queue).

    It counts the requests that are answered later: asynchronous handlers that run, and queued requests.
    """

    __slots__ = ("is_full_logged", "limit", "name", "running")

    def __init__(self, name: str, limit: LaneLimit) -> None:
        self.name = name
        self.limit = limit.in_flight
        self.running = 0
        self.is_full_logged = False
        """True if it was logged that the lane is full, and the lane has not been empty since."""

    @property
    def is_full(self) -> bool:
        return self.running >= self.limit

    def leave(self) -> None:
        """Count a request less; an empty lane may be logged as full again."""
        self.running -= 1
        self.is_full_logged = self.is_full_logged and self.running > 0


class Lanes:
    """All lanes of a server; a lane is created on first access.

    :param limits: limits by lane name; other lanes have the defaults of :class:`LaneLimit`.
    """

    def __init__(self, limits: Mapping[str, LaneLimit] | None = None) -> None:
        self._lanes: dict[str, Lane] = {}
        self.waits: dict[str, int] = {}
        """``wait_ms`` by lane name, for the lanes with such a limit."""
        self.limit(limits or {})

    def limit(self, limits: Mapping[str, LaneLimit]) -> None:
        """Replace the limits by lane name, also those of existing lanes; other lanes get the defaults."""
        self._limits = dict(limits)
        self.waits = {name: limit.wait_ms for name, limit in limits.items() if limit.wait_ms is not None}
        for name, lane in self._lanes.items():
            lane.limit = self._limits.get(name, LaneLimit()).in_flight

    def __getitem__(self, name: str) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name, self._limits.get(name, LaneLimit()))
        return lane
