"""Messages that join a batch of their topic that is being filled, without the steps of other messages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketmq_py.aio import Producer
from rocketmq_py.errors import ClosedError, MessageIllegal, TooManySends
from rocketmq_py.model import Message
from tests.unit.client.producing import with_producer
from tests.unit.client.scripted import ScriptedNetwork
from tests.unit.client.send.test_batcher import as_broker, many, sent_bodies


def joined(producer: Producer, message: Message) -> asyncio.Future[Any] | None:
    joining = producer.sender.joining
    assert joining is not None
    return joining.add(message)


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0)
async def test_a_message_joins_what_waits_and_has_its_own_result(producer: Producer, network: ScriptedNetwork) -> None:
    messages = many(3)
    assert joined(producer, messages[0]) is None, "no batch waits"
    assert "UNIQ_KEY" not in messages[0].properties
    first, second = producer.send_async(messages[0]), joined(producer, messages[1])
    assert second is not None
    third = producer.send_async(messages[2])
    assert not producer.sender.is_idle
    await producer.flush()
    assert sent_bodies(network) == [[b"0", b"1", b"2"]]
    results = [each.result() for each in (first, second, third)]
    assert [result.queue_offset for result in results] == [0, 1, 2]
    assert [result.msg_id for result in results] == [message.properties["UNIQ_KEY"] for message in messages]
    assert producer.sender.is_idle


@with_producer(as_broker(t={"b": 1}, u={"b": 1}), batch_linger=60.0)
async def test_messages_that_are_not_plain_do_not_join(producer: Producer, network: ScriptedNetwork) -> None:
    sent = producer.send_async(Message("t", b"opens"))
    others = [
        Message("u", b"x"), Message("t", b"x", delay_level=1), Message("t", b"x", delay=1.0),
        Message("t", b"x", wait_store_ok=False), Message("t", b""), Message("t", b"x" * 4096),
        Message("t", b"x", priority=1), Message("t", b"x", properties={"CORRELATION_ID": "1"}),
        Message("t", b"x", properties={"UNIQ_KEY": "mine"}),
    ]  # fmt: skip
    before = [dict(message.properties) for message in others]
    assert [joined(producer, message) for message in others] == [None] * len(others)
    assert [message.properties for message in others] == before
    assert joined(producer, Message("t", b"x" * 4095)) is not None, "the last size that is not compressed"
    with pytest.raises(MessageIllegal):
        producer.send_async(Message("t", b"x", properties={"a": "\x01"}))
    await producer.flush()
    await sent


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0)
async def test_a_message_does_not_join_a_batch_of_another_kind(producer: Producer, network: ScriptedNetwork) -> None:
    sent = producer.send_async(Message("t", b"x", wait_store_ok=False))
    assert joined(producer, Message("t", b"x")) is None
    await producer.flush()
    await sent


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0, batch_max_messages=3)
async def test_the_message_that_fills_a_batch_goes_the_way_of_others(
    producer: Producer, network: ScriptedNetwork
) -> None:
    messages = many(3)
    producer.send_async(messages[0])
    assert joined(producer, messages[1]) is not None
    assert joined(producer, messages[2]) is None
    results = await asyncio.wait_for(producer.send_async(messages[2]), 5.0)
    assert results.queue_offset == 2
    assert producer.sender.is_idle, "what did not join is not counted"
    assert sent_bodies(network) == [[b"0", b"1", b"2"]]


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0, max_pending_sends=2, when_full="raise")
async def test_a_message_beyond_the_limits_does_not_join(producer: Producer, network: ScriptedNetwork) -> None:
    messages = many(3)
    producer.send_async(messages[0])
    assert joined(producer, messages[1]) is not None
    assert joined(producer, messages[2]) is None
    with pytest.raises(TooManySends):
        producer.send_async(messages[2])
    await producer.flush()


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0, max_pending_sends=1)
async def test_a_message_does_not_overtake_those_that_wait_for_room(
    producer: Producer, network: ScriptedNetwork
) -> None:
    sent = [producer.send_async(message) for message in many(3)]
    assert joined(producer, Message("t", b"x")) is None
    await producer.flush()
    assert [each.result().queue_offset for each in sent] == [0, 1, 2]


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0)
async def test_another_event_loop_is_refused_as_ever(producer: Producer, network: ScriptedNetwork) -> None:
    sent = producer.send_async(Message("t", b"x"))

    async def elsewhere() -> None:
        assert joined(producer, Message("t", b"x")) is None
        with pytest.raises(ClosedError, match="event loop"):
            producer.send_async(Message("t", b"x"))

    await asyncio.to_thread(asyncio.run, elsewhere())
    await producer.flush()
    await sent


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0)
async def test_nothing_joins_after_close(producer: Producer, network: ScriptedNetwork) -> None:
    sent = producer.send_async(Message("t", b"x"))
    closing = asyncio.ensure_future(producer.close())
    await asyncio.sleep(0)
    assert producer.sender.joining is None
    with pytest.raises(ClosedError):
        producer.send_async(Message("t", b"late"))
    await asyncio.gather(closing, sent)


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0)
async def test_a_send_with_a_timeout_or_a_queue_of_its_own_does_not_join(
    producer: Producer, network: ScriptedNetwork
) -> None:
    first = producer.send_async(Message("t", b"a"))
    queue = (await producer.queues("t"))[0]
    others = [producer.send_async(Message("t", b"b"), timeout=9.0), producer.send_async(Message("t", b"c"), queue)]
    await producer.flush()
    assert sorted(sent_bodies(network)) == [[b"a"], [b"b"], [b"c"]]
    await asyncio.gather(first, *others)
