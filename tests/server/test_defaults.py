"""Clients exactly as a user makes them, without an option: their shipped timeouts, intervals and limits.

Each test says only what cannot be left out (names, addresses, what is subscribed). A group that is new reads from where
queues end, as shipped, so tests wait for the group to have its queues before they send. A machine that stands still for
longer than the shipped timeouts makes a producer send a message again, so none counts twice.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from rocketmq_py import (
    Admin,
    LitePullConsumer,
    Message,
    OrderlyResult,
    Producer,
    PushConsumer,
    RequestTimeout,
    SimpleConsumer,
    TransactionListener,
    TransactionProducer,
    TransactionState,
    aio,
)
from rocketmq_py.cli import main
from rocketmq_py.testing import Cluster, TcpProxy
from tests.server.consuming import PATIENCE, eventually

pytestmark = pytest.mark.java_timeouts
COUNT = 40


def default(of: Callable[..., Any], parameter: str) -> Any:
    return inspect.signature(of).parameters[parameter].default


class Inbox:
    """A listener that keeps what it gets, and a way to wait until that is enough."""

    def __init__(self, answer: object = None) -> None:
        self._answer = answer
        self._changed = threading.Condition()
        self.messages: list[Any] = []

    def __call__(self, message: Any, *_: object) -> Any:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()
        return self._answer

    def wait(self, count: int) -> list[str]:
        """Different bodies, in the order in which they came first."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self._bodies()) >= count, PATIENCE)
            assert enough, f"{len(self._bodies())} of {count} messages came"
            return self._bodies()

    def _bodies(self) -> list[str]:
        return list(dict.fromkeys(message.body.decode() for message in self.messages))


def send(cluster: Cluster, topic: str, key: str | None = None) -> list[str]:
    """Sends ``COUNT`` messages, in order if they have a sharding key, and gives their bodies."""
    bodies = [f"{i:03}" for i in range(COUNT)]
    with Producer("sender", cluster.namesrv) as producer:
        for body in bodies:
            message = Message(topic, body, sharding_key=key)
            (producer.send_ordered if key else producer.send)(message)
    return bodies


def owned(consumer: PushConsumer | aio.PushConsumer, topic: str) -> int:
    """How many queues of a topic the consumer has; besides, it has those of its retry topic."""
    return sum(queue.topic == topic for queue in consumer.queues)


