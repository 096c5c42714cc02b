"""Confirmation prompts and progress of long commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PLAIN_SECONDS = 5.0
"""Interval of the progress lines that are printed without a terminal."""


def yes_option(function: F) -> F:
    """Add the option ``-y, --yes`` to a command."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(function)


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user to confirm, and return if the answer is yes.

    :param yes: option ``--yes``: do not ask.
    :raises click.Abort: the user declines.
    :raises click.UsageError: there is no terminal to ask at, and ``--yes`` is not given.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask at: give --yes to confirm")
    click.confirm(question, abort=True, err=True)


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show progress on standard error: a bar on a terminal (by rich if installed), otherwise a line every few seconds.

    Yields a function to call with the number of newly completed items.

    :param what: label of the bar or line.
    :param total: number of all items; None if unknown, which shows lines.
    """
    if total is None or not sys.stderr.isatty():
        yield _ProgressLines(what, total, time.monotonic).add
        return
    try:
        from rich import progress as rich
        from rich.console import Console
    except ImportError:
        with click.progressbar(length=total, label=what, file=sys.stderr, show_pos=True) as bar:
            yield bar.update
        return
    columns = (*rich.Progress.get_default_columns(), rich.MofNCompleteColumn())
    with rich.Progress(*columns, console=Console(file=sys.stderr)) as display:
        task = display.add_task(what, total=total)
        yield lambda count: display.advance(task, count)


class _ProgressLines:
    """Prints progress as lines on standard error, one every few seconds."""

    def __init__(self, what: str, total: int | None, clock: Callable[[], float]) -> None:
        self._what = what
        self._of = "" if total is None else f" of {total}"
        self._clock = clock
        self._done = 0
        self._printed_at = clock()

    def add(self, count: int) -> None:
        self._done += count
        if self._clock() - self._printed_at >= PLAIN_SECONDS:
            self._printed_at = self._clock()
            click.echo(f"{self._what}: {self._done}{self._of}", err=True)
