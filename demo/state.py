"""What the demo remembers between runs: how far the replay got, and which late departures were announced."""

from __future__ import annotations

from pathlib import Path

import msgspec


class State(msgspec.Struct):
    """What an interrupted run needs to go on.

    :param sent: all departures before this row are acknowledged.
    :param closings: closing messages sent; every run that ends before its numbers agreed adds one.
    :param verified: the numbers of a finished run agreed.
    :param limit: how many departures this store was started with.
    """

    sent: int = 0
    closings: int = 0
    verified: bool = False
    limit: int | None = None


class StateFile:
    """One small JSON file, replaced atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> State:
        if not self._path.exists():
            return State()
        return msgspec.json.decode(self._path.read_bytes(), type=State)

    def save(self, state: State) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(state))
        fresh.replace(self._path)
