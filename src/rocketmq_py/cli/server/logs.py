"""The log of a server: lines for people, or one JSON object per line for machines. Repeated lines are limited."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click
import msgspec

from rocketmq_py.core.log_limiter import LogLimiter

F = TypeVar("F", bound=Callable[..., Any])

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
_OURS = "rocketmq_py."


def logging_options(function: F) -> F:
    """``--log-level`` and ``--log-format``."""
    by_level = click.option(
        "--log-level", type=click.Choice(LEVELS), help="What to log to standard error.  [default: warning]"
    )
    by_format = click.option(
        "--log-format", type=click.Choice(FORMATS), default="text", show_default=True, help="For people, or machines."
    )
    return by_level(by_format(function))


def log_as(level: str | None, form: str) -> None:
    """Log to standard error from now on, in that form; a line that repeats is left out after a while.

    :param level: of LEVELS; None for what ``-v`` has asked for.
    """
    root = logging.getLogger()
    before = [handler for handler in root.handlers if type(handler) is logging.StreamHandler]
    for handler in before:
        root.removeHandler(handler)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(Rarely(LogLimiter()))
    root.addHandler(handler)
    if level is not None:
        root.setLevel(level.upper())


class Rarely(logging.Filter):
    """Lines of the same wording are told apart from others, whatever they are about.

    A line that passes after others were left out says how many in its attribute ``suppressed``.
    """

    def __init__(self, repeats: LogLimiter) -> None:
        super().__init__()
        self._repeats = repeats

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        verdict = self._repeats.judge((record.name, record.levelno, str(record.msg)), record.created)
        record.suppressed = verdict.suppressed
        return verdict.emit


class TextLines(logging.Formatter):
    """``2026-01-31 12:00:00.123 WARNING broker.registration: cannot register …``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with the traceback below it where there is one."""
        when = datetime.fromtimestamp(record.created).astimezone()
        text = f"{when:%Y-%m-%d %H:%M:%S}.{int(record.msecs):03} {record.levelname:<7} {_name(record)}: "
        text += record.getMessage().replace("\n", " ")
        suppressed = getattr(record, "suppressed", 0)
        if suppressed:
            text += f" (and {suppressed} more like this)"
        trace = _traceback(self, record)
        return f"{text}\n{trace}" if trace else text


class JsonLines(logging.Formatter):
    """An object per line: ``time``, ``level``, ``logger``, ``message``, and its wording as ``event``.

    The wording is the same for all lines of a kind, whatever broker or topic they are about: a key to look for. Where
    it applies there are ``values`` (what was filled into it), ``more`` (lines like it that were left out) and
    ``traceback``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        when = datetime.fromtimestamp(record.created).astimezone()
        said: dict[str, Any] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": _name(record),
            "message": record.getMessage(),
            "event": str(record.msg),
        }
        if record.args:
            values = record.args if isinstance(record.args, tuple) else (record.args,)
            said["values"] = [value if isinstance(value, int | float | str | None) else str(value) for value in values]
        if getattr(record, "suppressed", 0):
            said["more"] = record.suppressed  # type: ignore[attr-defined]
        trace = _traceback(self, record)
        if trace:
            said["traceback"] = trace
        return msgspec.json.encode(said).decode()


def _name(record: logging.LogRecord) -> str:
    return record.name.removeprefix(_OURS)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
