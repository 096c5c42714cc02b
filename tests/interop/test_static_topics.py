"""Static topics: made and remapped by mqadmin, used by Java clients, at our brokers and at one of each kind."""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest

from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import eventually

QUEUES, EACH = 4, 3
BLOCK = 10_000
"""A remapped queue goes on at the next multiple of this but one (DEFAULT_BLOCK_SEQ_SIZE)."""
MOCK = "__syslo__global__"


@dataclass(frozen=True, slots=True)
class Pair:
    """``broker-a`` and ``broker-b`` at a name server of ours or of Java's."""

    java: JavaPeer
    namesrv: str

    def admin(self, verb: str, *args: str) -> str:
        return self.java.admin(verb, "-n", self.namesrv, *args)

    def create(self, topic: str, broker: str) -> None:
        self.admin("updateStaticTopic", "-t", topic, "-qn", str(QUEUES), "-b", broker)

    def remap(self, topic: str, broker: str) -> None:
        self.admin("remappingStaticTopic", "-t", topic, "-b", broker)

    def send(self, topic: str, start: int) -> list[dict[str, Any]]:
        rows = self.java.produce(self.namesrv, topic, n=QUEUES * EACH, start=start, body="{i}")
        return [row for row in rows if row["type"] == "sent"]

    def consume(self, topic: str, group: str, n: int, **named: Any) -> dict[int, list[int]]:
        """The offsets of each logical queue; every message is at the mock broker."""
        rows = self.java.consume(self.namesrv, topic, group, n=n, **{"from": "first", "timeout": 60} | named)
        received = [row for row in rows if row["type"] == "msg"]
        assert {row["broker"] for row in received} == {MOCK}
        offsets = defaultdict(list)
        for row in received:
            offsets[row["queueId"]].append(row["queueOffset"])
        return {queue: sorted(found) for queue, found in sorted(offsets.items())}

    def range(self, topic: str) -> dict[int, tuple[int, int]]:
        """Smallest and largest offset of the logical queues, as mqadmin shows them."""
        lines = (line.split() for line in self.admin("topicStatus", "-t", topic).splitlines())
        return {int(words[1]): (int(words[2]), int(words[3])) for words in lines if words and words[0] == MOCK}


@pytest.fixture(scope="module", params=["both ours", "java leads first", "ours leads first"])
def pair(request: pytest.FixtureRequest, java: JavaPeer, servers: OurServers) -> Pair:
    if request.param == "java leads first":
        theirs = java.broker(namesrv := java.namesrv().address, name="broker-a")
        addresses = {theirs.address, servers.serve(None, "--namesrv", namesrv, "--name", "broker-b").broker}
    else:
        namesrv = servers.namesrv().namesrv
        ours = servers.serve(None, "--namesrv", namesrv, "--name", "broker-a").broker
        other = (
            servers.serve(None, "--namesrv", namesrv, "--name", "broker-b").broker
            if request.param == "both ours"
            else java.broker(namesrv, name="broker-b").address
        )
        addresses = {ours, other}
    eventually(lambda: java.brokers(namesrv), lambda listed: listed == addresses)
    return Pair(java, namesrv)


def test_a_static_topic_is_created_remapped_and_consumed_across_the_mapping(pair: Pair) -> None:
    topic, group = f"static-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
    pair.create(topic, "broker-a")
    sent = pair.send(topic, 0)
    assert {row["broker"] for row in sent} <= {MOCK, "broker-a"}
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
