"""``python -m benchmarks.our_client``: measure our producers, each run on demand (see :mod:`benchmarks.stepping`).

The work is that of Bench.java: the same bodies, one connection, default settings.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

import click

from benchmarks.stepping import AsyncRun, Row, Run, event_loop, repeat, repeat_async, result
from rocketmq_py import Credentials, Message, Producer, TlsOptions, aio
from rocketmq_py.core.producer.accumulator import Linger

_GROUP = "bench-producer"
_TEXT = bytes(32 + i * 7 % 91 for i in range(1 << 14))


class Options(TypedDict, total=False):
    """Options of a producer: TLS, signing and batches."""

    tls: TlsOptions
    credentials: Credentials
    batch_linger: Linger


def body(size: int) -> bytes:
    """Return a message body of ``size`` printable bytes."""
    return (_TEXT * (size // len(_TEXT) + 1))[:size]


def send_one_by_one(producer: Producer, topic: str, payload: bytes) -> Run:
    """Return a run of the blocking producer: each send begins after the result of the one before."""
    clock = time.perf_counter

    def run(count: int) -> Row:
        took = []
        begin = clock()
        for _ in range(count):
            start = clock()
            producer.send(Message(topic, payload))
            took.append(clock() - start)
        return result(count, clock() - begin, took)

    return run


def send_from_threads(producer: Producer, topic: str, payload: bytes, threads: int) -> Run:
    """Return a run of the blocking producer: ``threads`` threads that each send one message after the other."""

    def run(count: int) -> Row:
        def sender() -> None:
            for _ in range(count // threads):
                producer.send(Message(topic, payload))

        begin = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            for sending in [pool.submit(sender) for _ in range(threads)]:
                sending.result()
        return result(count // threads * threads, time.perf_counter() - begin)

    return run


def send_window(producer: aio.Producer, topic: str, payload: bytes, window: int) -> AsyncRun:
    """Return a run of the asyncio producer: ``window`` coroutines that each send one message after the other."""

    async def run(total: int) -> Row:
        left = iter(range(total))

        async def sender() -> None:
            for _ in left:
                await producer.send(Message(topic, payload))

        begin = time.perf_counter()
        await asyncio.gather(*(sender() for _ in range(window)))
        return result(total, time.perf_counter() - begin)

    return run


async def _async_session(
    options: Options, namesrv: str, topic: str, payload: bytes, window: int, count: int, warm: int
) -> None:
    async with aio.Producer(group=_GROUP, namesrv=namesrv, **options) as producer:
        await repeat_async(send_window(producer, topic, payload, window), count, warm)


@click.command()
@click.argument("verb", type=click.Choice(["sync", "async"]))
@click.option("--namesrv", required=True)
@click.option("--topic", required=True)
@click.option("--n", default=100_000, help="Messages per run.")
@click.option("--size", default=1024, help="Bytes of body.")
@click.option("--warm", default=0, help="Messages before the first run.")
@click.option("--inflight", default=256)
@click.option("--threads", default=1, help="Threads that send, with the verb sync.")
@click.option("--tls", is_flag=True, help="Over TLS, whatever the certificate.")
@click.option("--acl", metavar="ACCESS:SECRET", help="Sign the requests.")
@click.option("--linger", default="0", help="Option batch_linger: seconds, or natural.")
def main(verb: str, namesrv: str, topic: str, n: int, warm: int, **given: Any) -> None:
    """Measure one of our producers."""
    options = Options(batch_linger="natural" if given["linger"] == "natural" else float(given["linger"]))
    if given["tls"]:
        options["tls"] = TlsOptions(verify=False)
    if given["acl"] is not None:
        options["credentials"] = Credentials(*given["acl"].split(":", 1))
    if verb == "async":
        event_loop(_async_session(options, namesrv, topic, body(given["size"]), given["inflight"], n, warm))
    else:
        with Producer(group=_GROUP, namesrv=namesrv, **options) as producer:
            payload, threads = body(given["size"]), given["threads"]
            one = send_one_by_one(producer, topic, payload)
            repeat(one if threads == 1 else send_from_threads(producer, topic, payload, threads), n, warm)


if __name__ == "__main__":
    main()
