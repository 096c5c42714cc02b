import asyncio
import functools
import logging

import pytest

from rocketmq_py.client.consumer.dispatch import listeners
from rocketmq_py.client.consumer.dispatch.listeners import (
    ConsumeContext,
    ConsumeRequest,
    ListenerFailure,
    make_listener,
)
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeResult, MessageExt, MessageQueue, OrderlyResult

QUEUE = MessageQueue("T", "broker-a", 0)
OK, LATER = ConsumeResult.SUCCESS, ConsumeResult.RECONSUME_LATER


def messages(count):
    return [MessageExt((0, 0, 0, 0, 0, i, i, 0, 0, b"", 0, b"", 0, 0, 1), "T", b"x", b"") for i in range(count)]


def consume(function, count=3, batch_size=1):
    listener = make_listener(function, batch_size)
    request = ConsumeRequest(ProcessQueue(QUEUE, 0.0), "T", messages(count), listener)
    calls = asyncio.run(listener.arun(request)) if listener.is_async else listener.run(request)
    assert request.exhausted
    assert request.is_complete
    return (
        calls,
        [m.queue_offset for m in request.done],
        [(f.message.queue_offset, f.delay_level) for f in request.failed],
    )


def as_async(function):
    if function.__code__.co_argcount == 2:

        async def two(first, second):
            return function(first, second)

        return two

    async def one(first):
        return function(first)

    return one


BOTH = pytest.mark.parametrize("face", [lambda f: f, as_async], ids=["plain", "async"])


@BOTH
def test_none_and_success_mean_consumed(face):
    assert consume(face(lambda m: None)) == (3, [0, 1, 2], [])
    assert consume(face(lambda m: OK)) == (3, [0, 1, 2], [])


@BOTH
def test_a_failed_message_does_not_fail_others(face, caplog):
    def odd(message):
        if message.queue_offset == 1:
            raise ValueError("no odd ones")

    assert consume(face(odd)) == (3, [0, 2], [(1, 0)])
    assert "no odd ones" in caplog.text
    assert "T@:0 offset=1" in caplog.text


@BOTH
@pytest.mark.parametrize("result", [True, OrderlyResult.SUCCESS, OrderlyResult.COMMIT])
def test_true_and_results_of_orderly_listeners_mean_success(face, result, caplog):
    assert consume(face(lambda m: result)) == (3, [0, 1, 2], [])
    assert consume(face(lambda m, context: result), batch_size=2) == (2, [0, 1, 2], [])
    assert not caplog.records


@BOTH
@pytest.mark.parametrize("result", [LATER, OrderlyResult.SUSPEND, OrderlyResult.ROLLBACK])
def test_results_that_request_redelivery_are_not_logged(face, result, caplog):
    assert consume(face(lambda m: result)) == (3, [], [(0, 0), (1, 0), (2, 0)])
    assert not caplog.records


@BOTH
@pytest.mark.parametrize("result", [17, False, 1, "SUCCESS"])
def test_another_result_is_an_error_that_is_logged_once(face, result, caplog, monkeypatch):
    assert consume(face(lambda m: result)) == (3, [], [(0, 0), (1, 0), (2, 0)])
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert f"returned {result!r} of type {type(result).__name__}, which is no result" in record.getMessage()
    assert "ConsumeResult.SUCCESS" in record.getMessage()
    caplog.clear()
    monkeypatch.setattr(listeners, "LOG_INTERVAL", 0.0)
    consume(face(lambda m: result))
    assert len(caplog.records) == 3


def test_a_plain_listener_that_returns_a_coroutine_is_an_error(caplog):
    async def handle(message): ...

    def forgets_to_await(message):
        return handle(message)

    assert consume(forgets_to_await, count=1) == (1, [], [(0, 0)])
    assert "must be declared with async def" in caplog.text


@BOTH
def test_a_listener_that_raises_system_exit_does_not_end_its_worker(face):
    def leave(message):
        raise SystemExit(message)

    assert consume(face(leave), count=2) == (2, [], [(0, 0), (1, 0)])


@BOTH
def test_a_batch_gets_a_context(face):
    seen = []

    def batch(batch, context):
        seen.append(([m.queue_offset for m in batch], context.queue))
        context.ack_index = 0
        context.delay_level = 5

    assert consume(face(batch), count=5, batch_size=2) == (3, [0, 2, 4], [(1, 5), (3, 5)])
    assert seen == [([0, 1], QUEUE), ([2, 3], QUEUE), ([4], QUEUE)]


@BOTH
def test_a_batch_that_raises_fails_as_a_whole(face, caplog):
    def batch(batch, context):
        batch.clear()
        context.ack_index = 0
        raise OSError("down")

    assert consume(face(batch), count=2, batch_size=2) == (1, [], [(0, 0), (1, 0)])
    assert "down" in caplog.text


def test_a_cancellation_inside_an_async_listener_is_a_failure():
    async def waits(message):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    assert consume(waits, count=1) == (1, [], [(0, 0)])


def test_the_cancellation_of_the_worker_is_no_result():
    async def waits(message):
        await asyncio.sleep(60)

    async def scenario():
        listener = make_listener(waits, 1)
        request = ConsumeRequest(ProcessQueue(QUEUE, 0.0), "T", messages(1), listener)
        worker = asyncio.ensure_future(listener.arun(request))
        await asyncio.sleep(0)
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        assert not request.is_complete

    asyncio.run(scenario())


class Handler:
    def method(self, message): ...

    async def batch(self, messages, context): ...

    async def __call__(self, message): ...


def test_any_callable_with_matching_parameters_is_a_listener():
    assert not make_listener(Handler().method, 1).is_async
    assert make_listener(Handler().batch, 9).is_async
    assert make_listener(Handler(), 1).is_async
    assert not make_listener(print, 1).is_async
    assert not make_listener(functools.partial(lambda bound, message: None, 1), 1).is_async
    assert consume(lambda message, log=logging: None) == (3, [0, 1, 2], [])


@pytest.mark.parametrize(
    ("function", "batch_size", "says"),
    [
        (lambda: None, 1, "takes 0 arguments"),
        (lambda a, b, c: None, 1, "takes 3 arguments"),
        (lambda message: None, 32, "consume_batch_size is 32"),
        ("text", 1, "must be callable"),
    ],
)
def test_a_listener_with_other_parameters_is_refused(function, batch_size, says):
    with pytest.raises(ConfigError, match=says):
        make_listener(function, batch_size)


def test_a_cancelled_request_drops_calls_that_have_not_started():
    request = ConsumeRequest(ProcessQueue(QUEUE, 0.0), "T", messages(5), make_listener(lambda batch, context: None, 2))
    begun = next(request.pending)
    assert [m.queue_offset for m in request.cancel_pending()] == [2, 3, 4]
    assert (request.calls, request.size) == (1, 2)
    assert request.running_calls() == [begun]


def test_results_are_returned_once_and_a_cancelled_request_starts_no_call():
    request = ConsumeRequest(ProcessQueue(QUEUE, 0.0), "T", messages(3), make_listener(lambda m: None, 1))
    first = next(request.pending)
    request.done.append(first)
    assert request.new_results() == ([first], [])
    request.cancel_pending()
    assert request.listener.run(request) == 0
    request.failed.append(ListenerFailure(first))
    assert request.new_results() == ([], [ListenerFailure(first)])
    assert request.new_results() == ([], [])
    assert request.finished == 2


def test_a_context_has_no_delay_level_by_default():
    context = ConsumeContext(QUEUE)
    assert (context.delay_level, context.ack_index, context.queue) == (0, 2**31 - 1, QUEUE)
