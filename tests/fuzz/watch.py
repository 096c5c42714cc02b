"""What the fuzz run looks at besides answers: log records, long turns of the event loop, memory."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import re
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_EXPECTED_ERRORS = frozenset({"rocketmq_py.broker.ha.master", "rocketmq_py.broker.transaction.check"})
"""Loggers whose ERROR lines without a traceback are about the other end: a slave with a log that is not this
master's, a producer that never ends its transaction."""


class LogWatch(logging.Handler):
    """Collects log records that show a fault: those with a traceback, and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.findings: dict[str, str] = {}
        """By fault: its first record, with the number of the frame before it."""
        self.current = ""
        """The frame that is being served."""
        self.records = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.records += 1
        if not record.exc_info and (record.levelno < logging.ERROR or record.name in _EXPECTED_ERRORS):
            return
        error = record.exc_info[1] if record.exc_info else None
        place = traceback.extract_tb(error.__traceback__)[-1] if error is not None and error.__traceback__ else None
        key = f"{type(error).__name__} {place.filename}:{place.lineno}" if place else str(record.msg)
        if key not in self.findings:
            trace = "".join(traceback.format_exception(error)) if error is not None else ""
            self.findings[key] = (
                f"{key} after {self.current}: {record.name}: {record.getMessage()[:300]}\n{trace[-2500:]}"
            )


@contextmanager
def watched_logs() -> Iterator[LogWatch]:
    """Send all log records of this process to a watch."""
    watch, root = LogWatch(), logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers[:] = [watch]
    root.setLevel(logging.WARNING)
    try:
        yield watch
    finally:
        root.handlers[:] = before
        root.setLevel(level)


class TurnWatch:
    """The longest callback of an event loop, in processor seconds, and what it was."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.name = ""
        self.current = ""


@contextmanager
def watched_turns(driver: object) -> Iterator[TurnWatch]:
    """Measure each callback of the event loop except the steps of the task that drives the run."""
    watch, run = TurnWatch(), asyncio.Handle._run

    def timed(handle: Any) -> None:
        if getattr(handle._callback, "__self__", None) is driver:
            run(handle)
            return
        before = time.thread_time()
        run(handle)
        used = time.thread_time() - before
        if used > watch.longest:
            watch.longest, watch.name = used, f"{_name(handle)} near {watch.current}"

    asyncio.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield watch
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


def _name(handle: Any) -> str:
    callback = handle._callback
    owner = getattr(callback, "__self__", None)
    named = owner.get_coro().__qualname__ if isinstance(owner, asyncio.Task) else ""
    return named or getattr(callback, "__qualname__", repr(callback))


def resident_kib() -> int:
    """KiB of memory of this process that is not of files, after a collection of garbage."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])
