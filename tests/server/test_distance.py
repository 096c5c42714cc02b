"""Clients far from their broker, over connections that are delayed, cut and overtaken: the ledger is exact."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest

from rocketmq_py import Admin, ConsumeFromWhere, LitePullConsumer, Message, MessageExt, Producer, PushConsumer, aio
from rocketmq_py.testing import Cluster, TcpProxy

QUEUES = 4
FIRST = ConsumeFromWhere.FIRST_OFFSET
COUNTS = [
    pytest.param(4000, id="short"),
    pytest.param(200_000, id="long", marks=[pytest.mark.long, pytest.mark.timeout(900)]),
]
DELAYS = (0.01, 0.002, 0.015, 0.0, 0.02)
"""One way, in seconds, in turn: a new connection overtakes what an old one still holds."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


class Weather:
    """Changes the delay of a proxy and cuts its connections until the end of the ``with`` block.

    :param progress: returns how many messages have gone through: connections are cut only after some more have, so that
        work ends on a machine that needs longer for a connection than they last otherwise.
    """

    def __init__(self, cluster: Cluster, progress: Callable[[], int]) -> None:
        self._progress = progress
        self._proxy = TcpProxy(cluster.addresses[0], delay=DELAYS[0])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._change)
        self.mapped: dict[str, str] = {}
        self.cuts = 0
        """How many times the connections were cut."""
        self._address = cluster.addresses[0]

    def __enter__(self) -> Self:
        self._proxy.start()
        self.mapped = {self._address: self._proxy.address}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._proxy.stop()

    def _change(self) -> None:
        number = before = 0
        while not self._over.wait(0.1):
            number += 1
            self._proxy.delay = DELAYS[number % len(DELAYS)]
            if number % 2 == 0 and (now := self._progress()) > before:
                before = now
                self._proxy.kill()
                self.cuts += 1


def fill(cluster: Cluster, topic: str, count: int) -> None:
    """Store messages ``0`` to ``count - 1``, of which every tenth has the tag ``tenth``."""
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(topic, QUEUES)
    with Producer("filler", cluster.namesrv, send_timeout=60) as producer:
        for start in range(0, count, 500):
            messages = [Message(topic, b"%d" % at, tags="tenth" if at % 10 == 0 else "other")
                        for at in range(start, min(start + 500, count))]  # fmt: skip
            producer.send_batch(messages)


class Ledger:
    """What arrived, from any thread."""

    def __init__(self, wanted: set[bytes]) -> None:
        self._wanted = len(wanted)
        self.bodies: Counter[bytes] = Counter()
        self.offsets: dict[int, list[int]] = {queue: [] for queue in range(QUEUES)}
        self.whole = threading.Event()
        self._lock = threading.Lock()

    def add(self, message: MessageExt) -> None:
        with self._lock:
            self.bodies[message.body] += 1
            self.offsets[message.queue_id].append(message.queue_offset)
            if len(self.bodies) >= self._wanted:
                self.whole.set()


def pushed(ledger: Ledger, namesrv: str, topic: str, tags: str, **options: Any) -> None:
    with PushConsumer(f"g-{topic}", namesrv, consume_from=FIRST, pull_delay_after_error=0.05, **options) as consumer:
        consumer.subscribe(topic, tags, ledger.add)
        consumer.start()
        assert ledger.whole.wait(600)


def polled(ledger: Ledger, namesrv: str, topic: str, tags: str, **options: Any) -> None:
    with LitePullConsumer(
        f"g-{topic}", namesrv, consume_from=FIRST, pull_delay_after_error=0.05, pull_threshold_for_all=10**6, **options
    ) as consumer:
        consumer.subscribe(topic, tags)
        while not ledger.whole.is_set():
            for message in consumer.poll():
                ledger.add(message)


MODES: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "concurrent": (pushed, {"pulls_in_flight": "auto"}),
    "orderly": (pushed, {"pulls_in_flight": 8, "orderly": True}),
    "lite": (polled, {"pulls_in_flight": "auto", "pull_batch_size": 32}),
}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("tags", ["*", "tenth"])
@pytest.mark.parametrize("mode", MODES)
def test_pulls_ahead_deliver_each_message_once_and_in_order(cluster: Cluster, mode: str, tags: str, count: int) -> None:
    topic = f"{mode}-{'all' if tags == '*' else tags}-{count}"
    fill(cluster, topic, count)
    wanted = {b"%d" % at for at in range(0, count, 1 if tags == "*" else 10)}
    consume, options = MODES[mode]
    ledger = Ledger(wanted)
    with Weather(cluster, lambda: len(ledger.bodies)) as weather:
        consume(ledger, cluster.namesrv, topic, tags, address_map=weather.mapped, **options)
    assert weather.cuts or count < 100_000
    assert set(ledger.bodies) == wanted
    assert set(ledger.bodies.values()) == {1}
    if mode != "concurrent":
        assert all(offsets == sorted(offsets) for offsets in ledger.offsets.values())


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("linger", [0.005, "natural"])
@pytest.mark.parametrize("ordered", [False, True])
def test_batched_sends_are_stored_where_their_results_say(
    cluster: Cluster, linger: float | str, ordered: bool, count: int
) -> None:
    topic = f"sent-{linger}-{ordered}-{count}".replace(".", "_")
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(topic, QUEUES)
    results: dict[bytes, tuple[int, int]] = {}

    async def sends(producer: aio.Producer, numbers: Iterator[int]) -> None:
        for number in numbers:
            message = Message(topic, b"%d" % number)
            while True:
                try:
                    if ordered:
                        result = await producer.send_ordered(message, number % 7)
                    else:
                        result = await producer.send(message)
                except Exception:  # noqa: BLE001 - the connection was cut: the ledger is about what succeeds
                    continue
                break
            results[message.body] = (result.queue.queue_id, result.queue_offset)

    async def main(mapped: dict[str, str]) -> None:
        async with aio.Producer("p", cluster.namesrv, address_map=mapped, batch_linger=linger) as producer:  # type: ignore[arg-type]
            numbers = iter(range(count))
            await asyncio.gather(*(sends(producer, numbers) for _ in range(max(count // 200, 200))))

    with Weather(cluster, lambda: len(results)) as weather:
        asyncio.run(main(weather.mapped))
    assert weather.cuts or count < 100_000
    stored = read(cluster, topic)
    assert set(stored.values()) == {b"%d" % number for number in range(count)}
    assert all(stored[where] == body for body, where in results.items())
    assert len(results) == count


def read(cluster: Cluster, topic: str) -> dict[tuple[int, int], bytes]:
    """All messages of a topic by queue and offset."""
    with Admin(cluster.namesrv) as admin:
        ends = sum(each.max_offset for each in admin.topic_stats(topic).values())
    found: dict[tuple[int, int], bytes] = {}
    with LitePullConsumer(f"r-{time.time_ns()}", cluster.namesrv, consume_from=FIRST, pull_batch_size=1024) as consumer:
        consumer.subscribe(topic)
        while len(found) < ends:
            found |= {(each.queue_id, each.queue_offset): each.body for each in consumer.poll()}
    return found
