"""The lite pull consumer, blocking face, against our own broker."""

import itertools
import threading

import pytest

from rocketmq_py import (
    ClosedError,
    ConfigError,
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    MessageQueue,
    NotAssigned,
    OffsetIllegal,
    Producer,
)
from rocketmq_py.testing import Cluster

PATIENCE = 240.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster):
    return cluster.create_topic(f"topic-{next(_numbers)}", 2)


@pytest.fixture
def group():
    return f"group-{next(_numbers)}"


def send(cluster, queue, count):
    with Producer("sender", cluster.namesrv) as producer:
        for i in range(count):
            producer.send(Message(queue.topic, f"{i}"), queue=queue)


def consumer(cluster, group, **options):
    return LitePullConsumer(group, cluster.namesrv, **{"consume_from": ConsumeFromWhere.FIRST_OFFSET, **options})


def queue_of(topic, number=0):
    return MessageQueue(topic, "broker-a", number)


def offsets(messages):
    return [message.queue_offset for message in messages]


def test_a_subscribed_topic_can_be_polled(cluster, topic, group):
    send(cluster, queue_of(topic), 5)
    with consumer(cluster, group) as member:
        member.subscribe(topic, "*")
        assert offsets(member.poll(PATIENCE)) == [0, 1, 2, 3, 4]
        assert member.assignment == member.queues(topic)
        assert member.poll(0) == []
        member.unsubscribe(topic)
        assert member.assignment == []
    assert repr(member).startswith(f"LitePullConsumer(group='{group}', closed")


def test_a_left_loop_commits_the_returned_messages(cluster, topic, group):
    send(cluster, queue_of(topic), 5)
    with consumer(cluster, group) as member:
        member.assign([queue_of(topic)])
        for message in member:
            if message.queue_offset == 1:
                break
        assert offsets(member.poll()) == [2, 3, 4]
        member.commit({queue_of(topic): 2})
        member.close(commit=False)
    with consumer(cluster, group) as member:
        member.assign([queue_of(topic)])
        seen = []
        for message in member:
            seen.append(message.queue_offset)
            if len(seen) == 3:
                member.close()
        assert seen == [2, 3, 4]


def test_a_seek_in_a_loop_applies_to_the_next_message(cluster, topic, group):
    queue, seen = queue_of(topic), []
    send(cluster, queue, 4)
    with consumer(cluster, group) as member:
        member.assign([queue])
        for message in member:
            seen.append(message.queue_offset)
            if len(seen) == 2:
                member.seek(queue, 3)
            if len(seen) == 3:
                member.seek_to_begin(queue)
            if len(seen) == 4:
                break
    assert seen == [0, 1, 3, 0]


def test_offsets_are_committed_and_read(cluster, topic, group):
    queue = queue_of(topic)
    send(cluster, queue, 4)
    with consumer(cluster, group, auto_commit=False) as member:
        member.assign([queue])
        assert member.committed(queue) in (None, 0)
        member.poll()
        member.commit()
        assert (member.committed(queue), member.offset_for_timestamp(queue, 0)) == (4, 0)
        member.seek_to_end(queue)
        member.commit()
        assert member.committed(queue) == 4
        with pytest.raises(OffsetIllegal):
            member.seek(queue, 5)
        with pytest.raises(NotAssigned):
            member.seek(queue_of(topic, 1), 0)


def test_health_and_lag_are_shown(cluster, topic, group):
    queue = queue_of(topic)
    send(cluster, queue, 5)
    with consumer(cluster, group, auto_commit=False) as member:
        member.assign([queue])
        assert member.lag() == {queue: 5}
        assert len(member.poll(PATIENCE)) == 5
        member.commit()
        assert member.lag() == {queue: 0}
        assert [each.queue for each in member.health().queues] == [queue]
        assert member.health().ok


def test_paused_queues_are_not_polled(cluster, topic, group):
    queue = queue_of(topic)
    with consumer(cluster, group) as member:
        member.assign([queue])
        member.pause([queue])
        member.seek_to_begin(queue)
        send(cluster, queue, 1)
        assert (member.paused, member.poll(0.1)) == ([queue], [])
        member.resume([queue])
        assert len(member.poll()) == 1


def test_a_listener_can_call_the_consumer(cluster, topic, group):
    heard = threading.Event()
    with consumer(cluster, group, metadata_check_interval=0.02) as member:

        def changed(topic, queues):
            member.assign(queues)
            heard.set()

        member.assign([queue_of(topic)])
        member.on_queues_changed(topic, changed)
        looked = threading.Event()  # never set: what is seen is nobody's to announce
        while topic not in member._aio._watch._seen:
            looked.wait(0.02)
        cluster.create_topic(topic, 3)
        assert heard.wait(PATIENCE)
        assert len(member.assignment) == 3


def test_another_thread_can_close_it(cluster, topic, group):
    member = consumer(cluster, group)
    member.assign([queue_of(topic)])
    member.start()
    ended = []
    reader = threading.Thread(target=lambda: ended.append(list(member)))
    reader.start()
    member.close()
    reader.join(PATIENCE)
    assert ended == [[]]
    with pytest.raises(ClosedError):
        member.poll()
    assert list(member) == []


def test_invalid_calls_raise(cluster, topic, group):
    member = consumer(cluster, group)
    with pytest.raises(ClosedError, match="not started"):
        member.poll()
    member.subscribe(topic)
    with pytest.raises(ConfigError, match="exclude each other"):
        member.assign([queue_of(topic)])
    with pytest.raises(ConfigError, match="name server"):
        LitePullConsumer(group, [])
