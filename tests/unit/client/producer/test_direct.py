"""Blocking sends: the calling thread sends where the route is known, the event loop does everything else."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rocketmq_py import Message, MessageQueue, Producer
from rocketmq_py.client.hooks.hooks import SendHook, Sending
from rocketmq_py.errors import ClosedError, ConnectionLost, MessageRefused, TooManySends
from rocketmq_py.model import SendResult
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.producer.directly import Threads, directly
from tests.unit.client.scripted import ScriptedNetwork, cluster, queue_of


class Hook(SendHook):
    def __init__(self) -> None:
        self.seen: list[Sending] = []

    def after(self, sending: Sending) -> None:
        self.seen.append(sending)


def sends(threads: Threads) -> list[Command]:
    return [request for _, request, _ in threads.requests]


def warm(producer: Producer, network: ScriptedNetwork, threads: Threads) -> None:
    """Cache the route: the first send goes through the loop."""
    producer.send(Message("t", b"first"))
    assert (len(network.sent()), len(threads.requests)) == (1, 0)
    network.requests.clear()


def test_the_calling_thread_sends_once_the_route_is_cached() -> None:
    with directly(Producer, cluster(t={"a": 2})) as (producer, threads, network):
        warm(producer, network, threads)
        result = producer.send(Message("t", b"x"), timeout=2.0)
        [(address, request, left)] = threads.requests
        assert (address, request.body, result.queue) == ("a:1", b"x", queue_of(request))
        assert 1.0 < left <= 2.0
        given = MessageQueue("t", "a", 1)
        assert producer.send(Message("t", b"x"), given).queue == given
        assert network.sent() == []
        assert producer.group == "g"


@pytest.mark.parametrize("hooks", [[], [Hook()]])
def test_all_ways_to_send(hooks: list[Hook]) -> None:
    with directly(Producer, cluster(t={"a": 3}), hooks=hooks) as (producer, threads, network):
        warm(producer, network, threads)
        given = MessageQueue("t", "a", 2)
        assert producer.send(Message("t", b"0"), given).queue == given
        assert producer.send_batch([Message("t", b"1"), Message("t", b"2")], given).queue == given
        assert producer.send_ordered(Message("t", b"3"), 5, lambda queues, _, key: queues[key % 3]).queue == given
        producer.send_oneway(Message("t", b"4"), given)
        assert [(request.code, request.flag & 2) for request in sends(threads)] == [
            (310, 0), (320, 0), (310, 0), (310, 2),
        ]  # fmt: skip
        assert [queue_of(request) for request in sends(threads)] == [given] * 4
        assert network.sent() == []
        result = producer.send_async(Message("t", b"5"), given).result(5)
        assert result.queue == given
        assert [request.body for _, request in network.sent()] == [b"5"], "the loop sends what nobody waits for"
    for hook in hooks:
        seen = hook.seen[1:]
        assert [[m.body for m in one.messages] for one in seen] == [[b"0"], [b"1", b"2"], [b"3"], [b"4"], [b"5"]]
        assert [one.oneway for one in seen] == [False, False, False, True, False]
        assert [isinstance(one.result, SendResult) for one in seen] == [True, True, True, False, True]


def test_a_oneway_message_to_an_unknown_topic_goes_through_the_loop() -> None:
    with directly(Producer, cluster(t={"a": 1})) as (producer, threads, network):
        producer.send_oneway(Message("t", b"x"))
        [(_, request)] = network.sent()
        assert request.is_oneway
        assert threads.requests == []


def test_the_loop_tries_again_after_a_failure_of_the_thread() -> None:
    with directly(Producer, cluster(t={"a": 1, "b": 1})) as (producer, threads, network):
        warm(producer, network, threads)
        threads.failing = ConnectionLost("on purpose")
        result = producer.send(Message("t", b"x"))
        [(first, _, _)], [(second, request)] = threads.requests, network.sent()
        assert {first, second} == {"a:1", "b:1"}
        assert result.queue == queue_of(request)


def test_an_error_that_no_retry_mends_is_raised_at_once() -> None:
    healthy = cluster(t={"a": 1})
    code = [int(ResponseCode.SUCCESS)]

    def answer(address: str, request: Command) -> Command | None:
        refuse = code[0] and request.code == 310
        return Command(code[0], remark="no") if refuse else healthy(address, request)

    hook = Hook()
    with directly(Producer, answer, hooks=[hook]) as (producer, threads, network):
        warm(producer, network, threads)
        code[0] = ResponseCode.MESSAGE_ILLEGAL
        with pytest.raises(MessageRefused):
            producer.send(Message("t", b"x"))
        assert (len(threads.requests), network.sent()) == (1, [])
        assert isinstance(hook.seen[-1].error, MessageRefused)
        assert producer._aio.sender._in_threads == set()


def test_a_slow_broker_is_noted() -> None:
    with directly(Producer, cluster(t={"a": 1}), send_latency_fault_enable=True) as (producer, threads, network):
        warm(producer, network, threads)
        noted: list[Any] = []
        tolerance = producer._aio.sender.tolerance
        assert tolerance is not None
        tolerance.ended = lambda *given: noted.append(given)  # type: ignore[method-assign]
        producer.send(Message("t", b"x"))
        threads.failing = ConnectionLost("on purpose")
        producer.send(Message("t", b"x"))
        assert [(broker, type(error)) for broker, _, error in noted][:2] == [
            ("a", type(None)), ("a", ConnectionLost),
        ]  # fmt: skip


def test_a_full_producer_refuses_or_makes_wait() -> None:
    held = threading.Event()
    answered: list[tuple[str, Command]] = []
    healthy = cluster(t={"a": 1})

    def answer(address: str, request: Command) -> Command | None:
        if request.code == 310 and request.body == b"held":
            answered.append((address, request))
            held.set()
            return None
        return healthy(address, request)

    options = {"max_pending_sends": 1, "when_full": "raise", "send_timeout": 0.2, "retries": 0}
    with directly(Producer, answer, **options) as (producer, threads, network):
        warm(producer, network, threads)
        waiting = producer.send_async(Message("t", b"held"))
        assert held.wait(5)
        with pytest.raises(TooManySends):
            producer.send_async(Message("t", b"x"))
        assert producer.send(Message("t", b"x")).queue_offset == 5, "a thread that waits itself does not count"
        assert waiting.exception(5) is not None


def test_a_closed_producer_has_closed_its_connections() -> None:
    with directly(Producer, cluster(t={"a": 1})) as (producer, threads, _):
        producer.start()
        assert producer._direct is threads
        assert not threads.closed
    assert threads.closed
    producer.close()
    with pytest.raises(ClosedError):
        producer.send(Message("t", b"x"))


def test_with_batches_threads_share_requests_of_the_loop() -> None:
    hook = Hook()
    with directly(Producer, cluster(t={"a": 1}), batch_linger=0.05, hooks=[hook]) as (producer, threads, network):
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(producer.send, [Message("t", b"%d" % number) for number in range(8)]))
        assert threads.requests == []
        assert len(network.sent()) < 8
        assert sorted(result.msg_id for result in results) == sorted(
            sending.result.msg_id for sending in hook.seen if sending.result is not None
        )


def test_with_natural_batches_a_lonely_thread_sends_itself() -> None:
    with directly(Producer, cluster(t={"a": 1}), batch_linger="natural") as (producer, threads, network):
        producer.queues("t")
        for _ in range(3):
            assert producer.send(Message("t", b"x")).queue_offset == 5
        assert len(sends(threads)) == 3
        assert network.sent() == []


def test_with_batches_one_way_and_ordered_sends_overtake_nothing() -> None:
    options = {"batch_linger": 60.0, "send_timeout": 300.0}  # a batch waits for half of the timeout at most
    with directly(Producer, cluster(t={"a": 1}), **options) as (producer, threads, network):
        warm_up = producer.send_async(Message("t", b"first"))
        producer.flush()
        assert warm_up.done()
        waiting = producer.send_async(Message("t", b"x"))
        producer.send_oneway(Message("t", b"y"))
        assert waiting.result(timeout=10).queue_offset == 5
        assert [request.body for _, request in network.sent()] == [b"first", b"x"]
        assert [request.body for request in sends(threads)] == [b"y"]


def test_with_batches_close_sends_what_waits() -> None:
    with directly(Producer, cluster(t={"a": 1}), batch_linger=60.0) as (producer, _, network):
        waiting = [producer.send_async(Message("t", b"x")) for _ in range(3)]
        producer.close()
        assert all(each.result(timeout=10) for each in waiting)
        [(_, request)] = network.sent()
        assert request.code == RequestCode.SEND_BATCH_MESSAGE
        with pytest.raises(ClosedError):
            producer.send(Message("t", b"x"))


def test_with_batches_a_full_buffer_makes_threads_wait() -> None:
    with directly(Producer, cluster(t={"a": 1}), batch_linger=60.0, batch_buffer_bytes=200) as (producer, _, network):
        first = [producer.send_async(Message("t", b"x" * 100)) for _ in range(2)]
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(producer.send, Message("t", b"y"))
            producer.flush()
            assert all(each.done() for each in first)
            while not second.done():
                producer.flush()
        assert network.sent()[0][1].code == RequestCode.SEND_BATCH_MESSAGE
