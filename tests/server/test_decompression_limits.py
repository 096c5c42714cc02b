"""Consumers and compressed bodies: limits, and bodies that are not wanted or not decompressed."""

import asyncio
import functools
import logging
import zlib

import pytest

from rocketmq_py import (
    LitePullConsumer as BlockingLitePull,
    Producer,
    PullConsumer as BlockingPull,
    PushConsumer as BlockingPush,
    SimpleConsumer as BlockingSimple,
)
from rocketmq_py.aio import Admin, LitePullConsumer, Message, PullConsumer, PushConsumer, SimpleConsumer
from rocketmq_py.model import ConsumeFromWhere, MessageQueue
from rocketmq_py.wire.record import COMPRESSED
from tests.server.consuming import PATIENCE, Seen, eventually

FIRST = ConsumeFromWhere.FIRST_OFFSET
BODY, PULL = 100_000, 150_000
LIMITS = {"max_decompressed_body": BODY, "max_decompressed_pull": PULL}
SIZES = [10, 60_000, 60_000, 500_000, 60_000, 60_000, 60_000, 10]
"""Bodies: two of 60,000 bytes fit into one pull, and the one of 500,000 is too large."""
LEGAL = sorted(size for size in SIZES if size <= BODY)
IN_RETRY_TOPIC = "offset 0 "
"""Where the body that is too large lies after the first pop, which had no room for it, made it visible again."""
SKIPPED = SIZES.index(500_000)


pytestmark = pytest.mark.filterwarnings("ignore:PullConsumer is deprecated:DeprecationWarning")


def in_a_loop(test):
    """Runs a test that is a coroutine."""

    @functools.wraps(test)
    def run(**fixtures):
        asyncio.run(test(**fixtures))

    return run


@pytest.fixture
def queue(cluster, group):
    """A queue with messages of all SIZES."""
    topic = cluster.create_topic(f"limits-{group}", 1)
    queue = MessageQueue(topic, "broker-a", 0)
    with Producer("sender", cluster.namesrv) as producer:
        for size in SIZES:
            producer.send(Message(topic, b"x" * size), queue=queue)
    return queue


def skips(caplog):
    """The lines that tell of skipped messages."""
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


def check_told_once(caplog, queue, offset=f"offset {SKIPPED} "):
    (line,) = skips(caplog)
    for part in (queue.topic, "queue 0", offset, f"more than {BODY} bytes"):
        assert part in line


@in_a_loop
async def test_a_push_consumer_skips_a_body_over_the_limit_and_loses_nothing_else(cluster, queue, group, caplog):
    seen = Seen()
    consumer = PushConsumer(group, cluster.namesrv, listener=seen, consume_from=FIRST, **LIMITS)
    consumer.subscribe(queue.topic)
    async with consumer:
        await seen.count(len(LEGAL))
        await eventually(lambda: consumer._group.offsets.get(queue) == len(SIZES))
    assert sorted(len(message.body) for message in seen.messages) == LEGAL
    check_told_once(caplog, queue)


@in_a_loop
async def test_a_popping_push_consumer_does_too(cluster, queue, group, caplog):
    seen = Seen()
    async with Admin(cluster.namesrv) as admin:
        await admin.set_request_mode(group, queue.topic, "POP")
    consumer = PushConsumer(group, cluster.namesrv, listener=seen, consume_from=FIRST, client_rebalance=False, **LIMITS)
    consumer.subscribe(queue.topic)
    async with consumer:
        await seen.count(len(LEGAL))
    assert sorted(len(message.body) for message in seen.messages) == LEGAL
    check_told_once(caplog, queue, IN_RETRY_TOPIC)


@in_a_loop
async def test_a_lite_pull_consumer_does_too(cluster, queue, group, caplog):
    found = []
    async with LitePullConsumer(group, cluster.namesrv, consume_from=FIRST, **LIMITS) as consumer:
        consumer.subscribe(queue.topic)
        while len(found) < len(LEGAL):
            found += await consumer.poll(timeout=PATIENCE)
    assert sorted(len(message.body) for message in found) == LEGAL
    check_told_once(caplog, queue)


@in_a_loop
async def test_a_pull_says_where_the_next_one_begins(cluster, queue, group, caplog):
    pulls = []
    async with PullConsumer(group, cluster.namesrv, **LIMITS) as consumer:
        offset = 0
        while offset < len(SIZES):
            result = await consumer.pull(queue, offset)
            offset = result.next_offset
            pulls.append([message.queue_offset for message in result.messages])
    assert pulls == [[0, 1, 2], [], [4, 5], [6, 7]]  # the body over the limit used up its pull
    check_told_once(caplog, queue)


@in_a_loop
async def test_a_simple_consumer_acks_it_and_gets_the_others(cluster, queue, group, caplog):
    found = []
    async with SimpleConsumer(group, cluster.namesrv, consume_from=FIRST, **LIMITS) as consumer:
        consumer.subscribe(queue.topic)
        while len(found) < len(LEGAL):
            messages = await consumer.receive(timeout=PATIENCE)
            await consumer.ack(messages)
            found += messages
    assert sorted(len(message.body) for message in found) == LEGAL
    check_told_once(caplog, queue, IN_RETRY_TOPIC)


@pytest.mark.parametrize("make", [BlockingPush, BlockingLitePull, BlockingPull, BlockingSimple])
def test_blocking_consumers_have_the_options(make, cluster, group):
    options = {"listener": print} if make is BlockingPush else {}
    with make(group, cluster.namesrv, **LIMITS, **options) as consumer:
        assert consumer._aio._group.options.body_rules.limits == (BODY, PULL)


@in_a_loop
async def test_bodies_may_be_left_out_or_left_compressed(cluster, queue, group):
    async with PullConsumer(group, cluster.namesrv, decode_body=False) as consumer:
        result = await consumer.pull(queue, 0)
        assert [len(message.body) for message in result.messages] == [0] * len(SIZES)
    async with PullConsumer(group, cluster.namesrv, decompress_body=False, **LIMITS) as consumer:
        result = await consumer.pull(queue, 0)
        large = result.messages[SKIPPED]
        assert large.sys_flag & COMPRESSED
        assert zlib.decompress(large.body) == b"x" * 500_000
        assert result.messages[0].body == b"x" * 10
