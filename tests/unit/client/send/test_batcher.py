"""Messages that are sent one by one and leave in batches."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.aio import Producer
from rocketmq_py.client.hooks.hooks import SendHook, Sending
from rocketmq_py.client.send import batcher
from rocketmq_py.core.producer.send_attempts import SendAttempts
from rocketmq_py.errors import BrokerError, ClosedError, ConfigError, MessageIllegal, RequestTimeout, TooManySends
from rocketmq_py.model import Message, MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.command import Command
from tests.unit.client.producing import run_producer, with_producer
from tests.unit.client.scripted import Answerer, ScriptedNetwork, cluster, stored

ZLIB = "769"
"""The sysFlag of a body compressed with zlib."""
BATCH, SINGLE = RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2


def bodies(request: Command) -> list[bytes]:
    """The bodies of a send request, whether a batch or not."""
    return [body for _, body, _ in decode_batch(request.body)] if request.code == BATCH else [bytes(request.body)]


def as_broker(topics: dict[str, dict[str, int]] | None = None, **more: dict[str, int]) -> Answerer:
    """As ``cluster``, and numbers what is stored as brokers do: an id for each message of a batch."""
    healthy, ends = cluster(topics, **more), dict[Any, int]()

    def answer(address: str, request: Command) -> Command | None:
        if request.code not in (BATCH, SINGLE):
            return healthy(address, request)
        queue, count = (request.ext["b"], request.ext["e"]), len(bodies(request))
        first = ends.get(queue, 0)
        ends[queue] = first + count
        ids = ",".join(f"{request.ext['e']}-{first + each}" for each in range(count))
        return Command(0, ext={"msgId": ids, "queueId": request.ext["e"], "queueOffset": str(first)})

    return answer


def sent_bodies(network: ScriptedNetwork) -> list[list[bytes]]:
    return [bodies(request) for _, request in network.sent()]


def many(count: int, **options: Any) -> list[Message]:
    return [Message("t", b"%d" % number, **options) for number in range(count)]


@with_producer(as_broker(t={"b": 1}), batch_linger=0.01)
async def test_messages_of_one_batch_have_their_own_results(producer: Producer, network: ScriptedNetwork) -> None:
    messages = many(3)
    results = await asyncio.gather(*map(producer.send, messages))
    assert sent_bodies(network) == [[b"0", b"1", b"2"]]
    assert [result.queue_offset for result in results] == [0, 1, 2]
    assert [result.offset_msg_id for result in results] == ["0-0", "0-1", "0-2"]
    assert [result.msg_id for result in results] == [message.properties["UNIQ_KEY"] for message in messages]
    assert {result.queue for result in results} == {MessageQueue("t", "b", 0)}


@with_producer(as_broker(t={"b": 1}), batch_linger=0.01)
async def test_a_single_message_leaves_as_a_plain_send(producer: Producer, network: ScriptedNetwork) -> None:
    result = await producer.send(Message("t", b"x" * 5000, "tag", flag=7))
    ((_, request),) = network.sent()
    assert request.code == SINGLE
    assert request.ext["h"] == "7"
    assert request.ext["f"] == ZLIB
    assert "TAGS\x01tag\x02" in request.ext["i"]
    assert result.queue_offset == 0


@with_producer(as_broker(t={"b": 1}), batch_linger=0.01)
async def test_a_message_is_sent_as_it_was_when_it_was_handed_over(
    producer: Producer, network: ScriptedNetwork
) -> None:
    message = Message("t", b"before")
    first = producer.send_async(message)
    message.body = b"after"
    second = producer.send_async(message)
    await asyncio.gather(first, second)
    assert sent_bodies(network) == [[b"before", b"after"]]


@with_producer(as_broker(t={"b": 4}), batch_linger=0.01)
async def test_what_cannot_be_batched_goes_alone_and_overtakes_nothing(
    producer: Producer, network: ScriptedNetwork
) -> None:
    queue = MessageQueue("t", "b", 2)
    messages = [
        Message("t", b"a"), Message("t", b"delayed", delay=1.0), Message("t", b"b"),
        Message("t", b"level", delay_level=1),
        Message("t", b"no wait", wait_store_ok=False), Message("t", b"large" * 10_000), Message("t", b"c"),
        Message("t", b"important", priority=1), Message("t", b"request", properties={"CORRELATION_ID": "1"}),
    ]  # fmt: skip
    producer.send_async(messages[0], queue)
    await asyncio.gather(*(producer.send_async(message, queue) for message in messages[1:]))
    assert [len(each) for each in sent_bodies(network)] == [1] * 9
    assert [request.ext["e"] for _, request in network.sent()] == ["2"] * 9
    got = [each for group in sent_bodies(network) for each in group]
    assert [got[0], *got[1:5], *got[6:]] == [m.body for m in (*messages[:5], *messages[6:])]


@with_producer(as_broker(t={"b": 4}), batch_linger=0.01)
async def test_an_explicit_batch_does_not_overtake(producer: Producer, network: ScriptedNetwork) -> None:
    queue = MessageQueue("t", "b", 2)
    before = producer.send_async(Message("t", b"a"), queue)
    result = await producer.send_batch([Message("t", b"b"), Message("t", b"c")], queue)
    await before
    assert sent_bodies(network) == [[b"a"], [b"b", b"c"]]
    assert result.queue_offset == 1


@with_producer(as_broker(t={"b": 4}), batch_linger=10.0)
async def test_a_one_way_send_takes_waiting_messages_with_it(producer: Producer, network: ScriptedNetwork) -> None:
    await producer.send_oneway(Message("t", b"opens the connection"))
    waiting = producer.send_async(Message("t", b"a"))
    await producer.send_oneway(Message("t", b"b"))
    await waiting
    assert sent_bodies(network)[1:] == [[b"a"], [b"b"]]


@with_producer(as_broker(t={"b": 4}), batch_linger=0.01)
async def test_messages_with_one_sharding_key_stay_in_order(producer: Producer, network: ScriptedNetwork) -> None:
    await producer.queues("t")
    await asyncio.gather(
        *(producer.send_ordered(Message("t", b"%d-%d" % (number % 3, number)), number % 3) for number in range(30))
    )
    for _, request in network.sent():
        (key,) = {body[:1] for body in bodies(request)}
        assert request.ext["e"] == key.decode()
        numbers = [int(body[2:]) for body in bodies(request)]
        assert numbers == sorted(numbers)
    assert len(network.sent()) == 3


def refusing(limit: bytes, code: int) -> Answerer:
    """A broker that refuses requests with ``limit`` in a body."""
    healthy = as_broker(t={"b": 1})

    def answer(address: str, request: Command) -> Command | None:
        if request.code in (BATCH, SINGLE) and limit in request.body:
            return Command(code, remark="no")
        return healthy(address, request)

    return answer


@with_producer(refusing(b"bad", ResponseCode.MESSAGE_ILLEGAL), batch_linger=0.01)
async def test_an_illegal_message_costs_the_others_of_its_batch_nothing(
    producer: Producer, network: ScriptedNetwork
) -> None:
    queue = MessageQueue("t", "b", 0)
    sent = [producer.send_async(Message("t", body), queue) for body in (b"a", b"bad", b"c")]
    results = await asyncio.gather(*sent, return_exceptions=True)
    assert sent_bodies(network) == [[b"a", b"bad", b"c"], [b"a"], [b"bad"], [b"c"]]
    assert isinstance(results[1], BrokerError)
    assert [result.queue_offset for result in (results[0], results[2])] == [0, 1]  # type: ignore[union-attr]


@with_producer(refusing(b"bad", ResponseCode.NO_PERMISSION), batch_linger=0.01, retries=0)
async def test_each_send_of_a_failed_batch_has_an_error_of_its_own(
    producer: Producer, network: ScriptedNetwork
) -> None:
    errors = await asyncio.gather(*(producer.send(Message("t", b"bad")) for _ in range(3)), return_exceptions=True)
    assert len(network.sent()) == 1
    assert [str(error) for error in errors] == ["code 16 from b:1: no"] * 3
    assert len({id(error) for error in errors}) == 3


def test_a_failed_batch_is_sent_again_as_a_whole_at_another_broker() -> None:
    healthy = as_broker(t={"a": 1, "b": 1})
    refused: list[str] = []

    def answer(address: str, request: Command) -> Command | None:
        if request.code in (BATCH, SINGLE) and not refused:
            refused.append(address)
            return Command(ResponseCode.SYSTEM_BUSY, remark="busy")
        return healthy(address, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        results = await asyncio.gather(*map(producer.send, many(3)))
        assert sent_bodies(network) == [[b"0", b"1", b"2"]] * 2
        (one,), (two,) = [{where} for where, _ in network.sent()]
        assert one != two
        assert [result.queue_offset for result in results] == [0, 1, 2]

    run_producer(body, answer, batch_linger=0.01)


@with_producer(as_broker(t={"b": 1}), batch_linger=0.01)
async def test_a_cancelled_send_that_has_not_left_is_not_sent(producer: Producer, network: ScriptedNetwork) -> None:
    first, second, third = [producer.send_async(message) for message in many(3)]
    second.cancel()
    await asyncio.gather(first, third)
    assert sent_bodies(network) == [[b"0", b"2"]]
    alone = producer.send_async(Message("t", b"x"))
    alone.cancel()
    await producer.flush()
    assert len(network.sent()) == 1


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0)
async def test_flush_sends_what_waits_and_waits_for_it(producer: Producer, network: ScriptedNetwork) -> None:
    sent = [producer.send_async(message) for message in many(3)]
    assert network.sent() == []
    await producer.flush()
    assert all(each.done() for each in sent)
    assert sent_bodies(network) == [[b"0", b"1", b"2"]]
    await producer.flush()


@with_producer(as_broker(t={"b": 1}))
async def test_flush_waits_without_batches_too(producer: Producer, network: ScriptedNetwork) -> None:
    sent = [producer.send_async(message) for message in many(3)]
    await producer.flush()
    assert all(each.done() for each in sent)
    assert len(network.sent()) == 3


def test_close_sends_what_waits() -> None:
    sent: list[asyncio.Future[Any]] = []

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        sent.extend(producer.send_async(message) for message in many(3))
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        with pytest.raises(ClosedError):
            producer.send_async(Message("t", b"late"))
        await closing
        assert sent_bodies(network) == [[b"0", b"1", b"2"]]

    run_producer(body, as_broker(t={"b": 1}), batch_linger=60.0)
    assert [each.result().queue_offset for each in sent] == [0, 1, 2]


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0, batch_buffer_bytes=400)
async def test_messages_beyond_the_buffer_wait_outside(producer: Producer, network: ScriptedNetwork) -> None:
    sent = [producer.send_async(Message("t", b"x" * 100)) for _ in range(6)]
    await asyncio.sleep(0)
    assert producer.sender.batcher is not None
    assert len(producer.sender.batcher) == 3
    await producer.flush()
    assert [len(each) for each in sent_bodies(network)] == [3, 3]
    assert all(each.done() for each in sent)


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0, batch_buffer_bytes=400, when_full="raise")
async def test_a_full_buffer_raises_if_configured(producer: Producer, network: ScriptedNetwork) -> None:
    for _ in range(3):
        producer.send_async(Message("t", b"x" * 100))
    with pytest.raises(TooManySends):
        producer.send_async(Message("t", b"x"))
    await producer.flush()


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0)
async def test_illegal_messages_raise_before_they_join_a_batch(producer: Producer, network: ScriptedNetwork) -> None:
    for fault in (Message("t", b""), Message("t", b"x", properties={"a": "\x01"}), Message("bad topic", b"x")):
        with pytest.raises(MessageIllegal):
            producer.send_async(fault)
    with pytest.raises(ConfigError):
        producer.send_async(Message("t", b"x"), MessageQueue("u", "b", 0))
    assert producer.sender.batcher is not None
    assert len(producer.sender.batcher) == 0


def silent(address: str, request: Command) -> Command | None:
    if request.code in (BATCH, SINGLE):
        return None
    return cluster(t={"b": 1})(address, request)


async def asked_to_send(network: ScriptedNetwork) -> None:
    while not network.sent():
        network.asked.clear()
        await network.asked.wait()


@with_producer(silent, batch_linger=0.001)
async def test_a_send_behind_a_slow_batch_fails_at_its_own_deadline(
    producer: Producer, network: ScriptedNetwork
) -> None:
    queue = MessageQueue("t", "b", 0)
    slow = producer.send_async(Message("t", b"a"), queue, timeout=5.0)
    await producer.queues("t")
    await asyncio.wait_for(asked_to_send(network), 5.0)
    with pytest.raises(RequestTimeout, match="the batches before it in queue"):
        await producer.send(Message("t", b"b"), queue, timeout=0.05)
    slow.cancel()
    assert len(network.sent()) == 1
    network.connections["b:1"].close()


@pytest.mark.parametrize("linger", ["natural", 0.001])
def test_time_in_which_the_loop_was_busy_counts_against_no_timeout(
    linger: str | float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that starts many sends at once keeps the loop busy: what waits for the end of the turn is not late."""
    busy = 0.0
    monkeypatch.setattr(batcher, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + busy))

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        nonlocal busy
        await producer.queues("t")
        sent = [producer.send_async(message) for message in many(4)]
        busy = 100.0
        assert [result.queue_offset for result in await asyncio.gather(*sent)] == [0, 1, 2, 3]

    network = run_producer(body, as_broker(t={"b": 1}), batch_linger=linger)
    assert sent_bodies(network)[-1][-1] == b"3"


