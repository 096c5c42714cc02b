"""Topics with a batch consume queue on a Java broker: one record for a whole batch, which consumers take apart."""

from __future__ import annotations

import uuid

import pytest

from rocketmq_py import Admin, ConsumeFromWhere, LitePullConsumer, Message, Producer, PullConsumer, PushConsumer
from tests.interop.javapeer import JavaPeer, JavaServer
from tests.interop.side import WAIT_SECONDS, Inbox, Seen, eventually, group

FIRST = ConsumeFromWhere.FIRST_OFFSET
BODIES = [b"m%d" % i for i in range(12)]
"""0 to 4 in a batch of ours, 5 alone, 6 to 10 in a batch of Java's, 11 alone."""


@pytest.fixture(scope="module")
def topic(java: JavaPeer, java_broker: JavaServer) -> str:
    """A topic of one queue; its messages stand in four records."""
    name, namesrv = f"t-{uuid.uuid4().hex[:12]}", java_broker.namesrv
    where = ("-n", namesrv, "-b", java_broker.address, "-t", name, "-r", "1", "-w", "1")
    java.admin("updateTopic", *where, "-a", "+queue.type=BatchCQ")
    with Producer(group="p", namesrv=namesrv) as producer:
        producer.send_batch([Message(name, body, tags="a", keys="k") for body in BODIES[:5]])
        assert producer.send(Message(name, BODIES[5], tags="a", keys="k")).queue_offset == 5
        java.produce(namesrv, name, 5, mode="batch", batch=5, start=6, body="m{i}", tags="a")
        assert producer.send(Message(name, BODIES[11], tags="a", keys="k")).queue_offset == 11
    return name


@pytest.fixture(scope="module")
def as_java(java: JavaPeer, java_broker: JavaServer, topic: str) -> list[Seen]:
    """What Java's consumer is given."""
    return list(map(Seen.of_java, java.consume(java_broker.namesrv, topic, group(), 12, mode="lite")))


def test_lite_pull(java_broker: JavaServer, topic: str, as_java: list[Seen]) -> None:
    name, found = group(), list[Seen]()
    with LitePullConsumer(name, java_broker.namesrv, consume_from=FIRST) as member:
        member.subscribe(topic)
        while len(found) < 12:
            messages = member.poll(WAIT_SECONDS)
            assert messages, found
            found += map(Seen.of_ours, messages)
    assert found == as_java
    assert [(one.offset, one.body) for one in found] == list(enumerate(BODIES))
    assert len({one.msg_id for one in found}) == 12
    with Admin(java_broker.namesrv) as admin:
        assert list(admin.group_offsets(name, topic).values()) == [12]


def test_push(java_broker: JavaServer, topic: str, as_java: list[Seen]) -> None:
    name, inbox = group(), Inbox()
    with PushConsumer(name, java_broker.namesrv, consume_from=FIRST) as member:
        member.subscribe(topic, listener=inbox)
        member.start()
        assert sorted(inbox.wait(12), key=lambda seen: seen.offset) == as_java
    with Admin(java_broker.namesrv) as admin:
        eventually(lambda: list(admin.group_offsets(name, topic).values()), lambda offsets: offsets == [12])


@pytest.mark.filterwarnings("ignore:PullConsumer is deprecated")
def test_a_pull_in_the_midst_of_a_batch_brings_the_whole_of_it(java_broker: JavaServer, topic: str) -> None:
    with PullConsumer(group(), java_broker.namesrv) as member:
        [queue] = member.queues(topic)
        assert (member.min_offset(queue), member.max_offset(queue)) == (0, 12)
        result = member.pull(queue, 8, max_messages=1)
        assert [message.queue_offset for message in result.messages] == [6, 7, 8, 9, 10]
        assert result.next_offset == 11
