"""``python -m benchmarks.kafka_client``: measure confluent-kafka's clients, each run on demand.

The work is that of :mod:`benchmarks.our_client` and :mod:`benchmarks.our_consumer`: a number of sends in flight, each
of which is known to be stored; and a consumer of a new group that reads a backlog.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

import click
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.our_client import body
from benchmarks.stepping import Row, Run, repeat, result, say

_POLL_SECONDS = 0.1
_AT_ONCE = 500
_TIMEOUT_SECONDS = 150.0


class _Window:
    """Counts sends that are not confirmed yet.

    :raises RuntimeError: from :meth:`done`, a message was not stored.
    """

    def __init__(self) -> None:
        self.used = 0

    def done(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise RuntimeError(f"Kafka did not store a message: {error}")
        self.used -= 1


def send_window(producer: Producer, topic: str, payload: bytes, window: int) -> Run:
    """Return a run that keeps ``window`` sends in flight."""

    def run(count: int) -> Row:
        in_flight = _Window()
        begin = time.perf_counter()
        for _ in range(count):
            while in_flight.used >= window:
                producer.poll(_POLL_SECONDS)
            producer.produce(topic, payload, on_delivery=in_flight.done)
            in_flight.used += 1
        while in_flight.used:
            producer.poll(_POLL_SECONDS)
        return result(count, time.perf_counter() - begin)

    return run


def consume(bootstrap: str, topic: str) -> Run:
    """Return a run in which a new consumer reads the backlog of all partitions from their begin, in one thread."""

    def run(count: int) -> Row:
        settings = {"bootstrap.servers": bootstrap, "group.id": f"bench-{uuid.uuid4().hex[:12]}"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        try:
            partitions = consumer.list_topics(topic, _TIMEOUT_SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
            got, begin = 0, 0.0
            deadline = time.perf_counter() + _TIMEOUT_SECONDS
            while got < count and time.perf_counter() < deadline:
                arrived = consumer.consume(_AT_ONCE, _POLL_SECONDS)
                if not got and arrived:
                    begin = time.perf_counter()
                got += len(_whole(arrived))
            return result(got, time.perf_counter() - begin)
        finally:
            consumer.close()

    return run


def _whole(arrived: list[Message]) -> list[Message]:
    """Return the messages.

    :raises RuntimeError: there is an error among them.
    """
    for message in arrived:
        if message.error() is not None:
            raise RuntimeError(f"Kafka did not deliver a message: {message.error()}")
    return arrived


@click.command()
@click.argument("verb", type=click.Choice(["send", "fill", "consume"]))
@click.option("--bootstrap", required=True)
@click.option("--topic", required=True)
@click.option("--n", default=100_000, help="Messages per run.")
@click.option("--size", default=128, help="Bytes of body.")
@click.option("--warm", default=0, help="Messages before the first run.")
@click.option("--inflight", default=256)
@click.option("--linger-ms", default=5.0)
def main(verb: str, bootstrap: str, topic: str, n: int, warm: int, **given: Any) -> None:
    """Measure confluent-kafka's producer or consumer, or store N messages."""
    if verb == "consume":
        repeat(consume(bootstrap, topic), n, warm)
        return
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": given["linger_ms"], "acks": "1"})
    run = send_window(producer, topic, body(given["size"]), given["inflight"])
    if verb == "fill":
        say(run(n))
    else:
        repeat(run, n, warm)


if __name__ == "__main__":
    main()
