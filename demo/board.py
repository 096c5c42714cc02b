"""Progress: bars on a terminal, one plain line every few seconds otherwise."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_PLAIN_EVERY_SECONDS = 3.0


class Board:
    """One bar per kind of work; ``update`` may be called from any thread."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), console=console, disable=not self._bars,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}
        self._state: dict[str, tuple[int, int, str]] = {}
        self._line = ""
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()
        if not self._bars:
            self._print_line()

    def update(self, name: str, done: int, total: int, note: str = "") -> None:
        """Show that ``done`` of ``total`` of the work called ``name`` is finished."""
        self._state[name] = (done, total, note)
        if self._bars:
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, total=total, note=note)
            self._progress.update(self._tasks[name], completed=done, total=total, note=note)
        elif time.monotonic() - self._last_line > _PLAIN_EVERY_SECONDS:
            self._print_line()

    def _print_line(self) -> None:
        self._last_line = time.monotonic()
        parts = [f"{name} {done:,}/{total:,} {note}".rstrip() for name, (done, total, note) in self._state.items()]
        line = "  " + " | ".join(parts)
        if parts and line != self._line:
            self._line = line
            self._console.out(line, highlight=False)
