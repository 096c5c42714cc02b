"""Hooks around listeners and sends: their arguments, and that their failures affect nothing else."""

import asyncio
import inspect

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.dispatch.listeners import ConsumeRequest, make_listener, shape_of
from rocketmq_py.client.consumer.dispatch.orderly_listeners import OrderlyListener
from rocketmq_py.client.hooks.hooks import ConsumeHook, Consumption, SendHook, Sending, hooked
from rocketmq_py.client.producer.producer import Producer
from rocketmq_py.core.consumer.orderly import OrderedQueue, OrderlyRun
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.errors import MessageIllegal, SystemBusy
from rocketmq_py.model import ConsumeResult, Message, MessageExt, MessageQueue, OrderlyResult
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.scripted import ScriptedNetwork, cluster

QUEUE = MessageQueue("T", "b", 0)


def messages(count):
    return [MessageExt((0, 0, 0, 0, 0, i, i, 0, 0, b"", 0, b"", 0, 0, 1), "T", b"x", b"", "b") for i in range(count)]


class Log(ConsumeHook, SendHook):
    """Writes down what it is told."""

    def __init__(self, fails=False):
        self.before_calls, self.after_calls = [], []
        self.fails = fails

    def before(self, about):
        self.before_calls.append(len(about.messages))
        about.notes[self] = len(self.before_calls)
        if self.fails:
            raise ValueError("a hook on purpose")

    def after(self, about):
        assert about.notes[self] == len(self.before_calls)
        assert about.seconds >= 0
        self.after_calls.append(about)
        if self.fails:
            raise ValueError("a hook on purpose")


def consumed(listener, hook, *, is_async, batch=1):
    function = listener
    if is_async:

        async def function(*given):
            return listener(*given)

        function.__signature__ = inspect.signature(listener)
    made = make_listener(hooked(function, [hook], "g"), batch)
    assert made.is_async is is_async
    piece = ConsumeRequest(ProcessQueue(QUEUE, 0.0), "T", messages(4), made)
    if is_async:
        asyncio.run(made.arun(piece))
    else:
        made.run(piece)
    return piece


def one_fails(message):
    if message.queue_offset == 2:
        raise KeyError("on purpose")
    return ConsumeResult.RECONSUME_LATER if message.queue_offset == 3 else None


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_hook_is_called_for_every_listener_call(is_async, fails, caplog):
    hook = Log(fails)
    piece = consumed(one_fails, hook, is_async=is_async)
    assert [m.queue_offset for m in piece.done] == [0, 1]
    assert [f.message.queue_offset for f in piece.failed] == [2, 3]
    assert hook.before_calls == [1] * 4
    assert [about.succeeded for about in hook.after_calls] == [True, True, False, False]
    assert isinstance(hook.after_calls[2].error, KeyError)
    assert hook.after_calls[3].result is ConsumeResult.RECONSUME_LATER
    assert {(about.group, about.queue) for about in hook.after_calls} == {("g", QUEUE)}
    assert ("a hook on purpose" in caplog.text) is fails


@pytest.mark.parametrize("is_async", [False, True])
def test_a_hook_is_called_once_per_batch(is_async):
    hook = Log()
    piece = consumed(lambda batch, context: None, hook, is_async=is_async, batch=3)
    assert len(piece.done) == 4
    assert hook.before_calls == [3, 1]


def test_an_orderly_listener_has_hooks_too():
    hook = Log()
    results = iter([OrderlyResult.SUCCESS, OrderlyResult.SUSPEND])
    listener = OrderlyListener(hooked(lambda message: next(results), [hook], "g"), 1)
    run = OrderlyRun(OrderedQueue(QUEUE, 0.0, needs_lock=False), messages(2), 1)
    run.queue.put(messages(2))
    listener.consume(run)
    assert [about.succeeded for about in hook.after_calls] == [True, False]


def test_hooks_keep_the_parameters_of_a_listener():
    def listen(batch, context):
        return None

    assert hooked(listen, (), "g") is listen
    assert shape_of(hooked(listen, [Log()], "g"), 5) == shape_of(listen, 5)


class Callable:
    def __call__(self, message):
        return None


def test_hooks_wrap_any_callable():
    assert shape_of(hooked(Callable(), [Log()], "g"), 1) == shape_of(Callable(), 1)


# -- sends


def sending(function, *hooks, answer=None):
    async def run():
        network = ScriptedNetwork(cluster(T={"b": 1}))
        if answer is not None:
            healthy = network.answer
            network.answer = lambda address, request: answer(address, request) or healthy(address, request)
        instance = ClientInstance("ns:1")
        network.carry(instance.connections)
        async with Producer("p", instance=instance, hooks=hooks, retries=0) as producer:
            await function(producer)
        await instance.stop()
        return network

    return asyncio.run(run())


def test_a_hook_is_called_for_every_send_method():
    hook = Log()

    async def all_ways(producer):
        await producer.send(Message("T", b"1"))
        await producer.send_batch([Message("T", b"2"), Message("T", b"3")])
        await producer.send_ordered(Message("T", b"4"), key="k")
        await producer.send_oneway(Message("T", b"5"))

    network = sending(all_ways, hook)
    assert hook.before_calls == [1, 2, 1, 1]
    assert [(about.group, about.oneway, about.error) for about in hook.after_calls] == [
        ("p", False, None), ("p", False, None), ("p", False, None), ("p", True, None),
    ]  # fmt: skip
    assert [about.result and about.result.queue_offset for about in hook.after_calls] == [5, 5, 5, None]
    assert len(network.sent()) == 4


def test_properties_added_by_a_hook_are_sent():
    class Adds(SendHook):
        def before(self, sending):
            for message in sending.messages:
                message.properties["span"] = "1"

    async def one(producer):
        await producer.send(Message("T", b"1"))

    [(_, request)] = sending(one, Adds()).sent()
    assert "span\x011\x02" in request.ext["i"] + "\x02"


def test_a_hook_is_called_for_failures_and_its_own_are_logged(caplog):
    hook = Log(fails=True)

    async def two(producer):
        with pytest.raises(SystemBusy):
            await producer.send(Message("T", b"1"))
        with pytest.raises(MessageIllegal):
            await producer.send(Message("T", b"x" * 5_000_000))

    def busy(address, request):
        return Command(ResponseCode.SYSTEM_BUSY, remark="busy") if request.ext and "b" in request.ext else None

    sending(two, hook, answer=busy)
    assert [type(about.error) for about in hook.after_calls] == [SystemBusy, MessageIllegal]
    assert "a hook on purpose" in caplog.text


def test_before_a_listener_or_a_send_has_run_nothing_of_its_end_is_known():
    given = Consumption("g", MessageQueue("t", "b", 0), []), Sending("g", [], oneway=False)
    assert [(one.result, one.error, one.seconds, one.notes) for one in given] == [(None, None, 0.0, {})] * 2
    assert given[0].succeeded is None