def wait_for(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_timeouts_are_those_of_java() -> None:
    for producer in (Producer, aio.Producer):
        assert default(producer, "send_timeout") == 3.0
        assert default(producer, "retries") == 2
        assert default(producer.request, "timeout") == 3.0
    for poll in (LitePullConsumer.poll, aio.LitePullConsumer.poll, SimpleConsumer.receive, aio.SimpleConsumer.receive):
        assert default(poll, "timeout") == 5.0


def test_a_producer_and_a_push_consumer_work_with_defaults(cluster: Cluster, topic: str, group: str) -> None:
    inbox = Inbox()
    with PushConsumer(group, cluster.namesrv) as consumer:
        consumer.subscribe(topic, "*", inbox)
        consumer.start()
        wait_for(lambda: owned(consumer, topic) == 4)
        bodies = send(cluster, topic)
        assert sorted(inbox.wait(COUNT)) == bodies
        wait_for(lambda: not any(consumer.lag().values()))


async def test_asyncio_producer_and_push_consumer_work_with_defaults(cluster: Cluster, topic: str, group: str) -> None:
    seen: list[str] = []
    consumer = aio.PushConsumer(group, cluster.namesrv)
    consumer.subscribe(topic, "*", lambda message: seen.append(message.body.decode()))
    async with consumer, aio.Producer("sender", cluster.namesrv) as producer:
        await eventually(lambda: owned(consumer, topic) == 4)
        await asyncio.gather(*[producer.send(Message(topic, f"{i:03}")) for i in range(COUNT)])
        await eventually(lambda: len(set(seen)) >= COUNT)
    assert sorted(set(seen)) == [f"{i:03}" for i in range(COUNT)]


def test_an_orderly_push_consumer_works_with_defaults(cluster: Cluster, topic: str, group: str) -> None:
    inbox = Inbox(OrderlyResult.SUCCESS)
    with PushConsumer(group, cluster.namesrv, orderly=True) as consumer:
        consumer.subscribe(topic, "*", inbox)
        consumer.start()
        wait_for(lambda: owned(consumer, topic) == 4)
        bodies = send(cluster, topic, key="one")
        assert inbox.wait(COUNT) == bodies


def test_a_failed_message_is_redelivered_with_defaults(cluster: Cluster, topic: str, group: str) -> None:
    """The first delay level for retries is ten seconds."""
    times: list[tuple[int, float]] = []
    done = threading.Event()

    def fails_once(message: Any) -> None:
        times.append((message.reconsume_times, time.monotonic()))
        if message.reconsume_times == 0:
            raise ValueError("on purpose")
        done.set()

    with PushConsumer(group, cluster.namesrv) as consumer:
        consumer.subscribe(topic, "*", fails_once)
        consumer.start()
        wait_for(lambda: owned(consumer, topic) == 4 and len(consumer.queues) == 5)  # and that of the retry topic
        with Producer("sender", cluster.namesrv) as producer:
            producer.send(Message(topic, "x"))
        assert done.wait(PATIENCE)
    (first, began), *_, (second, ended) = times
    assert (first, second) == (0, 1)
    assert ended - began >= 9.0


def test_a_lite_pull_consumer_works_with_defaults(cluster: Cluster, topic: str, group: str) -> None:
    with LitePullConsumer(group, cluster.namesrv) as consumer:
        consumer.subscribe(topic)
        consumer.start()
        wait_for(lambda: len(consumer.assignment) == 4)
        assert consumer.poll() == [], "after five seconds without a message"
        bodies = send(cluster, topic)
        seen: set[str] = set()

        def has_all() -> bool:
            seen.update(message.body.decode() for message in consumer.poll())
            return len(seen) >= COUNT

        wait_for(has_all)
        assert sorted(seen) == bodies


def test_a_simple_consumer_works_with_defaults(cluster: Cluster, topic: str, group: str) -> None:
    with SimpleConsumer(group, cluster.namesrv) as consumer:
        consumer.subscribe(topic)
        consumer.start()
        assert consumer.receive() == [], "after five seconds without a message"
        bodies = send(cluster, topic)
        seen: set[str] = set()

        def has_all() -> bool:
            for message in consumer.receive():
                seen.add(message.body.decode())
                consumer.ack(message)
            return len(seen) >= COUNT

        wait_for(has_all)
        assert sorted(seen) == bodies


def test_a_transaction_is_checked_with_defaults(cluster: Cluster, topic: str, group: str) -> None:
    class Undecided(TransactionListener):
        def execute_local_transaction(self, message: Message, arg: object) -> TransactionState:
            return TransactionState.COMMIT

        def check_local_transaction(self, message: Any) -> TransactionState:
            return TransactionState.COMMIT

    inbox = Inbox()
    with PushConsumer(group, cluster.namesrv) as consumer:
        consumer.subscribe(topic, "*", inbox)
        consumer.start()
        wait_for(lambda: owned(consumer, topic) == 4)
        with TransactionProducer("sender-tx", cluster.namesrv, listener=Undecided()) as producer:
            producer.send_in_transaction(Message(topic, "paid"))
        assert inbox.wait(1) == ["paid"]


def test_admin_and_the_command_work_with_defaults(cluster: Cluster, group: str) -> None:
    name = f"made-by-{group}"
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(name, 2)
        wait_for(lambda: name in admin.topics())
    send(cluster, name)
    described = CliRunner().invoke(main, ["topic", "describe", name, "--namesrv", cluster.namesrv, "-o", "json"])
    assert described.exit_code == 0, described.output
    assert json.loads(described.output)["messages"] >= COUNT
    with Admin(cluster.namesrv) as admin:
        admin.delete_topic(name)
        wait_for(lambda: name not in admin.topics())


def test_a_broker_that_is_silent_fails_a_send_after_the_shipped_timeout(cluster: Cluster, topic: str) -> None:
    """One attempt takes all the time: a timeout is for the send, not for each attempt."""
    with TcpProxy(cluster.addresses[0]) as proxy:
        mapped = {cluster.addresses[0]: proxy.address}
        with Producer("sender", cluster.namesrv, address_map=mapped) as producer:
            producer.send(Message(topic, "heard"), timeout=60)
            proxy.silence()
            began = time.monotonic()
            with pytest.raises(RequestTimeout) as failed:
                producer.send(Message(topic, "not heard"))
            assert time.monotonic() - began > 2.5
    assert not getattr(failed.value, "__notes__", []), "tried more than once"