class Recorder(SendHook):
    def __init__(self) -> None:
        self.ended: list[tuple[bytes, int]] = []

    def before(self, sending: Sending) -> None:
        sending.messages[0].properties["mine"] = "yes"

    def after(self, sending: Sending) -> None:
        assert sending.result is not None
        self.ended.append((sending.messages[0].body, sending.result.queue_offset))


def test_hooks_see_each_message_and_its_result() -> None:
    recorder = Recorder()

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        await asyncio.gather(*map(producer.send, many(3)))
        ((_, request),) = network.sent()
        assert all(b"mine\x01yes\x02" in properties for *_, properties in decode_batch(request.body))

    run_producer(body, as_broker(t={"b": 1}), batch_linger=0.01, hooks=[recorder])
    assert recorder.ended == [(b"0", 0), (b"1", 1), (b"2", 2)]


@with_producer(as_broker(**{"ns%t": {"b": 1}}), batch_linger=0.01, namespace="ns")
async def test_a_namespace_is_added_and_not_shown(producer: Producer, network: ScriptedNetwork) -> None:
    await producer.queues("t")
    results = await asyncio.gather(
        producer.send(Message("t", b"a"), MessageQueue("t", "b", 0)), producer.send_ordered(Message("t", b"b"), 1)
    )
    ((_, request),) = network.sent()
    assert request.ext["b"] == "ns%t"
    assert {result.queue for result in results} == {MessageQueue("t", "b", 0)}


