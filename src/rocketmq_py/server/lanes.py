"""Lanes: how many asynchronous handlers of one kind may run at a time.

A kind of work that stalls (a slow disk, a client that does not answer) then fills its own lane only; further requests
of that lane are refused at once as busy, which clients take as a reason to go elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class LaneLimit(NamedTuple):
    """How many handlers of a lane may be under way at once; the default is the length of Java's queues."""

    in_flight: int = 10_000


class Lane:
    """The handlers of one lane that are under way."""

    __slots__ = ("limit", "name", "running")

    def __init__(self, name: str, limit: LaneLimit) -> None:
        self.name = name
        self.limit = limit.in_flight
        self.running = 0

    @property
    def is_full(self) -> bool:
        return self.running >= self.limit


class Lanes:
    """All lanes of a server, made when first asked for.

    :param limits: limits by lane name; a lane that is not named has :class:`LaneLimit`'s default.
    """

    def __init__(self, limits: Mapping[str, LaneLimit] | None = None) -> None:
        self._limits = dict(limits or {})
        self._lanes: dict[str, Lane] = {}

    def __getitem__(self, name: str) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name, self._limits.get(name, LaneLimit()))
        return lane
