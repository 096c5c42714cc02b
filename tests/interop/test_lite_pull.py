"""Lite pull crosswise: our consumer on a Java broker and on ours, Java's on ours and on its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from rocketmq_py import (
    Admin,
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    MessageQueue,
    OffsetIllegal,
    Producer,
    PushConsumer,
    aio,
)
from tests.interop.javapeer import JavaPeer
from tests.interop.side import WAIT_SECONDS, Seen, Side, eventually, group

FIRST = ConsumeFromWhere.FIRST_OFFSET
COUNT = 20


def send(side: Side, topic: str, count: int = COUNT, tags: str | None = "a") -> list[tuple[MessageQueue, int]]:
    with Producer(group="p", namesrv=side.namesrv) as producer:
        results = [producer.send(Message(topic, b"%03d" % i, tags=tags)) for i in range(count)]
    return [(result.queue, result.queue_offset) for result in results]


def polled(member: LitePullConsumer, count: int) -> list[Seen]:
    found: list[Seen] = []
    while len(found) < count:
        messages = member.poll(WAIT_SECONDS)
        assert messages, found
        found += map(Seen.of_ours, messages)
    return found


def committed(side: Side, name: str, topic: str) -> int:
    with Admin(side.namesrv) as admin:
        return sum(admin.group_offsets(name, topic).values())


def test_a_java_consumer_continues_at_our_offsets(java: JavaPeer, side: Side) -> None:
    topic, name = side.topic(java), group()
    send(side, topic, tags="other")
    send(side, topic)
    with LitePullConsumer(name, side.namesrv, consume_from=FIRST) as member:
        member.subscribe(topic, "a || b")
        found = polled(member, COUNT)
    assert sorted(seen.body for seen in found) == [b"%03d" % i for i in range(COUNT)]
    assert {seen.tags for seen in found} == {"a"}
    eventually(lambda: committed(side, name, topic), lambda stored: stored == 2 * COUNT)
    later = send(side, topic, 4)
    rows = java.consume(side.namesrv, topic, name, 4, mode="lite", sub="a")
    assert {(row["queueId"], row["queueOffset"]) for row in rows} == {(queue.queue_id, at) for queue, at in later}


def test_our_consumer_assigns_seeks_and_commits(java: JavaPeer, side: Side) -> None:
    topic, name = side.topic(java, 2), group()
    send(side, topic)
    with LitePullConsumer(name, side.namesrv, consume_from=FIRST, auto_commit=False) as member:
        queue = member.queues(topic)[1]
        member.assign([queue])
        polled(member, COUNT // 2)
        member.seek(queue, 7)
        assert [message.offset for message in polled(member, 3)] == [7, 8, 9]
        assert member.offset_for_timestamp(queue, 0) == 0
        with pytest.raises(OffsetIllegal, match="ends at 10"):
            member.seek(queue, 11)
        member.seek_to_begin(queue)
        assert polled(member, 1)[0].offset == 0
        assert committed(side, name, topic) == 0
        member.commit({queue: 6})
        assert committed(side, name, topic) == 6
        member.seek_to_end(queue)
        member.commit()
    eventually(lambda: committed(side, name, topic), lambda stored: stored == 10)


@pytest.mark.parametrize("assign", [False, True])
def test_our_consumer_continues_at_java_offsets(java: JavaPeer, side: Side, assign: bool) -> None:
    topic, name = side.topic(java), group()
    sent = send(side, topic)
    rows = java.consume(side.namesrv, topic, name, COUNT, mode="lite", assign=assign, manual_commit=True)
    assert {(row["queueId"], row["queueOffset"]) for row in rows} == {(queue.queue_id, at) for queue, at in sent}
    eventually(lambda: committed(side, name, topic), lambda stored: stored == COUNT)
    later = send(side, topic, 4)
    with LitePullConsumer(name, side.namesrv, consume_from=FIRST) as member:
        member.assign(member.queues(topic))
        found = polled(member, 4)
    assert {(seen.queue, seen.offset) for seen in found} == {(queue.queue_id, at) for queue, at in later}


def test_applications_can_query_and_control_the_consumer(java: JavaPeer, side: Side) -> None:
    """Pausing, automatic commits, committed offsets, a listener for queues that come."""
    topic, name, grown = side.topic(java, 2), group(), threading.Event()
    send(side, topic, 6)
    with LitePullConsumer(
        name, side.namesrv, consume_from=FIRST, auto_commit_interval=1.0, metadata_check_interval=0.2, pull_batch_size=1
    ) as member:
        first, second = queues = member.queues(topic)

        def changed(topic: str, found: list[MessageQueue]) -> None:
            member.assign(found)
            grown.set()

        member.on_queues_changed(topic, changed)
        member.assign(queues)
        assert member.committed(first) in (None, 0)
        member.pause(queues)
        assert member.paused == queues
        member.resume(queues)
        assert len(polled(member, 6)) == 6
        eventually(
            lambda: (member.poll(0.05), member.committed(first), member.committed(second)),
            lambda found: found[1:] == (3, 3),
        )
        assert member.lag() == {first: 0, second: 0}
        member.pause([first])
        end = member.offset_for_timestamp(first, 2**42)
        assert end == 3, "there is nothing that late"
        with Admin(side.namesrv) as admin:
            admin.create_topic(topic, 3)
        assert grown.wait(WAIT_SECONDS)
        assert len(member.assignment) == 3
        with Producer(group="p", namesrv=side.namesrv) as producer:
            producer.send(Message(topic, b"new"), queue=MessageQueue(topic, "broker-a", 2))
        assert [seen.body for seen in polled(member, 1)] == [b"new"]


def test_an_asyncio_loop_iterates_over_messages(java: JavaPeer, side: Side) -> None:
    topic, name = side.topic(java), group()
    sent = send(side, topic)

    async def read() -> set[tuple[MessageQueue, int]]:
        found: set[tuple[MessageQueue, int]] = set()
        async with aio.LitePullConsumer(name, side.namesrv, consume_from=FIRST) as member:
            member.subscribe(topic)
            async for message in member:
                found.add((message.queue, message.queue_offset))
                if len(found) == COUNT:
                    break
        return found

    assert asyncio.run(asyncio.wait_for(read(), WAIT_SECONDS)) == set(sent)
    eventually(lambda: committed(side, name, topic), lambda stored: stored == COUNT)


def test_mqadmin_shows_a_consumer_and_its_stacks(java: JavaPeer, side: Side) -> None:
    topic, name, here, go = side.topic(java), group(), threading.Event(), threading.Event()

    def stands_here(message: object) -> None:
        here.set()
        assert go.wait(WAIT_SECONDS)

    send(side, topic, 1)
    with PushConsumer(name, side.namesrv, listener=stands_here, consume_from=FIRST) as member:
        member.subscribe(topic)
        member.start()
        assert here.wait(WAIT_SECONDS)
        text = java.admin("consumerStatus", "-n", side.namesrv, "-g", name, "-i", member.client_id, "-s")
        go.set()
    assert topic in text
    assert "stands_here" in text
