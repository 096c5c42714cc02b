"""``python -m benchmarks.micro_producer``: measure only our producer, with any broker, for work on the producer itself.

Prints in each round the median and 99th percentile of blocking sends one at a time, and the rate of asyncio sends with
a number of them in flight. ``direct`` is the lower limit: the same frames over a plain socket, without the client.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator

import click

from rocketmq_py import Admin, Message, Producer, aio
from rocketmq_py.core.peer import Peer
from rocketmq_py.core.producer.outgoing_message import Packer, SendHead
from rocketmq_py.remoting.portal import new_event_loop
from rocketmq_py.wire.ids import UniqueKeys


@click.command()
@click.option("--namesrv", required=True)
@click.option("--topic", default="micro")
@click.option("--count", default=20_000, help="Messages of each round.")
@click.option("--warm", default=200_000, help="Messages before the first round.")
@click.option("--size", default=1024, help="Bytes of a body.")
@click.option("--window", default=256, help="Sends under way in the asyncio rounds.")
@click.option("--rounds", default=5)
def main(namesrv: str, topic: str, count: int, warm: int, size: int, window: int, rounds: int) -> None:
    """Measure sends against the cluster of NAMESRV."""
    body = bytes(size)
    with Admin(namesrv) as admin, Producer("micro", namesrv) as producer:
        admin.create_topic(topic, 8)
        address = next(iter(admin.route(topic).brokers.values()))[0]
        _window(namesrv, topic, body, window, max(warm, 1))
        for _ in range(rounds):
            say("direct", _latencies(_direct(address, producer, topic, body), count))
            say("blocking", _latencies(lambda: producer.send(Message(topic, body)), count))
            click.echo(f"window {window:<6}{_window(namesrv, topic, body, window, 4 * count):9.0f}/s")


def say(name: str, took: list[float]) -> None:
    """Print median and 99th percentile of latencies in seconds, and sort them."""
    took.sort()
    p50, p99 = took[len(took) // 2] * 1e6, took[len(took) * 99 // 100] * 1e6
    click.echo(f"{name:<10}p50 {p50:6.1f} µs   p99 {p99:7.1f} µs")


def _latencies(send: Callable[[], object], count: int) -> list[float]:
    def times() -> Iterator[float]:
        for _ in range(count):
            begin = time.perf_counter()
            send()
            yield time.perf_counter() - begin

    return list(times())


def _direct(address: str, producer: Producer, topic: str, body: bytes) -> Callable[[], object]:
    """Return a function that sends a message over a plain socket and reads the answer in the same thread."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    queue = producer.queues(topic)[0]
    head, packer, peer = SendHead("micro", queue, "TBW102", 4), Packer(UniqueKeys(bytes(4), 1, 1)), Peer[None]()

    def send() -> None:
        outgoing = packer.pack(Message(topic, body), time.time_ns() // 1_000_000)
        connection.sendall(outgoing.frame(head, peer.add(None)))
        answers, _ = peer.receive(connection.recv(65536))
        while not answers:
            answers, _ = peer.receive(connection.recv(65536))
        outgoing.result(queue, answers[0][1], address)

    return send


def _window(namesrv: str, topic: str, body: bytes, window: int, count: int) -> float:
    """Send ``count`` messages with asyncio, ``window`` of them in flight; return messages per second."""

    async def run() -> float:
        async with aio.Producer("micro-aio", namesrv) as producer:
            await producer.send(Message(topic, body))
            left = iter(range(count))

            async def sender() -> None:
                for _ in left:
                    await producer.send(Message(topic, body))

            begin = time.perf_counter()
            await asyncio.gather(*(sender() for _ in range(window)))
            return count / (time.perf_counter() - begin)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(run())


if __name__ == "__main__":
    main()
