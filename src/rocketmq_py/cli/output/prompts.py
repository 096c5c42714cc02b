"""Asking before something is destroyed, and telling how far long work is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

PLAIN_SECONDS = 5.0
"""How often progress is a line where there is no terminal."""


def yes_option(function: F) -> F:
    """``-y, --yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")(function)


def confirm(question: str, *, yes: bool) -> None:
    """Goes on only if the user wants to. Without a terminal to ask at, only ``--yes`` will do."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask at: give --yes to go on")
    click.confirm(question, abort=True, err=True)


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Tells on standard error how many are done: a bar on a terminal, else a line every few seconds.

    Yields a function to call with how many more are done.
    """
    if total is not None and sys.stderr.isatty():
        with click.progressbar(length=total, label=what, file=sys.stderr, show_pos=True) as bar:
            yield bar.update
        return
    yield _Lines(what, total, time.monotonic).add


class _Lines:
    """Progress as lines."""

    def __init__(self, what: str, total: int | None, clock: Callable[[], float]) -> None:
        self._what = what
        self._of = "" if total is None else f" of {total}"
        self._clock = clock
        self._done = 0
        self._told_at = clock()

    def add(self, count: int) -> None:
        self._done += count
        if self._clock() - self._told_at >= PLAIN_SECONDS:
            self._told_at = self._clock()
            click.echo(f"{self._what}: {self._done}{self._of}", err=True)
