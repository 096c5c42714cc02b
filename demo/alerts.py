"""The consumer half: announces late departures, and fails some of them on purpose so that retries are seen."""

from __future__ import annotations

import threading
import zlib
from pathlib import Path
from typing import TextIO

import msgspec

from demo.flights import Departure
from rocketmq_py import MessageExt

GROUP = "alerts"
_decode = msgspec.json.Decoder(Departure).decode


class TowerIsBusy(Exception):
    """The failure the listener makes up: the first delivery of some late departures does not get through."""


def fails_first(departure_id: str) -> bool:
    """Whether the first delivery of this departure is to fail: about one in twenty-five."""
    return zlib.crc32(departure_id.encode()) % 25 == 0


class Alerts:
    """The listener and its memory: one line of JSON per event, so that a second run knows of the first.

    Delivery is at least once: a departure announced twice counts once.
    """

    def __init__(self, path: Path) -> None:
        self.announced: set[str] = set()
        self.failed: set[str] = set()
        self.seen = 0
        self._lock = threading.Lock()
        self._load(path)
        self._file: TextIO = path.open("a", buffering=1)

    def _load(self, path: Path) -> None:
        if path.exists():
            for line in path.read_text().splitlines():
                event = msgspec.json.decode(line)
                (self.failed if event["failed"] else self.announced).add(event["id"])

    @property
    def settled(self) -> int:
        """How many of the departures that failed on purpose have been announced since."""
        return len(self.failed & self.announced)

    @property
    def all_settled(self) -> bool:
        """Whether every departure that failed on purpose has been announced since."""
        return self.failed <= self.announced

    def handle(self, message: MessageExt) -> None:
        """The listener: a departure that is late enough is announced, at the second try if it has to fail first."""
        departure = _decode(message.body)
        with self._lock:
            self.seen += 1
        if not departure.is_late:
            return
        if message.reconsume_times == 0 and fails_first(departure.id):
            self._note(departure.id, failed=True)
            raise TowerIsBusy(departure.id)
        self._note(departure.id, failed=False)

    def _note(self, departure_id: str, *, failed: bool) -> None:
        with self._lock:
            known = self.failed if failed else self.announced
            if departure_id not in known:
                known.add(departure_id)
                self._file.write(f'{{"id":"{departure_id}","failed":{"true" if failed else "false"}}}\n')

    def close(self) -> None:
        self._file.close()
