"""How a client program measures on demand: a warm-up, then one run for each line on stdin, one JSON row for each run.

Knows the lines that :class:`benchmarks.program.Runner` reads. Refuses to know what a run does.
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
    """Warm-up, then one run of ``count`` messages per line of stdin."""
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
    """Prints a row."""
    print(json.dumps(row), flush=True)


def result(count: int, seconds: float, took: Sequence[float] = ()) -> Row:
    """The row of a run; ``took`` are the seconds of each message."""
    row: Row = {"n": count, "seconds": round(seconds, 3), "rate": round(count / seconds)}
    if len(took) > 1:
        cuts = statistics.quantiles(took, n=100, method="inclusive")
        row |= {"p50us": round(cuts[49] * 1e6, 1), "p99us": round(cuts[98] * 1e6, 1)}
    return row


def event_loop(session: Coroutine[Any, Any, None]) -> None:
    """Runs on uvloop where it is installed, as the blocking face does by itself."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(session)
    else:
        uvloop.run(session)
