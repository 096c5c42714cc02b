"""Failed messages go round the retry ladder into the dead-letter topic, whoever failed them and whoever retries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rocketmq_py import ConsumeFromWhere, ConsumeResult, Message, MessageExt, Producer, PushConsumer
from rocketmq_py.client.consumer.dispatch.listeners import ConsumeContext
from tests.interop.javapeer import JavaPeer, Row
from tests.interop.side import WAIT_SECONDS, Inbox, Seen, Side, group

FIRST = ConsumeFromWhere.FIRST_OFFSET
N = 4


def send(side: Side, topic: str) -> set[str]:
    with Producer(group="p", namesrv=side.namesrv) as producer:
        return {producer.send(Message(topic, b"%d" % i, tags="A", keys=f"k-{i}")).msg_id for i in range(N)}


class Failing(Inbox):
    """A listener that fails every message a number of times, and asks for the shortest delay."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times

    def on_batch(self, messages: list[MessageExt], context: ConsumeContext) -> ConsumeResult:
        [message] = messages
        self(message)
        context.delay_level = 1
        return ConsumeResult.RECONSUME_LATER if message.reconsume_times < self._times else ConsumeResult.SUCCESS


@contextmanager
def consuming(side: Side, topic: str, name: str, listener: Inbox, *, max_reconsume_times: int = 16) -> Iterator[None]:
    with PushConsumer(
        group=name, namesrv=side.namesrv, consume_from=FIRST, max_reconsume_times=max_reconsume_times
    ) as consumer:
        consumer.subscribe(topic, listener=listener.on_batch if isinstance(listener, Failing) else listener)
        consumer.start()
        yield


def retries(rows: list[Row]) -> list[Seen]:
    return [seen for seen in map(Seen.of_java, rows) if seen.reconsume_times > 0]


def assert_is_the_same_message(seen: Seen, topic: str) -> None:
    assert (seen.topic, seen.tags) == (topic, "A")
    assert seen.keys == f"k-{seen.body.decode()}"
    assert seen.properties["RETRY_TOPIC"] == topic
    assert seen.properties["ORIGIN_MESSAGE_ID"]


def test_a_java_consumer_gets_its_failed_message_again(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java)
    ids = send(side, topic)
    rows = java.consume(side.namesrv, topic, group(), 2 * N, fail_times=1, retry_level=1)
    again = retries(rows)
    assert {seen.msg_id for seen in again} == ids
    assert {seen.reconsume_times for seen in again} == {1}
    for seen in again:
        assert_is_the_same_message(seen, topic)


def test_our_consumer_gets_its_failed_message_again(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java)
    java.produce(side.namesrv, topic, N, body="{i}", keys="k-{i}", tags="A")
    inbox = Failing(2)
    with consuming(side, topic, group(), inbox):
        inbox.until(lambda seen: sum(one.reconsume_times == 2 for one in seen) == N)
    assert sorted(seen.reconsume_times for seen in inbox.seen) == [0] * N + [1] * N + [2] * N
    for seen in inbox.seen[N:]:
        if seen.reconsume_times:
            assert_is_the_same_message(seen, topic)


def test_our_consumer_gets_a_message_failed_by_java(java: JavaPeer, side: Side) -> None:
    topic, name = side.topic(java), group()
    ids = send(side, topic)
    with java.consumer(side.namesrv, topic, name, n=N, fail_times=99, retry_level=2) as failing:
        failing.until(lambda row: row["type"] == "done")
        assert failing.wait(WAIT_SECONDS) == 0
    inbox = Inbox()
    with consuming(side, topic, name, inbox):
        inbox.until(lambda seen: len({one.msg_id for one in seen if one.reconsume_times}) == N)
    again = [seen for seen in inbox.seen if seen.reconsume_times]
    assert {seen.msg_id for seen in again} == ids
    for seen in again:
        assert_is_the_same_message(seen, topic)


def test_a_java_consumer_gets_a_message_failed_by_ours(java: JavaPeer, side: Side) -> None:
    topic, name = side.topic(java), group()
    ids = send(side, topic)
    inbox = Failing(99)
    with consuming(side, topic, name, inbox):
        inbox.until(lambda seen: len({one.msg_id for one in seen}) == N)
    with java.consumer(side.namesrv, topic, name) as consumer:
        got: set[str] = set()
        rows = consumer.until(lambda row: len(got.add(row["msgId"]) or got) == N)  # type: ignore[func-returns-value]
    for seen in map(Seen.of_java, rows):
        assert seen.reconsume_times > 0
        assert_is_the_same_message(seen, topic)
    assert got == ids


def test_exhausted_messages_end_in_the_dead_letter_topic(java: JavaPeer, side: Side) -> None:
    topic, of_java, of_us = side.topic(java), group(), group()
    ids = send(side, topic)
    java.consume(side.namesrv, topic, of_java, 2 * N, fail_times=99, retry_level=1, max_reconsume=1)
    inbox = Failing(99)
    with consuming(side, topic, of_us, inbox, max_reconsume_times=1):
        inbox.until(lambda seen: sum(one.reconsume_times == 1 for one in seen) == N)
    for name in (of_java, of_us):
        dead = [Seen.of_java(row) for row in java.consume(side.namesrv, f"%DLQ%{name}", group(), N)]
        assert {seen.msg_id for seen in dead} == ids
        assert {seen.reconsume_times for seen in dead} == {2}
    dead_for_us = Inbox()
    with consuming(side, f"%DLQ%{of_java}", group(), dead_for_us):
        assert {seen.msg_id for seen in dead_for_us.wait(N)} == ids
