"""``broker-a`` and ``broker-b`` at one name server, and mqadmin's commands about static topics there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from rocketmq_py import Admin
from rocketmq_py.errors import SystemError_
from rocketmq_py.model import MessageQueue
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
    kind: str

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
        rows = self.java.consume(self.namesrv, topic, group, n=n, **{"from": "first"} | named)
        received = [row for row in rows if row["type"] == "msg"]
        assert {row["broker"] for row in received} == {MOCK}
        offsets = defaultdict(list)
        for row in received:
            offsets[row["queueId"]].append(row["queueOffset"])
        return {queue: sorted(found) for queue, found in sorted(offsets.items())}

    def await_forwarding(self, topic: str) -> None:
        """Until the leader finds the brokers of earlier physical queues; a Java broker looks for them every 10 s."""

        def known() -> bool:
            with Admin(self.namesrv) as admin:
                try:
                    return all(admin.min_offset(MessageQueue(topic, MOCK, number)) == 0 for number in range(QUEUES))
                except SystemError_:
                    return False

        eventually(known, bool)

    def range(self, topic: str) -> dict[int, tuple[int, int]]:
        """Smallest and largest offset of the logical queues, as mqadmin shows them."""
        lines = (line.split() for line in self.admin("topicStatus", "-t", topic).splitlines())
        return {int(words[1]): (int(words[2]), int(words[3])) for words in lines if words and words[0] == MOCK}


def start_pair(kind: str, java: JavaPeer, servers: OurServers) -> Pair:
    """:param kind: ``both ours``, ``both java``, ``java leads first`` or ``ours leads first``: broker-a leads first."""
    if kind in ("both java", "java leads first"):
        namesrv = java.namesrv().address
        first = java.broker(namesrv, name="broker-a").address
    else:
        namesrv = servers.namesrv().namesrv
        first = servers.serve(None, "--namesrv", namesrv, "--name", "broker-a").broker
    if kind in ("both java", "ours leads first"):
        second = java.broker(namesrv, name="broker-b").address
    else:
        second = servers.serve(None, "--namesrv", namesrv, "--name", "broker-b").broker
    eventually(lambda: java.brokers(namesrv), lambda listed: listed == {first, second})
    return Pair(java, namesrv, kind)