@with_producer(as_broker(t={"b": 1}), batch_linger="natural")
async def test_natural_what_comes_meanwhile_leaves_together(producer: Producer, network: ScriptedNetwork) -> None:
    await producer.send(Message("t", b"first"))
    await asyncio.gather(*map(producer.send, many(5)))
    assert [len(each) for each in sent_bodies(network)] == [1, 1, 4]


def is_direct(producer: Producer, queue: MessageQueue | None = None, topic: str = "t") -> bool:
    """Whether the next message is sent as without batches."""
    return isinstance(producer.sender.prepare(Message(topic, b"x"), queue, None), SendAttempts)


@with_producer(as_broker(t={"b": 1}, u={"b": 1}), batch_linger="natural")
async def test_natural_a_lonely_sender_sends_as_without_batches(producer: Producer, network: ScriptedNetwork) -> None:
    assert is_direct(producer)
    assert not is_direct(producer, MessageQueue("t", "b", 0))  # requests to a queue end one after the other
    for _ in range(2):
        sending = producer.send_async(Message("t", b"x"))
        assert not is_direct(producer)
        assert not is_direct(producer, topic="u")
        await sending
        assert is_direct(producer)
    await asyncio.gather(*map(producer.send, many(3)))
    assert not is_direct(producer)  # the last request had two messages
    await producer.send(Message("t", b"x"))
    assert is_direct(producer)
    delivery = producer.sender.delivery(Message("t", b"x"))
    producer.sender.occupy_thread(delivery)
    assert not is_direct(producer)
    producer.sender.free_thread(delivery)
    assert [len(each) for each in sent_bodies(network)] == [1, 1, 1, 2, 1]


