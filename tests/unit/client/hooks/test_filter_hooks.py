"""Filter hooks, alone and in each kind of consumer."""

import time

import pytest

from rocketmq_py import ConsumeHook, FilterMessageHook
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.client.hooks.filter_hooks import filter_messages
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.unit.client.consumer import popbroker
from tests.unit.client.consumer.lite_pull import test_consumer as lite
from tests.unit.client.consumer.pull import test_consumer as pull
from tests.unit.client.consumer.push import poppush, test_consumer as push

QUEUE = MessageQueue("T", "b", 0)


class Odd(FilterMessageHook):
    """Keeps messages with odd offsets."""

    def __init__(self):
        self.calls = []

    def filter(self, group, queue, messages):
        self.calls.append((group, queue, [message.queue_offset for message in messages]))
        return [message for message in messages if message.queue_offset % 2]


class Broken(FilterMessageHook):
    def filter(self, group, queue, messages):
        raise ValueError("broken hook")


def messages(*offsets):
    return [MessageExt((0, 0, 0, 0, 0, i, i, 0, 0, b"", 0, b"", 0, 0, 1), "T", b"x", b"") for i in offsets]


def test_hooks_filter_in_turn_and_a_failing_one_keeps_all(caplog):
    odd, again = Odd(), Odd()
    kept = filter_messages([odd, Broken(), again], "g", QUEUE, messages(1, 2, 3))
    assert [message.queue_offset for message in kept] == [1, 3]
    assert odd.calls == [("g", QUEUE, [1, 2, 3])]
    assert again.calls == [("g", QUEUE, [1, 3])]
    assert "broken hook" in caplog.text


def test_a_hook_that_does_not_override_keeps_all():
    assert len(filter_messages([FilterMessageHook()], "g", QUEUE, messages(1, 2))) == 2


def test_no_hook_is_called_without_messages():
    odd = Odd()
    assert filter_messages([odd], "g", QUEUE, []) == []
    assert odd.calls == []


def test_an_object_without_a_filter_method_is_refused():
    with pytest.raises(ConfigError, match="must be a FilterMessageHook"):
        SimpleConsumer("g", "ns:1", filter_hooks=[print])


def test_listeners_get_what_the_hook_keeps_and_offsets_move_past_the_rest():
    async def run(broker):
        broker.pulls["T", 0] = [push.pulled(0, 3, push.record(0) + push.record(1) + push.record(2))]
        broker.pulls["T", 3] = [push.pulled(0, 5, push.record(4))]
        async with broker.consumer(filter_hooks=[Odd()]) as member:
            await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="5"))
            await popbroker.eventually(lambda: member._group.offsets.get(QUEUE) == 5)
        assert [message.queue_offset for message in broker.seen] == [1]

    push.scenario(run)


def test_polls_return_what_the_hook_keeps():
    async def run(broker):
        broker.pulls[0] = [lite.pulled(0, 3, lite.record(0) + lite.record(1) + lite.record(2))]
        broker.pulls[3] = [lite.pulled(0, 5, lite.record(4))]
        async with broker.assigned(filter_hooks=[Odd()]) as member:
            assert [message.queue_offset for message in await member.poll(30)] == [1]
            await broker.pull(5)
            await member.commit()
            assert await member.committed(QUEUE) == 5

    lite.scenario(run)


def test_pulls_return_what_the_hook_keeps():
    async def run(broker):
        broker.pulls["T", 0] = [push.pulled(0, 2, push.record(0) + push.record(1))]
        async with pull.consumer(broker, filter_hooks=[Odd()]) as member:
            result = await member.pull(QUEUE, 0)
        assert [message.queue_offset for message in result.messages] == [1]
        assert result.next_offset == 2

    push.scenario(run)


def test_dropped_messages_of_a_pop_are_acked():
    listener = poppush.Listener()

    async def run(brokers):
        brokers.has["b"] = [[popbroker.record(1), popbroker.record(2)]]
        async with poppush.consumer(brokers, listener, filter_hooks=[Odd()]):
            await brokers.until(lambda: len(brokers.acked) == 2)
        assert sorted(brokers.acked) == [("b", 1), ("b", 2)]
        assert listener.seen == [1]

    popbroker.scenario(run)


def test_dropped_messages_of_a_receive_are_acked():
    async def run(brokers):
        brokers.has["b"] = [[popbroker.record(1), popbroker.record(2)]]
        member = SimpleConsumer("g", instance=brokers.instance, filter_hooks=[Odd()])
        member.subscribe("T")
        async with member:
            assert [message.queue_offset for message in await member.receive()] == [1]
            await brokers.until(lambda: brokers.acked)
        assert brokers.acked == [("b", 2)]

    popbroker.scenario(run)


class NeedsArrival(ConsumeHook):
    needs_arrival = True


@pytest.mark.parametrize(("hooks", "known"), [([NeedsArrival()], True), ([ConsumeHook()], False), ([], False)])
def test_messages_know_when_they_arrived_if_a_hook_needs_it(hooks, known):
    async def run(broker):
        began = time.monotonic()
        broker.pulls["T", 0] = [push.pulled(0, 3, push.record(0) + push.record(1) + push.record(2))]
        async with broker.consumer(filter_hooks=[Odd()], hooks=hooks):
            await broker.until(lambda: broker.seen)
        [message] = broker.seen
        assert message.queue_offset == 1
        assert (message.arrived is not None) == known
        assert message.arrived is None or began <= message.arrived <= time.monotonic()

    push.scenario(run)


def test_popped_messages_know_when_they_arrived():
    arrived = []

    class Listens(ConsumeHook):
        needs_arrival = True

        def before(self, consumption):
            arrived.extend(message.arrived for message in consumption.messages)

    async def run(brokers):
        brokers.has["b"] = [[popbroker.record(1)]]
        async with poppush.consumer(brokers, poppush.Listener(), hooks=[Listens()]):
            await brokers.until(lambda: brokers.acked)
        assert [time is not None for time in arrived] == [True]

    popbroker.scenario(run)
