"""Consumers, name servers and brokers that are killed: consumption goes on by itself, and nothing is missed."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py import (
    Admin,
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PushConsumer,
)
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import WAIT_SECONDS, Inbox, Side, eventually, group

FIRST = ConsumeFromWhere.FIRST_OFFSET
QUEUES, N = 4, 40

MEMBER = """
import asyncio, sys
from rocketmq_py.aio import ConsumeFromWhere, LitePullConsumer, PushConsumer
from rocketmq_py.client.client_instance import ClientInstance

def took(message):
    print(message.queue_id, message.queue_offset, flush=True)

async def main(kind, namesrv, group, topic):
    instance = ClientInstance(namesrv, offset_interval=0.2)
    if kind == "lite":
        member = LitePullConsumer(group, instance=instance, consume_from=ConsumeFromWhere.FIRST_OFFSET,
                                  auto_commit_interval=1)
        member.subscribe(topic)
        await member.start()
        while True:
            for message in await member.poll():
                took(message)
    member = PushConsumer(group, instance=instance, consume_from=ConsumeFromWhere.FIRST_OFFSET)
    member.subscribe(topic, listener=took)
    await member.start()
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


class Member:
    """A consumer in a process of its own, and what it says it got: (queue id, offset)."""

    def __init__(self, kind: str, side: Side, name: str, topic: str) -> None:
        self.got: set[tuple[int, int]] = set()
        self.process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, kind, side.namesrv, name, topic], stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            queue_id, offset = line.split()
            self.got.add((int(queue_id), int(offset)))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


def send(namesrv: str, topic: str, count: int, start: int = 0) -> set[tuple[int, int]]:
    """Sends to all queues in turn; returns where the messages lie."""
    with Producer(group="p", namesrv=namesrv, send_timeout=60) as producer:
        results = [
            producer.send(Message(topic, b"%d" % i), queue=MessageQueue(topic, "broker-a", i % QUEUES))
            for i in range(start, start + count)
        ]
    return {(result.queue.queue_id, result.queue_offset) for result in results}


def stored(side: Side, name: str, topic: str) -> dict[int, int]:
    with Admin(side.namesrv) as admin:
        return {queue.queue_id: offset for queue, offset in admin.group_offsets(name, topic).items()}


class Survivor:
    """A member in this process that notes in which order it gets the messages of each queue."""

    def __init__(self) -> None:
        self.offsets: dict[int, list[int]] = defaultdict(list)

    def __call__(self, message: MessageExt) -> None:
        self.offsets[message.queue_id].append(message.queue_offset)

    @property
    def got(self) -> set[tuple[int, int]]:
        return {(queue_id, offset) for queue_id, offsets in list(self.offsets.items()) for offset in list(offsets)}


@pytest.mark.parametrize("kind", ["push", "lite"])
def test_queues_of_a_killed_consumer_continue_at_its_stored_offsets(java: JavaPeer, side: Side, kind: str) -> None:
    topic, name, survivor = side.topic(java, QUEUES), group(), Survivor()
    sent = send(side.namesrv, topic, N)
    victim = Member(kind, side, name, topic)
    try:
        eventually(lambda: sum(stored(side, name, topic).values()), lambda synced: synced == N)
        with PushConsumer(name, side.namesrv, consume_from=FIRST, consume_threads=1) as consumer:
            consumer.subscribe(topic, listener=survivor)
            consumer.start()
            mine = eventually(
                lambda: {queue.queue_id for queue in consumer.queues if queue.topic == topic},
                lambda queues: len(queues) == QUEUES // 2,
            )
            sent |= send(side.namesrv, topic, N, N)
            eventually(lambda: victim.got | survivor.got, lambda got: got == sent)
            before = stored(side, name, topic)
            victim.kill()
            sent |= send(side.namesrv, topic, N, 2 * N)
            eventually(lambda: victim.got | survivor.got, lambda got: got == sent)
            for queue_id in set(range(QUEUES)) - mine:
                first = survivor.offsets[queue_id][0]
                assert before[queue_id] <= first <= N // 2, "no later than where the other stopped"
    finally:
        victim.kill()
    eventually(lambda: sum(stored(side, name, topic).values()), lambda synced: synced == 3 * N)


@pytest.fixture
def servers_of_my_own(tmp_path: Path) -> Iterator[OurServers]:
    servers = OurServers(tmp_path)
    yield servers
    servers.close()


def test_the_next_name_server_is_used_when_one_dies(servers_of_my_own: OurServers) -> None:
    first, second = servers_of_my_own.namesrv(), servers_of_my_own.namesrv()
    both = f"{first.namesrv};{second.namesrv}"
    servers_of_my_own.serve(None, "--namesrv", both)
    inbox = Inbox()
    with Admin(both) as admin:
        admin.create_topic("before", QUEUES)
        with PushConsumer(group(), both, consume_from=FIRST) as consumer:
            consumer.subscribe("before", listener=inbox)
            consumer.start()
            send(both, "before", 4)
            inbox.wait(4)
            first.kill()
            send(both, "before", 4)
            inbox.wait(8)
            admin.create_topic("after", QUEUES)
            consumer.subscribe("after", listener=inbox)
            send(both, "after", 4)
            inbox.wait(12)


def test_consumers_continue_when_a_java_broker_is_back(java: JavaPeer, caplog: pytest.LogCaptureFixture) -> None:
    namesrv = java.namesrv().address
    broker = java.broker(namesrv)
    side = Side("java", namesrv, broker.address)
    topic, inbox, name = side.topic(java, QUEUES), Inbox(), group()
    caplog.set_level(logging.WARNING)
    with PushConsumer(name, namesrv, consume_from=FIRST) as push, LitePullConsumer(group(), namesrv) as lite:
        push.subscribe(topic, listener=inbox)
        push.start()
        lite.assign(lite.queues(topic))
        send(namesrv, topic, 8)
        inbox.wait(8)
        polled = drained(lite, 8)
        broker.process.kill()
        eventually(lambda: caplog.text, lambda text: f"{topic}@broker-a" in text and " failed, again in" in text)
        java.broker(namesrv, store=broker.store, port=int(broker.address.rpartition(":")[2]))
        sent = send(namesrv, topic, 8)
        inbox.until(lambda seen: sent <= {(one.queue, one.offset) for one in seen})
        polled |= drained(lite, 8)
        assert sent <= polled
        assert "works again" in caplog.text
        assert push.health().state == "running"


def drained(member: LitePullConsumer, count: int) -> set[tuple[int, int]]:
    """Where the next messages lie that are polled."""
    found: set[tuple[int, int]] = set()
    while len(found) < count:
        messages = member.poll(WAIT_SECONDS)
        assert messages, found
        found |= {(message.queue_id, message.queue_offset) for message in messages}
    return found