@with_producer(as_broker(t={"b": 1}, u={"b": 1}), batch_linger="natural")
async def test_natural_messages_of_other_topics_do_not_wait_for_a_direct_one(
    producer: Producer, network: ScriptedNetwork
) -> None:
    await producer.send(Message("t", b"x"))
    await producer.send(Message("u", b"x"))
    direct = producer.send_async(Message("t", b"t0"))
    other, same = producer.send_async(Message("u", b"u0")), producer.send_async(Message("t", b"t1"))
    assert producer.sender.batcher is not None
    assert len(producer.sender.batcher) == 1  # only the last one waits
    await asyncio.gather(direct, other, same)
    assert sent_bodies(network)[2:] == [[b"t0"], [b"u0"], [b"t1"]]


@with_producer(as_broker(t={"b": 1}), batch_linger="natural")
async def test_natural_a_lonely_message_is_checked_like_all(producer: Producer, network: ScriptedNetwork) -> None:
    with pytest.raises(MessageIllegal, match="the body is empty"):
        await producer.send(Message("t", b""))
    assert is_direct(producer)
    with pytest.raises(ConfigError, match="cannot be sent to queue"):
        await producer.send(Message("t", b"x"), MessageQueue("u", "b", 0))


@with_producer(as_broker(t={"b": 1}), batch_linger=60.0, max_pending_sends=2)
async def test_the_end_of_a_batch_makes_room_for_as_many_threads(producer: Producer, network: ScriptedNetwork) -> None:
    sender = producer.sender
    first = [producer.send_async(each) for each in many(2)]
    entered = [sender.delivery(each) for each in many(2)]
    blocked = [
        asyncio.ensure_future(asyncio.to_thread(sender.admit_when_possible, each, lambda: None)) for each in entered
    ]
    while sender._blocked < 2:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.001)
    assert sender.batcher is not None
    sender.batcher.release()
    await asyncio.gather(*first)
    async with asyncio.timeout(10):
        await asyncio.gather(*blocked)
    assert (sender._window.sends, sender._window.bytes) == (2, 2)
    for each in entered:
        sender.leave(each)
    assert sender.is_idle
    assert (sender._window.sends, sender._window.bytes) == (0, 0)


