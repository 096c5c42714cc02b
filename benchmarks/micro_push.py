"""``python -m benchmarks.micro_push --namesrv H:P --topic T --n N``: CPU time of a push consumer per message.

A new group reads a backlog of ``topic`` from its first offset, one message per listener call. Prints one JSON line per
run: messages per second, and CPU time of this process per message, which other work on the machine disturbs least.
``--work-us`` makes the listener slow, ``--profile`` writes a profile of the event loop's thread to stderr.
"""

from __future__ import annotations

import asyncio
import cProfile
import itertools
import json
import pstats
import sys
import time
import uuid
from typing import Any

import click

from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.model import ConsumeFromWhere, MessageExt


async def run(namesrv: str, topic: str, count: int, work: float, options: dict[str, Any]) -> dict[str, Any]:
    """Read ``count`` messages with a new group, and return rate and CPU time from the first message to the last."""
    numbers, loop, done = itertools.count(1), asyncio.get_running_loop(), asyncio.Event()
    clock, times = time.perf_counter, {}

    def take(_message: MessageExt) -> None:
        if work:
            time.sleep(work)
        number = next(numbers)
        if number in (1, count):
            times[number] = clock(), time.process_time()
            if number == count:
                loop.call_soon_threadsafe(done.set)

    consumer = PushConsumer(
        f"bench-{uuid.uuid4().hex[:12]}", namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET, **options
    )
    consumer.subscribe(topic, "*", take)
    began = clock()
    async with consumer:
        await done.wait()
    (first, first_cpu), (last, last_cpu) = times[1], times[count]
    return {
        "n": count,
        "rate": round(count / (last - first)),
        "cpu_us": round((last_cpu - first_cpu) / count * 1e6, 2),
        "first_ms": round((first - began) * 1000, 1),
    }


def _event_loop(session: Any) -> Any:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(session)
    return uvloop.run(session)


@click.command()
@click.option("--namesrv", required=True)
@click.option("--topic", required=True)
@click.option("--n", default=100_000, help="Messages per run.")
@click.option("--runs", default=3)
@click.option("--threads", default=20)
@click.option("--work-us", default=0, help="Microseconds each listener call sleeps.")
@click.option("--in-flight", default="1", help="Option pulls_in_flight: a number, or auto.")
@click.option("--profile", is_flag=True)
def main(
    namesrv: str, topic: str, n: int, runs: int, threads: int, work_us: int, in_flight: str, profile: bool
) -> None:
    """Measure our push consumer."""
    profiler = cProfile.Profile() if profile else None
    options = {"consume_threads": threads, "pulls_in_flight": in_flight if in_flight == "auto" else int(in_flight)}
    for _ in range(runs):
        if profiler:
            profiler.enable()
        row = _event_loop(run(namesrv, topic, n, work_us / 1e6, options))
        if profiler:
            profiler.disable()
        print(json.dumps(row), flush=True)
    if profiler:
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
