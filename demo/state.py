"""What the demo remembers between runs: how far the replay got, and which late departures were announced."""

from __future__ import annotations

from pathlib import Path

import msgspec


class State(msgspec.Struct):
    """``sent``: all departures before this row are acknowledged by the broker; ``closed``: so is the closing message."""

    sent: int = 0
    closed: bool = False
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
