"""Damage in the commit log of a Java broker, which sends it: our consumers lose the damaged messages and no others."""

from __future__ import annotations

import random
import threading
from typing import Any

from rocketmq_py import (
    Admin,
    ConsumeFromWhere,
    DamagedMessage,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PushConsumer,
    SimpleConsumer,
)
from rocketmq_py.wire.record import FIXED_SIZE
from tests.interop.javapeer import JavaPeer, JavaServer
from tests.interop.ours import OurServers
from tests.interop.side import WAIT_SECONDS, Side, await_readable, group

COUNT, GARBAGE, FLIPPED = 400, 4096, 37
Options = dict[str, Any]


def body_of(offset: int) -> bytes:
    return b"%04d" % offset * 60


class Collected:
    """What a consumer gets and skips, until both are ``COUNT`` together."""

    def __init__(self) -> None:
        self.whole: list[int] = []
        self.damaged: list[int] = []
        self.done = threading.Event()

    def take(self, message: MessageExt) -> None:
        assert message.body == body_of(message.queue_offset)
        self.whole.append(message.queue_offset)
        self._check()

    def skip(self, damaged: DamagedMessage) -> None:
        self.damaged.append(damaged.offset)
        self._check()

    def _check(self) -> None:
        if len(self.whole) + len(self.damaged) >= COUNT:
            self.done.set()


def damaged_queue(java: JavaPeer, broker: JavaServer) -> tuple[str, set[int]]:
    """A topic of one queue, and the offsets of its messages that are damaged: by 4 KiB of garbage, and by one bit."""
    topic = Side("java", broker.namesrv, broker.address).topic(java, 1)
    with Producer("p", broker.namesrv) as producer, Admin(broker.namesrv) as admin:
        queue = MessageQueue(topic, "broker-a", 0)
        for offset in range(COUNT):
            producer.send(Message(topic, body_of(offset)), queue=queue)
        await_readable(broker.namesrv, topic, COUNT)
        places = {m.queue_offset: (m.commit_log_offset, m.store_size) for m in admin.read(queue)}
    assert len(places) == COUNT
    log = min((broker.store / "commitlog").iterdir())  # Java allocates the next file ahead
    at = places[200][0] + 50
    with log.open("r+b") as file:
        file.seek(at)
        file.write(random.Random(3).randbytes(GARBAGE))
        file.seek(places[FLIPPED][0] + FIXED_SIZE + 5)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 4]))
    hit = {offset for offset, (start, size) in places.items() if start < at + GARBAGE and start + size > at}
    assert 5 < len(hit) < 20
    return topic, hit | {FLIPPED}


def test_each_damaged_message_is_named_once_and_all_others_come_in_order(java: JavaPeer, servers: OurServers) -> None:
    broker = java.broker(servers.namesrv().namesrv)
    topic, hit = damaged_queue(java, broker)
    whole = [offset for offset in range(COUNT) if offset not in hit]
    options: Options = {"consume_from": ConsumeFromWhere.FIRST_OFFSET}
    pushed = Collected()
    with PushConsumer(
        group(), broker.namesrv, listener=pushed.take, on_damaged=pushed.skip, consume_threads=1, **options
    ) as consumer:
        consumer.subscribe(topic)
        consumer.start()
        assert pushed.done.wait(WAIT_SECONDS)
        assert consumer.health().damaged == len(hit)
    assert (pushed.whole, pushed.damaged) == (whole, sorted(hit))
    popped = Collected()
    with SimpleConsumer(group(), broker.namesrv, on_damaged=popped.skip, **options) as simple:
        simple.subscribe(topic)
        while not popped.done.is_set():
            messages = simple.receive(32, timeout=WAIT_SECONDS)
            assert messages
            for message in messages:
                popped.take(message)
            simple.ack(messages)
    assert (sorted(popped.whole), sorted(popped.damaged)) == (whole, sorted(hit))


def test_pops_of_both_kinds_of_consumers_pass_over_damage_in_our_broker(java: JavaPeer, servers: OurServers) -> None:
    """Our answers name the damaged messages in a field that Java's consumers do not know."""
    store, topic, hit = servers.work / "damaged", "damaged-pops", [0, 200, 201]
    ours = servers.serve(store)
    with Producer("p", ours.namesrv) as producer, Admin(ours.namesrv) as admin:
        admin.create_topic(topic, queues=1)
        queue = MessageQueue(topic, "broker-a", 0)
        sent = [producer.send(Message(topic, body_of(offset)), queue=queue).msg_id for offset in range(COUNT)]
        places = {m.queue_offset: m.commit_log_offset for m in admin.read(queue)}
    ours.stop()
    with min((store / "commitlog").iterdir()).open("r+b") as file:
        for offset in hit:
            file.seek(places[offset] + 4)
            file.write(b"\0" * 4)
    ours = servers.serve(store)
    whole = [offset for offset in range(COUNT) if offset not in hit]
    rows = java.consume(ours.namesrv, topic, group(), len(whole), mode="pop")
    assert sorted(row["msgId"] for row in rows) == sorted(sent[offset] for offset in whole)
    popped = Collected()
    with SimpleConsumer(
        group(), ours.namesrv, on_damaged=popped.skip, consume_from=ConsumeFromWhere.FIRST_OFFSET
    ) as simple:
        simple.subscribe(topic)
        while not popped.done.is_set():
            messages = simple.receive(32, timeout=WAIT_SECONDS)
            assert messages
            for message in messages:
                popped.take(message)
            simple.ack(messages)
        assert simple.health().damaged == len(hit)
    assert (sorted(popped.whole), sorted(popped.damaged)) == (whole, hit)
