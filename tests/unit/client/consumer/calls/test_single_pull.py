"""Consumers of a log with damaged records: each costs itself only, and is told once."""

import asyncio
import logging
import random
import struct
import warnings

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.calls.single_pull import SinglePulls
from rocketmq_py.client.consumer.filters import make_subscription
from rocketmq_py.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketmq_py.client.consumer.pull.consumer import PullConsumer
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.client.consumer.skipped import SkippedMessages
from rocketmq_py.core.consumer.pull_result import damaged_offsets
from rocketmq_py.errors import BadHeader, ConfigError
from rocketmq_py.model import DamagedMessage, RecordHead
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.protocol.sys_flag import COMPRESSED
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import DEFAULT_RULES, FIXED_SIZE, QUEUE_ID_AT, QUEUE_OFFSET_AT, encode_record
from tests.unit.client.consumer.damaged_broker import (
    GROUP,
    MASTER,
    QUEUE,
    SLAVE,
    TOPIC,
    DamagedBroker,
    Log,
    bounds,
)
from tests.unit.client.scripted import ScriptedNetwork, route_answer

COUNT, PATIENCE = 100, 30.0


def zeros(log):
    log.write(log.entries[40][0] + 50, bytes(log.entries[41][0] - log.entries[40][0]))
    return {40, 41}


def garbage(log):
    at = log.entries[33][0] + 7
    log.write(at, random.Random(5).randbytes(4096))
    return {i for i, (start, size) in enumerate(log.entries) if start < at + 4096 and start + size > at}


def a_bit_of_a_body(log):
    log.flip(17, FIXED_SIZE + 9, 3)
    return {17}


def a_bit_of_a_size(log):
    log.flip(17, 3, 4)
    return {17}


def a_bit_of_a_body_length(log):
    log.flip(17, FIXED_SIZE - 1, 1)
    return {17}


def another_queue(log):
    log.flip(17, QUEUE_ID_AT + 3)
    return {17}


def another_offset(log):
    log.flip(17, QUEUE_OFFSET_AT + 7, 1)
    return {17}


def another_record(log):
    """A consume queue entry that points elsewhere: the message there is delivered at its own offset only."""
    log.entries[17] = log.entries[50]
    return {17}


def cut(log):
    """The answer ends too early."""
    at, size = log.entries[99]
    log.entries[99] = (at, size - 30)
    return {99}


def the_first(log):
    log.write(0, bytes(30))
    return {0}


DAMAGES = [
    zeros, garbage, a_bit_of_a_body, a_bit_of_a_size, a_bit_of_a_body_length, another_queue, another_offset,
    another_record, cut, the_first,
]  # fmt: skip


def in_a_loop(test):
    def run(caplog):
        caplog.set_level(logging.INFO)
        asyncio.run(asyncio.wait_for(test(caplog), PATIENCE))

    run.__name__ = test.__name__
    return run


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class Seen:
    """What a consumer was given, and what it was told is damaged."""

    def __init__(self, expected):
        self.offsets, self.bodies, self.damaged = [], {}, []
        self.expected = expected
        self.done = asyncio.Event()

    async def take(self, message):
        self.add(message)

    def add(self, message):
        self.offsets.append(message.queue_offset)
        self.bodies[message.queue_offset] = message.body
        self._check()

    def on_damaged(self, damaged: DamagedMessage):
        self.damaged.append((damaged.queue, damaged.offset))
        self._check()

    def _check(self):
        if len(self.offsets) + len(self.damaged) >= self.expected:
            self.done.set()

    def check(self, bad, count=COUNT, *, ordered=True):
        assert (self.offsets if ordered else sorted(self.offsets)) == [i for i in range(count) if i not in bad]
        assert self.damaged == [(QUEUE, offset) for offset in sorted(bad)]
        assert all(body == bytes([offset]) * 200 for offset, body in self.bodies.items())


