"""Raise the limit of open files to what the system grants, and report when it is reached: each connection is a file."""

from __future__ import annotations

import asyncio
import errno
import logging
import sys
import time
from typing import Any

log = logging.getLogger(__name__)

_TOO_MANY = (errno.EMFILE, errno.ENFILE)
_AGAIN_SECONDS = 60.0


def raise_limit() -> int | None:
    """Raise the process's soft limit of open files to the hard limit; return the limit in force, None on Windows."""
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS may not grant the hard limit that it reports
        return soft
    return hard


class LoopFaults:
    """An exception handler of the event loop that logs running out of open files at most once a minute.

    The event loop reports that error for every connection it cannot accept. Other errors go to its default handler.

    :param limit: the limit of open files, for the log line.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._told = -_AGAIN_SECONDS

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        if not isinstance(fault, OSError) or fault.errno not in _TOO_MANY:
            loop.default_exception_handler(context)
        elif time.monotonic() - self._told >= _AGAIN_SECONDS:
            self._told = time.monotonic()
            log.error(
                "no connection more can be taken: %s files are open, the limit; raise it (ulimit -n, LimitNOFILE)",
                self._limit,
            )
