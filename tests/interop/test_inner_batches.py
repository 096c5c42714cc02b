"""Topics with batch consume queues: one record for a whole batch, which consumers take apart; on both brokers."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from rocketmq_py import Admin, ConsumeFromWhere, LitePullConsumer, Message, Producer, PullConsumer, PushConsumer
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import WAIT_SECONDS, Inbox, Seen, Side, eventually, group
from tests.server.rawpeer import RawPeer

FIRST = ConsumeFromWhere.FIRST_OFFSET
BODIES = [b"m%d" % i for i in range(12)]
"""0 to 4 in a batch of ours, 5 alone, 6 to 10 in a batch of Java's, 11 alone."""


@pytest.fixture(scope="module")
def topic(java: JavaPeer, side: Side) -> str:
    """A topic of one queue; its messages stand in four records."""
    name = make(java, side.namesrv, side.broker)
    send(java, side.namesrv, name)
    return name


def make(java: JavaPeer, namesrv: str, broker: str) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    where = ("-n", namesrv, "-b", broker, "-t", name, "-r", "1", "-w", "1")
    java.admin("updateTopic", *where, "-a", "+queue.type=BatchCQ")
    return name


def send(java: JavaPeer, namesrv: str, topic: str, base: int = 0) -> None:
    with Producer(group="p", namesrv=namesrv) as producer:
        batch = producer.send_batch([Message(topic, body, tags="a", keys="k") for body in BODIES[:5]])
        assert batch.queue_offset == base
        assert producer.send(Message(topic, BODIES[5], tags="a", keys="k")).queue_offset == base + 5
        java.produce(namesrv, topic, 5, mode="batch", batch=5, start=6, body="m{i}", tags="a")
        assert producer.send(Message(topic, BODIES[11], tags="a", keys="k")).queue_offset == base + 11


@pytest.fixture(scope="module")
def as_java(java: JavaPeer, side: Side, topic: str) -> list[Seen]:
    """What Java's consumer is given."""
    return list(map(Seen.of_java, java.consume(side.namesrv, topic, group(), 12, mode="lite")))


def test_lite_pull_consumers_read_inner_batches(side: Side, topic: str, as_java: list[Seen]) -> None:
    name, found = group(), list[Seen]()
    with LitePullConsumer(name, side.namesrv, consume_from=FIRST) as member:
        member.subscribe(topic)
        while len(found) < 12:
            messages = member.poll(WAIT_SECONDS)
            assert messages, found
            found += map(Seen.of_ours, messages)
    assert found == as_java
    assert [(one.offset, one.body) for one in found] == list(enumerate(BODIES))
    assert len({one.msg_id for one in found}) == 12
    with Admin(side.namesrv) as admin:
        assert list(admin.group_offsets(name, topic).values()) == [12]


def test_push_consumers_read_inner_batches(side: Side, topic: str, as_java: list[Seen]) -> None:
    name, inbox = group(), Inbox()
    with PushConsumer(name, side.namesrv, consume_from=FIRST) as member:
        member.subscribe(topic, listener=inbox)
        member.start()
        assert sorted(inbox.wait(12), key=lambda seen: seen.offset) == as_java
    with Admin(side.namesrv) as admin:
        eventually(lambda: list(admin.group_offsets(name, topic).values()), lambda offsets: offsets == [12])


@pytest.mark.filterwarnings("ignore:PullConsumer is deprecated")
def test_a_pull_inside_a_batch_returns_the_whole_batch(side: Side, topic: str) -> None:
    with PullConsumer(group(), side.namesrv) as member:
        [queue] = member.queues(topic)
        assert (member.min_offset(queue), member.max_offset(queue)) == (0, 12)
        result = member.pull(queue, 8, max_messages=1)
        assert [message.queue_offset for message in result.messages] == [6, 7, 8, 9, 10]
        assert result.next_offset == 11


@pytest.mark.filterwarnings("ignore:PullConsumer is deprecated")
def test_offsets_by_time_and_queue_entries_are_equal(java: JavaPeer, side: Side, topic: str) -> None:
    with PullConsumer(group(), side.namesrv) as member:
        [queue] = member.queues(topic)
        assert [member.offset_for_timestamp(queue, at) for at in (1, 4102444800000)] == [0, 11]
    told = java.admin("queryCq", "-n", side.namesrv, "-b", side.broker, "-t", topic, "-q", "0", "-i", "3", "-c", "3")
    assert re.findall(r"physicSize=(\d+), tagsCode=(\d+)", told) == [("694", "0"), ("235", "97")]


@pytest.mark.filterwarnings("ignore:PullConsumer is deprecated")
def test_a_batch_queue_begins_at_minus_one_until_it_has_a_message(java: JavaPeer, side: Side) -> None:
    name = make(java, side.namesrv, side.broker)
    side.await_route(name)
    with RawPeer(side.broker) as peer:
        codes = (Code.GET_MIN_OFFSET, Code.GET_MAX_OFFSET)
        asked = [peer.ask(code, {"topic": name, "queueId": "0"}).ext["offset"] for code in codes]
    assert asked == ["-1", "0"]
    with PullConsumer(group(), side.namesrv) as member:
        [queue] = member.queues(name)
        found = member.pull(queue, 0)
        assert (found.messages, found.min_offset, found.max_offset) == ([], -1, 0)
        assert member.min_offset(queue) == 0, "where a reader begins"
    with Producer(group="p", namesrv=side.namesrv) as producer:
        producer.send_batch([Message(name, body) for body in BODIES[:5]])
    with RawPeer(side.broker) as peer:
        first = lambda: peer.ask(Code.GET_MIN_OFFSET, {"topic": name, "queueId": "0"}).ext["offset"]  # noqa: E731
        assert eventually(first, lambda offset: offset == "0")


def test_both_brokers_use_one_store_in_turn(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ours = servers.serve(store)
    topic = make(java, ours.namesrv, ours.broker)
    send(java, ours.namesrv, topic)
    ours.stop()

    theirs = java.broker(servers.namesrv().namesrv, store=store)
    assert_bodies(java, theirs.namesrv, topic, 1)
    send(java, theirs.namesrv, topic, 12)
    theirs.process.stop()
    assert not (store / "abort").exists()

    ours = servers.serve(store)
    assert_bodies(java, ours.namesrv, topic, 2)
    send(java, ours.namesrv, topic, 24)
    ours.kill()

    ours = servers.serve(store)
    assert_bodies(java, ours.namesrv, topic, 3)
    ours.stop()
    assert [path.name for path in (store / "batchconsumequeue").iterdir()] == [topic]
    assert not (store / "consumequeue" / topic).exists()


def assert_bodies(java: JavaPeer, namesrv: str, topic: str, rounds: int) -> None:
    """Java's consumer is given each round of messages, at dense offsets."""
    found = map(Seen.of_java, java.consume(namesrv, topic, group(), 12 * rounds, mode="lite"))
    assert [(one.offset, one.body) for one in found] == list(enumerate(BODIES * rounds))
