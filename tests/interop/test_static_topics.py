"""Static topics: made and remapped by mqadmin, used by Java clients, at our brokers and at one of each kind."""

from __future__ import annotations

import uuid

import pytest

from rocketmq_py import Admin, MessageQueue
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.static_pairs import BLOCK, EACH, MOCK, QUEUES, Pair, start_pair


@pytest.fixture(scope="module", params=["both ours", "java leads first", "ours leads first"])
def pair(request: pytest.FixtureRequest, java: JavaPeer, servers: OurServers) -> Pair:
    return start_pair(request.param, java, servers)


def test_a_static_topic_is_created_remapped_and_consumed_across_the_mapping(pair: Pair) -> None:
    topic, group = f"static-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
    pair.create(topic, "broker-a")
    sent = pair.send(topic, 0)
    assert {row["broker"] for row in sent} <= {MOCK, "broker-a"}
    with Admin(pair.namesrv) as admin:
        # A Java broker that has no offset of a group loses offsets that its consumers commit at the same time.
        admin.create_group(group)
        admin.set_group_offset(group, MessageQueue(topic, MOCK, 0), 0)
    first = {queue: list(range(EACH)) for queue in range(QUEUES)}
    assert pair.consume(topic, group, QUEUES * EACH) == first
    assert pair.range(topic) == dict.fromkeys(range(QUEUES), (0, EACH))

    pair.remap(topic, "broker-b")
    sent = pair.send(topic, QUEUES * EACH)
    assert {row["queueOffset"] for row in sent} == set(range(BLOCK, BLOCK + EACH))
    second = {queue: [BLOCK + n for n in range(EACH)] for queue in range(QUEUES)}
    assert pair.consume(topic, group, QUEUES * EACH) == second, "the group goes on where it was"
    both = {queue: first[queue] + second[queue] for queue in range(QUEUES)}
    assert pair.consume(topic, f"{group}-new", 2 * QUEUES * EACH) == both, "a new group reads both brokers"
    assert pair.range(topic) == dict.fromkeys(range(QUEUES), (0, BLOCK + EACH))

    pair.remap(topic, "broker-a")
    pair.send(topic, 2 * QUEUES * EACH)
    third = {queue: [2 * BLOCK + n for n in range(EACH)] for queue in range(QUEUES)}
    assert pair.consume(topic, group, QUEUES * EACH) == third


def test_queues_are_added_to_a_static_topic(pair: Pair) -> None:
    topic = f"static-{uuid.uuid4().hex[:8]}"
    pair.create(topic, "broker-a,broker-b")
    pair.admin("updateStaticTopic", "-t", topic, "-qn", str(QUEUES + 2), "-b", "broker-a,broker-b")
    rows = pair.java.produce(pair.namesrv, topic, n=(QUEUES + 2) * 2, body="{i}")
    queues = [row["queueId"] for row in rows if row["type"] == "sent"]
    assert sorted(queues) == sorted([*range(QUEUES + 2)] * 2)
    assert set(pair.consume(topic, f"g-{uuid.uuid4().hex[:8]}", (QUEUES + 2) * 2)) == set(range(QUEUES + 2))
