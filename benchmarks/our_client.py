"""``python -m benchmarks.our_client``: our producer and push consumer, each run on demand.

After the warm-up it prints ``{"type": "waiting"}``; every line on stdin starts one run, which prints one row. The same
work as Bench.java: the same bodies, one connection, stock settings, one message per listener call.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import click

from benchmarks.frames import body
from rocketmq_py import ConsumeFromWhere, Message, Producer, PushConsumer, aio

Run = Callable[[int], dict[str, Any]]
_GROUP = "bench-producer"
_TIMEOUT_SECONDS = 150.0


def repeat(run: Run, count: int, warm: int) -> None:
    """Warm-up, then one run of ``count`` messages per line of stdin."""
    if warm:
        run(warm)
    _say({"type": "waiting"})
    for _ in sys.stdin:
        gc.collect()
        cpu = time.process_time()
        row = run(count)
        _say({"type": "run", **row, "clientCpu": time.process_time() - cpu})
        _say({"type": "waiting"})


def _say(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


def _result(count: int, seconds: float, took: list[float] | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"n": count, "seconds": round(seconds, 3), "rate": round(count / seconds)}
    if took:
        row["p50us"] = round(statistics.median(took) * 1e6, 1)
    return row


def send_one_by_one(producer: Producer, topic: str, payload: bytes) -> Run:
    """The blocking producer, each send after the result of the one before."""
    clock = time.perf_counter

    def run(count: int) -> dict[str, Any]:
        took = []
        begin = clock()
        for _ in range(count):
            start = clock()
            producer.send(Message(topic, payload))
            took.append(clock() - start)
        return _result(count, clock() - begin, took)

    return run


def send_window(namesrv: str, topic: str, payload: bytes, window: int, count: int, warm: int) -> None:
    """The asyncio producer with ``window`` coroutines that each send one message after the other."""

    async def run(producer: aio.Producer, total: int) -> dict[str, Any]:
        left = iter(range(total))

        async def sender() -> None:
            for _ in left:
                await producer.send(Message(topic, payload))

        begin = time.perf_counter()
        await asyncio.gather(*(sender() for _ in range(window)))
        return _result(total, time.perf_counter() - begin)

    async def session() -> None:
        async with aio.Producer(group=_GROUP, namesrv=namesrv) as producer:
            if warm:
                await run(producer, warm)
            while True:
                _say({"type": "waiting"})
                if not await asyncio.to_thread(sys.stdin.readline):
                    return
                cpu = time.process_time()
                row = await run(producer, count)
                _say({"type": "run", **row, "clientCpu": time.process_time() - cpu})

    _event_loop(session())


def _event_loop(session: Any) -> None:
    """Runs on uvloop where it is installed, as the blocking face does by itself."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(session)
    else:
        uvloop.run(session)


def push(namesrv: str, topic: str) -> Run:
    """A fresh group reads the backlog from its first offset; the clock runs from the first message to the last."""

    def run(count: int) -> dict[str, Any]:
        numbers = itertools.count(1)
        times: dict[int, float] = {}
        done = threading.Event()

        def take(_message: Message) -> None:
            number = next(numbers)
            if number in (1, count):
                times[number] = time.perf_counter()
                if number == count:
                    done.set()

        group = f"bench-{uuid.uuid4().hex[:12]}"
        with PushConsumer(group=group, namesrv=namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
            consumer.on(topic)(take)
            consumer.start()
            if not done.wait(_TIMEOUT_SECONDS):
                raise TimeoutError(f"{next(numbers) - 1} of {count} messages of {topic} in {_TIMEOUT_SECONDS:.0f} s")
        return _result(count, times[count] - times[1])

    return run


@click.command()
@click.argument("verb", type=click.Choice(["sync", "async", "push"]))
@click.option("--namesrv", required=True)
@click.option("--topic", required=True)
@click.option("--n", default=100_000, help="Messages per run.")
@click.option("--size", default=1024, help="Bytes of body.")
@click.option("--warm", default=0, help="Messages before the first run.")
@click.option("--inflight", default=256)
def main(verb: str, namesrv: str, topic: str, n: int, size: int, warm: int, inflight: int) -> None:
    """Measures one of our clients."""
    if verb == "push":
        repeat(push(namesrv, topic), n, warm)
    elif verb == "async":
        send_window(namesrv, topic, body(size), inflight, n, warm)
    else:
        with Producer(group=_GROUP, namesrv=namesrv) as producer:
            repeat(send_one_by_one(producer, topic, body(size)), n, warm)


if __name__ == "__main__":
    main()
