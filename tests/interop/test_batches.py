"""Batches that our producer makes of single sends: what consumers of both sides see, and results, on both brokers."""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from rocketmq_py import Admin, Message, MessageQueue, Producer, SendResult, aio
from tests.interop.javapeer import JavaPeer
from tests.interop.side import Seen, Side, group

COUNT = 200


def messages(topic: str) -> list[Message]:
    """Messages of all sizes; every tenth is compressed, with the same body as others when it is not."""
    return [
        Message(topic, b"%d-" % number + b"x" * (5000 if number % 10 == 0 else number), f"tag{number % 3}",
                keys=f"k{number}", sharding_key=str(number % 5), properties={"number": str(number), "é": "中"})
        for number in range(COUNT)
    ]  # fmt: skip


async def _send(namesrv: str, sent: list[Message], linger: object, ordered: bool) -> list[SendResult]:
    async with aio.Producer(group(), namesrv, batch_linger=linger) as producer:  # type: ignore[arg-type]
        await producer.queues(sent[0].topic)
        if ordered:
            return await asyncio.gather(*map(producer.send_ordered, sent))
        return await asyncio.gather(*map(producer.send, sent))


@pytest.mark.parametrize("linger", [0.02, "natural"])
@pytest.mark.parametrize("ordered", [False, True])
def test_java_consumes_each_message_where_its_result_says(
    java: JavaPeer, side: Side, linger: object, ordered: bool
) -> None:
    topic = side.topic(java)
    sent = messages(topic)
    results = asyncio.run(_send(side.namesrv, sent, linger, ordered))
    seen = [Seen.of_java(row) for row in java.consume(side.namesrv, topic, group(), COUNT, mode="lite")]
    where = {(one.queue, one.offset): one for one in seen}
    assert len(where) == COUNT
    for message, result in zip(sent, results, strict=True):
        found = where[result.queue.queue_id, result.queue_offset]
        assert (found.body, found.msg_id, found.tags, found.keys) == (
            message.body, result.msg_id, message.tags, message.properties["KEYS"],
        )  # fmt: skip
        assert (found.properties["number"], found.properties["é"]) == (message.properties["number"], "中")
        assert found.topic == topic
    if ordered:
        for key in map(str, range(5)):
            offsets = [r.queue_offset for m, r in zip(sent, results, strict=True) if m.sharding_key == key]
            assert offsets == sorted(offsets)
            assert len({r.queue for m, r in zip(sent, results, strict=True) if m.sharding_key == key}) == 1
    else:
        sizes = [sum(r.queue.queue_id == queue for r in results) for queue in range(4)]
        assert max(sizes) > 1  # they were batches


def test_brokers_find_messages_by_the_ids_of_results(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java)
    sent = messages(topic)[:20]
    results = asyncio.run(_send(side.namesrv, sent, 0.02, ordered=False))
    with Admin(side.namesrv) as admin:
        for message, result in zip(sent, results, strict=True):
            found = admin.message(result.offset_msg_id)
            assert (found.body, found.queue_offset, found.queue_id) == (
                message.body, result.queue_offset, result.queue.queue_id,
            )  # fmt: skip


def test_threads_that_send_one_by_one_share_batches(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java, queues=1)
    sent = messages(topic)
    with Producer(group(), side.namesrv, batch_linger="natural") as producer, ThreadPoolExecutor(20) as threads:
        results = list(threads.map(producer.send, sent))
    assert sorted(result.queue_offset for result in results) == list(range(COUNT))
    seen = {row["queueOffset"]: Seen.of_java(row) for row in java.consume(
        side.namesrv, topic, group(), COUNT, mode="lite")}  # fmt: skip
    assert all(seen[result.queue_offset].body == message.body for message, result in zip(sent, results, strict=True))


def test_a_topic_with_batch_queues_stores_a_batch_in_one_record(java: JavaPeer, side: Side) -> None:
    topic = f"t-{uuid.uuid4().hex[:12]}"
    where = ("-n", side.namesrv, "-b", side.broker, "-t", topic, "-r", "1", "-w", "1")
    java.admin("updateTopic", *where, "-a", "+queue.type=BatchCQ")
    side.await_route(topic)
    sent = [Message(topic, b"%d" % number, tags="a") for number in range(12)]
    queue = MessageQueue(topic, "broker-a", 0)

    async def send() -> list[SendResult]:
        async with aio.Producer(group(), side.namesrv, batch_linger=0.02) as producer:
            return await asyncio.gather(*(producer.send_async(message, queue) for message in sent))

    results = asyncio.run(send())
    assert [result.queue_offset for result in results] == list(range(12))
    assert len({result.offset_msg_id for result in results}) == 1
    rows = java.consume(side.namesrv, topic, group(), 12, mode="lite")
    assert {row["queueOffset"]: Seen.of_java(row).body for row in rows} == {
        result.queue_offset: message.body for message, result in zip(sent, results, strict=True)
    }
