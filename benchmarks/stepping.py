"""Measuring on demand in a client program: a warm-up, then one run per line on stdin, and one JSON row per run.

:class:`benchmarks.program.Runner` is the other end. What a run does is not part of this module.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

Row = dict[str, Any]
Run = Callable[[int], Row]
AsyncRun = Callable[[int], Awaitable[Row]]


def repeat(run: Run, count: int, warm: int) -> None:
    """Do a warm-up of ``warm`` messages, then one run of ``count`` messages per line of stdin."""
    if warm:
        run(warm)
    say({"type": "waiting"})
    for _ in sys.stdin:
        gc.collect()
        cpu = time.process_time()
        row = run(count)
        say({"type": "run", **row, "clientCpu": time.process_time() - cpu})
        say({"type": "waiting"})


async def repeat_async(run: AsyncRun, count: int, warm: int) -> None:
    """As :func:`repeat`, within an event loop."""
    if warm:
        await run(warm)
    while True:
        say({"type": "waiting"})
        if not await asyncio.to_thread(sys.stdin.readline):
            return
        cpu = time.process_time()
        row = await run(count)
        say({"type": "run", **row, "clientCpu": time.process_time() - cpu})


def say(row: Row) -> None:
    """Print a row as a line of JSON."""
    print(json.dumps(row), flush=True)


def result(count: int, seconds: float, took: Sequence[float] = ()) -> Row:
    """Return the row of a run: count, seconds, rate, and percentiles if there are times of messages.

    :param took: seconds that each message took.
    """
    row: Row = {"n": count, "seconds": round(seconds, 3), "rate": round(count / seconds)}
    if len(took) > 1:
        cuts = statistics.quantiles(took, n=100, method="inclusive")
        row |= {"p50us": round(cuts[49] * 1e6, 1), "p99us": round(cuts[98] * 1e6, 1)}
    return row


def event_loop(session: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine, on uvloop if it is installed, as the blocking clients do."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(session)
    else:
        uvloop.run(session)
