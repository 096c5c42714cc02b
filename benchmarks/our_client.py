"""``python -m benchmarks.our_client``: measure our producers, each run on demand (see :mod:`benchmarks.stepping`).

The work is that of Bench.java: the same bodies, one connection, default settings.
"""

from __future__ import annotations

import asyncio
import time
from typing import TypedDict

import click

from benchmarks.stepping import AsyncRun, Row, Run, event_loop, repeat, repeat_async, result
from rocketmq_py import Credentials, Message, Producer, TlsOptions, aio

_GROUP = "bench-producer"
_TEXT = bytes(32 + i * 7 % 91 for i in range(1 << 14))


class Security(TypedDict, total=False):
    """Options of a producer for TLS and signing."""

    tls: TlsOptions
    credentials: Credentials


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
    security: Security, namesrv: str, topic: str, payload: bytes, window: int, count: int, warm: int
) -> None:
    async with aio.Producer(group=_GROUP, namesrv=namesrv, **security) as producer:
        await repeat_async(send_window(producer, topic, payload, window), count, warm)


@click.command()
@click.argument("verb", type=click.Choice(["sync", "async"]))
@click.option("--namesrv", required=True)
@click.option("--topic", required=True)
@click.option("--n", default=100_000, help="Messages per run.")
@click.option("--size", default=1024, help="Bytes of body.")
@click.option("--warm", default=0, help="Messages before the first run.")
@click.option("--inflight", default=256)
@click.option("--tls", is_flag=True, help="Over TLS, whatever the certificate.")
@click.option("--acl", metavar="ACCESS:SECRET", help="Sign the requests.")
def main(
    verb: str, namesrv: str, topic: str, n: int, size: int, warm: int, inflight: int, tls: bool, acl: str | None
) -> None:
    """Measure one of our producers."""
    security = Security()
    if tls:
        security["tls"] = TlsOptions(verify=False)
    if acl is not None:
        security["credentials"] = Credentials(*acl.split(":", 1))
    if verb == "async":
        event_loop(_async_session(security, namesrv, topic, body(size), inflight, n, warm))
    else:
        with Producer(group=_GROUP, namesrv=namesrv, **security) as producer:
            repeat(send_one_by_one(producer, topic, body(size)), n, warm)


if __name__ == "__main__":
    main()