async def push(broker, seen, **options):
    options = {"on_damaged": seen.on_damaged, "consume_threads": 1, "first_pull_delay": 0.0} | options
    consumer = PushConsumer(GROUP, instance=broker.instance, **options)
    consumer.subscribe(TOPIC, listener=seen.take)
    try:
        async with consumer:
            await seen.done.wait()
            return consumer.health()
    finally:
        await broker.instance.stop()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_push_consumer_loses_what_is_damaged_and_nothing_else(damage, caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        bad = damage(log)
        seen = Seen(COUNT)
        broker = DamagedBroker(log)
        health = await push(broker, seen)
        seen.check(bad)
        assert health.damaged == len(bad)
        told = warnings_of(caplog)
        assert len(told) == len(bad)
        for line, offset in zip(told, sorted(bad), strict=True):
            assert f"topic T, broker b, queue 0, offset {offset}:" in line
        assert len(broker.pulls()) <= 10 + 4 * len(bad)

    run(caplog)


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_the_slave_has_whole_is_not_lost(damage, caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        damage(log)
        seen = Seen(COUNT)
        broker = DamagedBroker(log, Log(COUNT))
        health = await push(broker, seen)
        seen.check(set())
        assert (health.damaged, warnings_of(caplog)) == (0, [])
        assert {count for _, count in broker.pulls(SLAVE)} == {1}

    run(caplog)


def test_what_the_slave_has_damaged_too_is_told_once(caplog):
    @in_a_loop
    async def run(caplog):
        log, slave = Log(COUNT), Log(COUNT)
        bad = garbage(log) & zeros(slave)
        assert 0 < len(bad) < 15
        seen = Seen(COUNT)
        await push(DamagedBroker(log, slave), seen)
        seen.check(bad)

    run(caplog)


def test_what_a_slave_refuses_to_show_is_told_with_its_reason(caplog):
    @in_a_loop
    async def run(caplog):
        caplog.set_level(logging.INFO)
        log = Log(COUNT)
        bad = a_bit_of_a_body(log)
        seen, broker = Seen(COUNT), DamagedBroker(log, Log(COUNT))
        pull = broker._pull
        refused = Command(ResponseCode.NO_PERMISSION, remark="not allowed here")
        broker._pull = lambda where, request: refused if where == SLAVE else pull(where, request)
        await push(broker, seen)
        seen.check(bad)
        assert f"offset 17 of {QUEUE} could not be read from {SLAVE} either: " in caplog.text
        assert "not allowed here" in caplog.text

    run(caplog)


def test_an_orderly_consumer_goes_on_behind_damage(caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        bad = garbage(log)
        seen = Seen(COUNT)
        await push(DamagedBroker(log), seen, orderly=True)
        seen.check(bad)

    run(caplog)


def test_without_the_check_a_body_is_what_the_broker_sends(caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        a_bit_of_a_body(log)
        seen = Seen(COUNT)
        health = await push(DamagedBroker(log), seen, check_crc=False)
        assert (seen.offsets, health.damaged) == ([*range(COUNT)], 0)
        assert seen.bodies[17] != bytes([17]) * 200

    run(caplog)


def test_messages_that_the_broker_leaves_out_are_asked_of_the_slave(caplog):
    @in_a_loop
    async def run(caplog):
        slave = Log(COUNT)
        slave.flip(21, FIXED_SIZE)
        seen = Seen(COUNT)
        broker = DamagedBroker(Log(COUNT), slave)
        broker.left_out = {0, 20, 21, 99}
        await push(broker, seen)
        seen.check({21})
        assert "its broker found it damaged" in warnings_of(caplog)[0]

    run(caplog)


def test_a_callback_that_fails_stops_nothing(caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        a_bit_of_a_body(log)
        seen = Seen(COUNT - 1)

        def fail(_):
            raise ValueError("no")

        await push(DamagedBroker(log), seen, on_damaged=fail)
        assert seen.offsets == [i for i in range(COUNT) if i != 17]
        assert f"on_damaged failed for offset 17 of {QUEUE}" in caplog.text

    run(caplog)


def test_a_damage_at_the_end_is_committed(caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        bad = cut(log)
        seen = Seen(COUNT)
        broker = DamagedBroker(log)
        consumer = PushConsumer(GROUP, instance=broker.instance, on_damaged=seen.on_damaged, consume_threads=1)
        consumer.subscribe(TOPIC, listener=seen.take)
        try:
            async with consumer:
                await seen.done.wait()
                while consumer._group.offsets.get(QUEUE) != COUNT:
                    broker.network.asked.clear()
                    await broker.network.asked.wait()
        finally:
            await broker.instance.stop()
        seen.check(bad)

    run(caplog)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lite_pull_consumer(damage, caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        bad = damage(log)
        seen = Seen(COUNT)
        broker = DamagedBroker(log)
        consumer = LitePullConsumer(GROUP, instance=broker.instance, on_damaged=seen.on_damaged)
        consumer.assign([QUEUE])
        try:
            async with consumer:
                while not seen.done.is_set():
                    for message in await consumer.poll(timeout=0.05):
                        seen.add(message)
                assert consumer.health().damaged == len(bad)
        finally:
            await broker.instance.stop()
        seen.check(bad)

    run(caplog)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_pull_consumer(damage, caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        bad = damage(log)
        seen = Seen(COUNT)
        broker = DamagedBroker(log)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            consumer = PullConsumer(GROUP, instance=broker.instance, on_damaged=seen.on_damaged)
        offset = 0
        try:
            async with consumer:
                await consumer.queues(TOPIC)
                while offset < COUNT:
                    result = await consumer.pull(QUEUE, offset)
                    assert result.next_offset > offset
                    offset = result.next_offset
                    for message in result.messages:
                        seen.add(message)
        finally:
            await broker.instance.stop()
        seen.check(bad)

    run(caplog)


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("damage", [zeros, a_bit_of_a_body, a_bit_of_a_size, garbage, the_first])
def test_a_push_consumer_in_pop_mode_is_told_and_acks_what_is_damaged(damage, orderly, caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        bad = damage(log)
        seen = Seen(COUNT)
        broker = DamagedBroker(log)
        health = await push(broker, seen, client_rebalance=False, orderly=orderly)
        seen.check(bad)
        assert health.damaged == len(bad) == len([line for line in warnings_of(caplog) if "skips a damaged" in line])
        assert broker.popped
        assert bad <= set(broker.acked)

    run(caplog)


@pytest.mark.parametrize("damage", [zeros, a_bit_of_a_size])
def test_an_iteration_over_messages_goes_on_behind_damage(damage, caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        bad = damage(log)
        seen = Seen(COUNT)
        broker = DamagedBroker(log)
        consumer = LitePullConsumer(GROUP, instance=broker.instance, on_damaged=seen.on_damaged)
        consumer.assign([QUEUE])
        try:
            async with consumer:
                async for message in consumer:
                    seen.add(message)
                    if len(seen.offsets) == COUNT - len(bad):
                        break
                assert consumer.health().damaged == len(bad)
        finally:
            await broker.instance.stop()
        seen.check(bad)

    run(caplog)


@pytest.mark.parametrize("slave", [False, True])
@pytest.mark.parametrize("damage", [zeros, a_bit_of_a_body, a_bit_of_a_size, garbage, the_first])
def test_a_simple_consumer_gets_what_is_whole_and_acks_what_is_not(damage, slave, caplog):
    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        bad = damage(log) if not slave else damage(log) and set()
        seen = Seen(COUNT)
        broker = DamagedBroker(log, Log(COUNT) if slave else None)
        consumer = SimpleConsumer(GROUP, instance=broker.instance, on_damaged=seen.on_damaged)
        consumer.subscribe(TOPIC)
        try:
            async with consumer:
                while len(seen.offsets) + len(seen.damaged) < COUNT:
                    for message in await consumer.receive(32, timeout=5):
                        seen.add(message)
                assert consumer.health().damaged == len(bad)
        finally:
            await broker.instance.stop()
        seen.check(bad)
        assert len(warnings_of(caplog)) == len(bad)
        assert MASTER in {where for where, _ in broker.network.requests}

    run(caplog)


def test_a_malformed_list_of_damaged_messages_is_an_error_of_the_broker():
    def header(damaged):
        return PullResponse(suggest_which_broker_id=0, next_begin_offset=9, min_offset=0, max_offset=9, damaged=damaged)

    assert damaged_offsets(header("7,3,12,1"), 2) == [3, 7]
    with pytest.raises(BadHeader, match="damaged='x'"):
        damaged_offsets(header("x"), 0)


def test_on_damaged_must_be_a_function():
    with pytest.raises(ConfigError, match="on_damaged=3 must be a function"):
        PushConsumer(GROUP, "ns:1", on_damaged=3)


def test_a_size_that_leads_into_a_body_is_no_record(caplog):
    """A body may contain a record: it is not of the offset that was asked for."""

    @in_a_loop
    async def run(caplog):
        log = Log(COUNT)
        at, size = log.entries[17]
        forged = log.slices(3, 1)
        log.data[at + FIXED_SIZE - 4 : at + size] = struct.pack(">i", 200) + (forged * 2)[: size - FIXED_SIZE]
        log.write(at, struct.pack(">i", FIXED_SIZE))
        seen = Seen(COUNT)
        await push(DamagedBroker(log), seen)
        seen.check({17})

    run(caplog)


class OneAnswer:
    """A broker that answers each pull with the same bytes and header."""

    def __init__(self, body, **ext):
        self.network = ScriptedNetwork(self.answer)
        self.body, self.ext = body, bounds(8, COUNT) | ext
        self.instance = ClientInstance("ns:1")
        self.network.carry(self.instance.connections)
        self.skipped = []

    def answer(self, address, request):
        if request.code == Code.GET_ROUTEINFO_BY_TOPIC:
            return route_answer({"b": 1})
        return Command(0, ext=self.ext, body=self.body)

    async def pull(self, offset):
        await self.instance.routes.get(TOPIC)
        told = SkippedMessages(GROUP, lambda message: self.skipped.append(message.offset))
        calls = SinglePulls(self.instance, GROUP, DEFAULT_RULES._replace(check_crc=True), told)
        try:
            return await calls.pull(QUEUE, offset, make_subscription(TOPIC, "*", None, 0))
        finally:
            await self.instance.stop()


async def test_the_damaged_message_is_the_one_that_the_broker_names_or_the_one_before_the_next_offset():
    """A filter may have skipped messages between the offset of the pull and the damaged message."""
    log = Log(COUNT)
    log.flip(7, FIXED_SIZE)
    for broker, skipped in ((OneAnswer(b"", damaged="5"), 5), (OneAnswer(log.slices(7, 1)), 7)):
        pulled = await broker.pull(3)
        assert (pulled.messages, pulled.next_offset, broker.skipped) == ([], skipped + 1, [skipped])


async def test_a_poll_that_waits_gets_a_message_that_was_pulled_alone():
    log = Log(3)
    log.flip(0, FIXED_SIZE)
    broker = DamagedBroker(log)
    consumer = LitePullConsumer(GROUP, instance=broker.instance)
    consumer.assign([QUEUE])
    try:
        async with consumer:
            began, found = asyncio.get_running_loop().time(), []
            while len(found) < 2:
                found += [message.queue_offset for message in await consumer.poll(timeout=100)]
            assert found == [1, 2]
            assert asyncio.get_running_loop().time() - began < 5
    finally:
        await broker.instance.stop()


def one_that_cannot_be_decompressed():
    log = Log(3)
    head = RecordHead(0, 0, 0, 0, 0, 1, 77, COMPRESSED, 1, bytes(8), 2, bytes(8), 0, 0, 0)
    record = encode_record(head, TOPIC, b"no deflate", b"")
    log.entries[1] = (len(log.data), len(record))
    log.data += record
    return DamagedBroker(log)


async def test_each_kind_of_consumer_tells_of_messages_that_cannot_be_decompressed():
    async def pushed(seen, broker):
        await push(broker, seen)

    async def lite(seen, broker):
        consumer = LitePullConsumer(GROUP, instance=broker.instance, on_damaged=seen.on_damaged)
        consumer.assign([QUEUE])
        async with consumer:
            while not seen.done.is_set():
                for message in await consumer.poll(timeout=0.05):
                    seen.add(message)

    async def by_hand(seen, broker):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            consumer = PullConsumer(GROUP, instance=broker.instance, on_damaged=seen.on_damaged)
        async with consumer:
            for message in (await consumer.pull(QUEUE, 0)).messages:
                seen.add(message)

    async def simple(seen, broker):
        consumer = SimpleConsumer(GROUP, instance=broker.instance, on_damaged=seen.on_damaged)
        consumer.subscribe(TOPIC)
        async with consumer:
            for message in await consumer.receive(timeout=0):
                seen.add(message)

    for consume in (pushed, lite, by_hand, simple):
        seen, broker = Seen(3), one_that_cannot_be_decompressed()
        await consume(seen, broker)
        await broker.instance.stop()
        assert (sorted(seen.offsets), seen.damaged) == ([0, 2], [(QUEUE, 1)]), consume
