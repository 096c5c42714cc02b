"""Sends the departures in time order, remembers how far it got, and keeps to a rate if one is asked for."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable

import pandas as pd

from demo.flights import closing_message, departures, message
from demo.state import State, StateFile
from rocketmq_py.aio import Producer

CHUNK = 1000
"""Messages in flight at once; the state is saved after each chunk that is acknowledged as a whole."""


class Replay:
    """The replay of a data set from where an earlier run stopped.

    After a crash the chunk in flight is sent again, so some departures may be in the topic twice.
    """

    def __init__(self, frame: pd.DataFrame, state_file: StateFile, rate: float | None) -> None:
        self.total = len(frame)
        self.state: State = state_file.load()
        self.started_at = self.state.sent
        self._frame = frame
        self._file = state_file
        self._chunk = CHUNK if rate is None else max(1, min(CHUNK, round(rate / 10)))
        self._seconds_per_message = 0.0 if rate is None else 1.0 / rate

    def verified(self) -> None:
        """Remember that nothing is left to do."""
        self.state.verified = True
        self._file.save(self.state)

    async def run(self, producer: Producer, on_progress: Callable[[int], None]) -> None:
        """Send what is left, then the closing message."""
        began, rows = time.monotonic(), departures(self._frame, self.state.sent)
        while chunk := list(itertools.islice(rows, self._chunk)):
            messages = [message(departure) for departure in chunk]
            await asyncio.gather(*[producer.send_ordered(m, m.sharding_key) for m in messages])
            self._advance(len(chunk))
            on_progress(self.state.sent)
            due = began + (self.state.sent - self.started_at) * self._seconds_per_message
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        if not self.state.verified:
            await producer.send(closing_message(self._frame, self.state.closings + 1))
            self.state.closings += 1
            self._file.save(self.state)

    def _advance(self, count: int) -> None:
        self.state.sent += count
        self._file.save(self.state)