@with_producer(as_broker(t={"b": 1}), batch_linger=0.01)
async def test_compressed_messages_are_batched_with_their_like(producer: Producer, network: ScriptedNetwork) -> None:
    queue = MessageQueue("t", "b", 0)
    large = Message("t", b"a" * 5000)
    await asyncio.gather(*(producer.send_async(each, queue) for each in (large, large, Message("t", b"small"))))
    (_, one), (_, two) = network.sent()
    assert (one.code, one.ext["f"], len(bodies(one))) == (BATCH, ZLIB, 2)
    assert (two.code, two.ext["f"]) == (SINGLE, "0")


@with_producer(as_broker(t={"b": 1}), batch_linger=0.01)
async def test_before_the_route_is_known_ordered_messages_wait_for_it(
    producer: Producer, network: ScriptedNetwork
) -> None:
    await asyncio.gather(*(producer.send_ordered(message, "key") for message in many(3)))
    assert [each for group in sent_bodies(network) for each in group] == [b"0", b"1", b"2"]


def test_an_answer_with_one_id_for_all_is_understood() -> None:
    def answer(address: str, request: Command) -> Command | None:
        return stored(request) if request.code == BATCH else cluster(t={"b": 1})(address, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        results = await asyncio.gather(*map(producer.send, many(2)))
        assert [(result.offset_msg_id, result.queue_offset) for result in results] == [("OFF", 5), ("OFF", 6)]

    run_producer(body, answer, batch_linger=0.01)


@pytest.mark.parametrize("option", ["batch_buffer_bytes", "batch_max_bytes", "batch_max_messages"])
def test_a_limit_that_admits_nothing_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}=0 must be at least 1"):
        Producer("g", "ns:1", **{option: 0})  # type: ignore[arg-type]


@with_producer(as_broker(t={"b": 1}), batch_linger=0.0001)
async def test_no_timer_is_shorter_than_timers_are_exact(
    producer: Producer, network: ScriptedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a timer would end before anything is due, and be set again."""
    batcher, delays = producer.sender.batcher, list[float]()
    assert batcher is not None
    monkeypatch.setattr(batcher, "_loop", SimpleNamespace(call_later=lambda delay, _: delays.append(delay)))
    sending = producer.send_async(Message("t", b"x"))
    assert delays == [0.001]
    batcher.release()
    await sending
