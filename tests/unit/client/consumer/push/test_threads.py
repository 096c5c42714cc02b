"""The blocking push consumer: where its calls differ from plain calls in the event loop."""

import threading

import pytest

from rocketmq_py.client.consumer.push.blocking import PushConsumer
from rocketmq_py.errors import ClosedError
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.unit.client.consumer.one_thread import OneThread, on
from tests.unit.client.consumer.push.test_consumer import GROUP, QUEUE, RETRY, TOPIC, Broker, pulled, record

PATIENCE = 120.0


@pytest.fixture
def bench(monkeypatch):
    """A portal and a scripted broker."""
    portal = OneThread().replace(monkeypatch)
    broker = portal.call(Broker)
    yield portal, broker
    portal.run(broker.instance.stop())
    portal.close()


def consumer(broker, **options):
    return PushConsumer(GROUP, instance=on(broker.instance), first_pull_delay=0.001, **options)


def until(portal, true):
    for _ in range(1000):
        if true():
            return
        portal.wait(0.01)
    raise AssertionError("it never came true")


def test_decorated_functions_get_the_messages_of_their_topics(bench):
    portal, broker = bench
    broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0, properties=b"TAGS\x01a\x02"))]
    member, seen = consumer(broker), []

    @member.on(TOPIC, "a || b")
    def listen(message):
        seen.append((message.queue_offset, threading.current_thread().name))

    assert listen.__name__ == "listen"
    with member:
        until(portal, lambda: seen)
        assert [queue.topic for queue in member.queues] == [RETRY, TOPIC]
        assert QUEUE in member.queues
        member.subscribe(TOPIC, "c", listen)
        assert portal.call(lambda: member._aio._group.subscriptions[TOPIC].sub_string) == "c"
        member.unsubscribe(TOPIC)
        assert portal.call(member._aio.topics) == {RETRY}
    assert seen == [(0, "g-listener-1")]
    assert broker.network.codes()[-1] == Code.UNREGISTER_CLIENT
    with pytest.raises(ClosedError):
        member.start()


def test_a_block_without_subscriptions_starts_nothing(bench):
    _, broker = bench
    with consumer(broker) as member:
        assert broker.network.codes() == []
    assert "closed" in repr(member)


def test_a_listener_may_close_its_consumer_and_does_not_wait_for_its_own_end(bench):
    portal, broker = bench
    broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
    closed = []

    def listen(message):
        member._blocking_close(None)
        closed.append(member._aio._group.state.value)

    member = consumer(broker, listener=listen)
    member.subscribe(TOPIC)
    submit = portal.submit

    def from_a_thread(coroutine):
        coroutine.close()
        return "nobody waits for it"

    portal.submit = from_a_thread
    member.start()
    until(portal, lambda: closed)
    assert closed == ["running"]
    portal.submit = submit
    member.close(timeout=5)
    assert "closed" in repr(member)


def test_close_waits_for_listeners_as_long_as_it_may(bench, caplog):
    portal, broker = bench
    broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0))]
    begun, release = threading.Event(), threading.Event()

    def listen(message):
        begun.set()
        release.wait(PATIENCE)

    member = consumer(broker, listener=listen)
    member.subscribe(TOPIC)
    member.start()
    until(portal, begun.is_set)
    member.close(timeout=0.01)
    release.set()
    assert "listeners of group g still run after 0.01 s; close does not wait" in caplog.text
