"""What every row gets: how much to do, where to work, whom to tell.

Knows sizes and places. Refuses to know the rows.
"""

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
"""One measured run; gives its value."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much a measurement does. ``warm`` is the messages a broker or client takes before the first measured run."""

    runs: int
    warm: int
    share: float
    """Part of the full work of each run."""

    def of(self, full: int, multiple: int = 1) -> int:
        """This scale's share of ``full``, as a multiple of ``multiple``."""
        return max(1, int(full * self.share) // multiple) * multiple


FULL = Scale(runs=5, warm=300_000, share=1.0)
QUICK = Scale(runs=3, warm=60_000, share=0.25)


@dataclass(slots=True)
class Session:
    """One invocation. ``tell`` takes progress lines."""

    scale: Scale
    tell: Callable[[str], None]
    _generator: Generator | None = None

    @property
    def generator(self) -> Generator:
        """The compiled load generator, built when a row first asks for it.

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
        """``runs`` rounds of one run each; every other round begins with the peer. The values of both."""
        values: tuple[list[float], list[float]] = ([], [])
        for number in range(self.scale.runs):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                values[side].append((ours, peer)[side]())
            self.tell(f"{name} {number + 1}/{self.scale.runs}: ours {human(values[0][-1])}, "
                      f"peer {human(values[1][-1])} {unit}")  # fmt: skip
        return values


def progress() -> Callable[[str], None]:
    """Writes lines with the seconds since now to stderr."""
    start = time.monotonic()

    def tell(line: str) -> None:
        print(f"[{time.monotonic() - start:6.1f} s] {line}", file=sys.stderr, flush=True)

    return tell
