"""``python -m benchmarks.our_transactions``: our transaction producers, each run on demand.

Measured as :mod:`benchmarks.stepping` says. A run ends when the broker has delivered every message: the end of a
transaction is a request nobody answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import click

from benchmarks.errors import BenchError
from benchmarks.frames import body
from benchmarks.stepping import AsyncRun, Row, Run, event_loop, repeat, repeat_async, result
from rocketmq_py import Admin, Message, MessageExt, TransactionProducer, TransactionState, aio

_GROUP = "bench-transactions"
_LAST_SECONDS = 60.0


def committed(_message: MessageExt) -> TransactionState:
    """Every local transaction was."""
    return TransactionState.COMMIT


def one_by_one(producer: TransactionProducer, admin: Admin, topic: str, payload: bytes) -> Run:
    """The blocking producer: half message, answer, commit, and then the next."""
    clock = time.perf_counter

    def end() -> int:
        return sum(admin.max_offset(queue) for queue in admin.queues(topic))

    def run(count: int) -> Row:
        took, wanted = [], end() + count
        begin = clock()
        for _ in range(count):
            start = clock()
            with producer.transaction(Message(topic, payload)):
                pass
            took.append(clock() - start)
        while end() < wanted:
            if clock() - begin > _LAST_SECONDS * max(1, count / 10_000):
                raise BenchError(f"{wanted - end()} of {count} messages were committed and not delivered")
        return result(count, clock() - begin, took)

    return run


def window(producer: aio.TransactionProducer, end: Callable[[], Awaitable[int]], topic: str, payload: bytes,
           size: int) -> AsyncRun:  # fmt: skip
    """The asyncio producer with ``size`` coroutines, each one transaction after the other."""

    async def run(total: int) -> Row:
        left = iter(range(total))
        wanted = await end() + total

        async def sender() -> None:
            for _ in left:
                async with producer.transaction(Message(topic, payload)):
                    pass

        begin = time.perf_counter()
        await asyncio.gather(*(sender() for _ in range(size)))
        while (reached := await end()) < wanted:
            if time.perf_counter() - begin > _LAST_SECONDS * max(1, total / 10_000):
                raise BenchError(f"{wanted - reached} of {total} messages were committed and not delivered")
        return result(total, time.perf_counter() - begin)

    return run


async def _async_session(namesrv: str, topic: str, payload: bytes, size: int, count: int, warm: int) -> None:
    async with (
        aio.TransactionProducer(_GROUP, namesrv, check=committed) as producer,
        aio.Admin(namesrv) as admin,
    ):

        async def end() -> int:
            return sum(await asyncio.gather(*map(admin.max_offset, await admin.queues(topic))))

        await repeat_async(window(producer, end, topic, payload, size), count, warm)


@click.command()
@click.argument("verb", type=click.Choice(["sync", "async"]))
@click.option("--namesrv", required=True)
@click.option("--topic", required=True)
@click.option("--n", default=20_000, help="Transactions per run.")
@click.option("--size", default=1024, help="Bytes of body.")
@click.option("--warm", default=0, help="Transactions before the first run.")
@click.option("--inflight", default=64)
def main(verb: str, namesrv: str, topic: str, n: int, size: int, warm: int, inflight: int) -> None:
    """Measures one of our transaction producers."""
    if verb == "async":
        event_loop(_async_session(namesrv, topic, body(size), inflight, n, warm))
        return
    with TransactionProducer(_GROUP, namesrv, check=committed) as producer, Admin(namesrv) as admin:
        repeat(one_by_one(producer, admin, topic, body(size)), n, warm)


if __name__ == "__main__":
    main()
