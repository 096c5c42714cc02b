"""The blocking push consumer against our own broker."""

import itertools
import threading

import pytest

from rocketmq_py import ConfigError, ConsumeFromWhere, Message, NetworkError, Producer, PushConsumer
from rocketmq_py.testing import Cluster
from tests.server.cli import eventually

FIRST = ConsumeFromWhere.FIRST_OFFSET
PATIENCE = 240.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster):
    topic = cluster.create_topic(f"topic-{next(_numbers)}", 4)
    with Producer("sender", cluster.namesrv) as producer:
        for i in range(20):
            producer.send(Message(topic, f"{i:03}", tags="ab"[i % 2]))
    return topic


@pytest.fixture
def group():
    return f"group-{next(_numbers)}"


class Seen:
    def __init__(self, wanted):
        self.bodies, self.threads = [], set()
        self._wanted = wanted
        self._all = threading.Event()

    def __call__(self, message):
        self.bodies.append(message.body.decode())
        self.threads.add(threading.current_thread())
        if len(self.bodies) >= self._wanted:
            self._all.set()

    def wait(self):
        assert self._all.wait(PATIENCE), f"{len(self.bodies)} of {self._wanted} messages came"
        return sorted(self.bodies)


def test_a_decorated_function_gets_the_messages_in_threads_of_its_own(cluster, topic, group):
    seen = Seen(10)
    consumer = PushConsumer(group, cluster.namesrv, consume_from=FIRST)

    @consumer.on(topic, tags="b")
    def take(message):
        seen(message)

    with consumer:
        assert seen.wait() == [f"{i:03}" for i in range(1, 20, 2)]
        assert {queue.topic for queue in consumer.queues} >= {topic}
        assert consumer.group == group
        assert "@" in consumer.client_id
        assert consumer.health().state == "running"
    assert {thread.name.rpartition("-")[0] for thread in seen.threads} == {f"{group}-listener"}
    assert "closed" in repr(consumer)
    for thread in seen.threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_what_is_subscribed_inside_the_with_statement_starts_when_told(cluster, topic, group):
    seen = Seen(20)
    with PushConsumer(group, cluster.namesrv, consume_from=FIRST) as consumer:
        consumer.on(topic)(seen)
        consumer.start()
        seen.wait()
        eventually(lambda: sum(consumer.lag().values()), lambda lag: lag == 0)
        consumer.suspend()
        assert consumer.health().suspended
        consumer.resume()
        consumer.unsubscribe(topic)


def test_an_async_listener_runs_in_the_background_loop(cluster, topic, group):
    seen = Seen(20)

    async def take(message):
        seen(message)

    with PushConsumer(group, cluster.namesrv, listener=take, consume_from=FIRST) as consumer:
        consumer.subscribe(topic)
        consumer.start()
        seen.wait()
    assert {thread.name for thread in seen.threads} == {"rocketmq-loop"}


def test_a_listener_may_close_its_own_consumer(cluster, topic, group):
    closed = threading.Event()

    def take(message):
        consumer.close()
        closed.set()

    consumer = PushConsumer(group, cluster.namesrv, listener=take, consume_from=FIRST)
    consumer.subscribe(topic)
    consumer.start()
    assert closed.wait(PATIENCE)
    consumer.close()
    assert consumer.health().state == "closed"


def test_errors_are_those_of_the_asyncio_consumer(group):
    with pytest.raises(ConfigError, match="pull_batch_size=0"):
        PushConsumer(group, "127.0.0.1:1", pull_batch_size=0)
    consumer = PushConsumer(group, "127.0.0.1:1")
    with pytest.raises(ConfigError, match="takes 0 arguments"):
        consumer.subscribe("topic", listener=lambda: None)
    consumer.subscribe("topic", listener=lambda message: None)
    with pytest.raises(NetworkError, match="Does a name server run there"):
        consumer.start()
