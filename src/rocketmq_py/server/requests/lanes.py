"""Lanes: how much work of one kind may be under way, and how long it may wait before it begins.

A kind of work that stalls (a slow disk, a client that does not answer) then fills its own lane only; further requests
of that lane are refused at once as busy, which clients take as a reason to go elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class LaneLimit(NamedTuple):
    """What a lane may take.

    ``in_flight``: asynchronous handlers under way at once; the default is the length of Java's queues. ``wait_ms``: how
    long a request may wait for its handler in a server that has fallen behind; None for as long as it takes.
    """

    in_flight: int = 10_000
    wait_ms: int | None = None


class Lane:
    """The handlers of one lane that are under way."""

    __slots__ = ("limit", "name", "running", "told")

    def __init__(self, name: str, limit: LaneLimit) -> None:
        self.name = name
        self.limit = limit.in_flight
        self.running = 0
        self.told = False
        """Whether it was said that the lane is full."""

    @property
    def is_full(self) -> bool:
        return self.running >= self.limit


class Lanes:
    """All lanes of a server, made when first asked for.

    :param limits: limits by lane name; a lane that is not named has :class:`LaneLimit`'s default.
    """

    def __init__(self, limits: Mapping[str, LaneLimit] | None = None) -> None:
        self._lanes: dict[str, Lane] = {}
        self.waits: dict[str, int] = {}
        """How long requests may wait, in milliseconds, for the lanes that have such a limit."""
        self.limit(limits or {})

    def limit(self, limits: Mapping[str, LaneLimit]) -> None:
        """Other limits from now on."""
        self._limits = dict(limits)
        self.waits = {name: limit.wait_ms for name, limit in limits.items() if limit.wait_ms is not None}
        for name, lane in self._lanes.items():
            lane.limit = self._limits.get(name, LaneLimit()).in_flight

    def __getitem__(self, name: str) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name, self._limits.get(name, LaneLimit()))
        return lane
