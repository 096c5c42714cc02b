"""What every row gets: the amount of work, a temporary directory, the load generator, and a function for progress."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.drive import Generator
from benchmarks.figures import human

Run = Callable[[], float]
"""Does one measured run and returns its value."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The amount of work of a measurement.

    ``runs`` is the number of measured runs of each side, ``warm`` the number of messages before the first of them.
    """

    runs: int
    warm: int
    share: float
    """Part of the full work that a run does, 0.0 to 1.0."""

    def of(self, full: int, multiple: int = 1) -> int:
        """Return this scale's share of ``full``, rounded down to a multiple of ``multiple``, but not to 0."""
        return max(1, int(full * self.share) // multiple) * multiple


FULL = Scale(runs=5, warm=300_000, share=1.0)
QUICK = Scale(runs=3, warm=60_000, share=0.25)


@dataclass(slots=True)
class Session:
    """One invocation of the benchmarks. ``tell`` is called with lines about the progress."""

    scale: Scale
    tell: Callable[[str], None]
    _generator: Generator | None = None

    @property
    def generator(self) -> Generator:
        """The compiled load generator, built on first access.

        :raises BenchError: it cannot be built.
        """
        if self._generator is None:
            self.tell("building the load generator")
            self._generator = Generator.build()
        return self._generator

    @contextmanager
    def work(self) -> Iterator[Path]:
        """A temporary directory for stores and logs, removed afterwards."""
        folder = Path(tempfile.mkdtemp(prefix="rocketmq-bench-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def in_turn(self, name: str, unit: str, ours: Run, peer: Run) -> tuple[list[float], list[float]]:
        """Do a run of each side in every round, and return the values of ours and of the peer.

        Every other round begins with the peer. The number of rounds is that of the scale.
        """
        values: tuple[list[float], list[float]] = ([], [])
        for number in range(self.scale.runs):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                values[side].append((ours, peer)[side]())
            self.tell(f"{name} {number + 1}/{self.scale.runs}: ours {human(values[0][-1])}, "
                      f"peer {human(values[1][-1])} {unit}")  # fmt: skip
        return values


def progress() -> Callable[[str], None]:
    """Return a function that writes lines to stderr, with the seconds since this call."""
    start = time.monotonic()

    def tell(line: str) -> None:
        print(f"[{time.monotonic() - start:6.1f} s] {line}", file=sys.stderr, flush=True)

    return tell
