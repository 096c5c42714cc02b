"""Garbage in the commit log of a running cluster: each damaged message costs itself only, and is named once."""

import asyncio
import logging
import random

from rocketmq_py import Admin, Message, Producer
from rocketmq_py.aio import PushConsumer
from rocketmq_py.model import ConsumeFromWhere
from rocketmq_py.testing import Cluster
from tests.server.consuming import Seen, eventually

COUNT, QUEUES, GARBAGE = 2000, 2, 4096


def test_garbage_in_the_log_costs_the_messages_it_hit(caplog):
    with Cluster() as cluster:
        topic = cluster.create_topic("damaged", QUEUES)
        places = {}
        with Producer("sender", cluster.namesrv) as producer, Admin(cluster.namesrv) as admin:
            for queue in admin.queues(topic):
                for number in range(COUNT // QUEUES):
                    producer.send(Message(topic, f"{queue.queue_id}-{number}".encode() * 60), queue=queue)
            for queue in admin.queues(topic):
                for m in admin.read(queue):
                    places[queue.queue_id, m.queue_offset] = (m.commit_log_offset, m.store_size)
        assert len(places) == COUNT
        (log,) = cluster.directory.glob("*/commitlog/*")
        at = places[1, 400][0] + 33
        with log.open("r+b") as file:
            file.seek(at)
            file.write(random.Random(7).randbytes(GARBAGE))
        hit = {place for place, (start, size) in places.items() if start < at + GARBAGE and start + size > at}
        assert 2 <= len(hit) < 40
        caplog.set_level(logging.WARNING)
        asyncio.run(consume(cluster, topic, set(places) - hit, hit))
    told = [r.getMessage() for r in caplog.records if r.getMessage().startswith("group g skips a damaged message")]
    assert len(told) == len(hit)
    for queue_id, offset in hit:
        assert sum(f"queue {queue_id}, offset {offset}:" in line for line in told) == 1


async def consume(cluster, topic, whole, hit):
    seen, damaged = Seen(), []
    consumer = PushConsumer(
        "g", cluster.namesrv, listener=seen, consume_from=ConsumeFromWhere.FIRST_OFFSET, consume_threads=1,
        on_damaged=damaged.append,
    )  # fmt: skip
    consumer.subscribe(topic)
    async with consumer:
        await seen.count(len(whole))
        await eventually(lambda: len(damaged) >= len(hit))
        health = consumer.health()
    assert (health.damaged, health.problems) == (len(hit), [])
    assert {(one.queue.queue_id, one.offset) for one in damaged} == hit
    for queue_id in range(QUEUES):
        offsets = [m.queue_offset for m in seen.messages if m.queue_id == queue_id]
        assert offsets == sorted(offset for queue, offset in whole if queue == queue_id)
    assert all(m.body == f"{m.queue_id}-{m.queue_offset}".encode() * 60 for m in seen.messages)
