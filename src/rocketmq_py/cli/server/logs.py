"""The log of a server: lines of text, logfmt or JSON, without lines that repeat too often."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click
import msgspec

from rocketmq_py.core.log_limiter import LogLimiter

F = TypeVar("F", bound=Callable[..., Any])

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json", "logfmt")
_PACKAGE_PREFIX = "rocketmq_py."


def logging_options(function: F) -> F:
    """Add the options ``--log-level`` and ``--log-format`` to a command."""
    by_level = click.option(
        "--log-level", type=click.Choice(LEVELS), help="What to log to standard error.  [default: warning]"
    )
    by_format = click.option(
        "--log-format", type=click.Choice(FORMATS), default="text", show_default=True, help="Format of log lines."
    )
    return by_level(by_format(function))


def log_as(level: str | None, form: str, server: str = "") -> None:
    """Set up logging to standard error; :class:`LogLimiter` suppresses lines that repeat too often.

    :param level: one of LEVELS; None keeps the level that ``-v`` set.
    :param form: one of FORMATS.
    :param server: name of the server for each line, if several servers write to one log.
    """
    root = logging.getLogger()
    before = [handler for handler in root.handlers if type(handler) is logging.StreamHandler]
    for handler in before:
        root.removeHandler(handler)
    handler = logging.StreamHandler()
    handler.setFormatter(_FORMATTERS[form](server))
    handler.addFilter(RepeatFilter(LogLimiter()))
    root.addHandler(handler)
    if level is not None:
        root.setLevel(level.upper())


class RepeatFilter(logging.Filter):
    """Suppresses log records whose logger, level and format string repeat too often.

    A record that passes has the number of records suppressed before it in its attribute ``suppressed``.
    """

    def __init__(self, limiter: LogLimiter) -> None:
        super().__init__()
        self._limiter = limiter

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written, and set its attribute ``suppressed``."""
        verdict = self._limiter.judge((record.name, record.levelno, str(record.msg)), record.created)
        record.suppressed = verdict.suppressed
        return verdict.emit


class TextLines(logging.Formatter):
    """Formats records as text: ``2026-01-31 12:00:00.123 WARNING broker.registration: cannot register …``.

    :param server: name of the server, which follows the level; empty for none.
    """

    def __init__(self, server: str = "") -> None:
        super().__init__()
        self._server = f"{server} " if server else ""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line, followed by the traceback if there is one."""
        when = datetime.fromtimestamp(record.created).astimezone()
        text = f"{when:%Y-%m-%d %H:%M:%S}.{int(record.msecs):03} {record.levelname:<7} {self._server}{_name(record)}: "
        text += record.getMessage().replace("\n", " ")
        suppressed = getattr(record, "suppressed", 0)
        if suppressed:
            text += f" (and {suppressed} more like this)"
        trace = _traceback(self, record)
        return f"{text}\n{trace}" if trace else text


class JsonLines(logging.Formatter):
    """Formats records as JSON: ``time``, ``level``, ``logger``, ``message``, and its format string as ``event``.

    ``event`` is the same for all lines of a kind, so it serves as a search key. Optional fields are ``values`` (the
    arguments of the format string), ``more`` (the number of similar lines that were suppressed), ``traceback``, and
    ``trace_id`` and ``span_id`` while a span of OpenTelemetry is current.

    :param server: value of the field ``server``; empty for none.
    """

    def __init__(self, server: str = "") -> None:
        super().__init__()
        self._server = {"server": server} if server else {}

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON."""
        when = datetime.fromtimestamp(record.created).astimezone()
        fields: dict[str, Any] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": _name(record),
            "message": record.getMessage(),
            "event": str(record.msg),
            **self._server,
            **span_ids(),
        }
        if record.args:
            values = record.args if isinstance(record.args, tuple) else (record.args,)
            fields["values"] = [
                value if isinstance(value, int | float | str | None) else str(value) for value in values
            ]
        if getattr(record, "suppressed", 0):
            fields["more"] = record.suppressed  # type: ignore[attr-defined]
        trace = _traceback(self, record)
        if trace:
            fields["traceback"] = trace
        return msgspec.json.encode(fields).decode()


class LogfmtLines(logging.Formatter):
    """Formats records as logfmt: ``time=… level=warning logger=broker.registration msg="cannot register …"``.

    Further fields are ``server``, ``trace_id``, ``span_id``, ``more`` and ``traceback``, as of :class:`JsonLines`.

    :param server: value of the field ``server``; empty for none.
    """

    def __init__(self, server: str = "") -> None:
        super().__init__()
        self._server = {"server": server} if server else {}

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line."""
        when = datetime.fromtimestamp(record.created).astimezone()
        fields = {
            "time": when.isoformat(timespec="milliseconds"), "level": record.levelname.lower(),
            "logger": _name(record), "msg": record.getMessage(), **self._server, **span_ids(),
        }  # fmt: skip
        if getattr(record, "suppressed", 0):
            fields["more"] = str(record.suppressed)  # type: ignore[attr-defined]
        trace = _traceback(self, record)
        if trace:
            fields["traceback"] = trace
        return " ".join(f"{name}={_quoted(value)}" for name, value in fields.items())


_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")
"""What needs no quotes in logfmt: no space, quote, backslash or equals sign."""
_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    text = value.translate(_ESCAPES)
    return '"' + "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text) + '"'


_FORMATTERS: dict[str, Callable[[str], logging.Formatter]] = {
    "text": TextLines, "json": JsonLines, "logfmt": LogfmtLines,
}  # fmt: skip


def span_ids() -> dict[str, str]:
    """Return ``trace_id`` and ``span_id`` of the current span of OpenTelemetry; empty without one.

    A program that has not imported OpenTelemetry has no span.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    current = trace.get_current_span().get_span_context()
    if not current.is_valid:
        return {}
    return {"trace_id": f"{current.trace_id:032x}", "span_id": f"{current.span_id:016x}"}


def _name(record: logging.LogRecord) -> str:
    return record.name.removeprefix(_PACKAGE_PREFIX)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
