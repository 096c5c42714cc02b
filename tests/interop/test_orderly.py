"""Orderly consumption across the two implementations: either consumer on either broker, and both in one group."""

from __future__ import annotations

import base64
import threading
from collections import defaultdict

from rocketmq_py import ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer
from tests.interop.javapeer import JavaPeer, JavaProcess, Row
from tests.interop.side import WAIT_SECONDS, Inbox, Side, eventually, group

FIRST = ConsumeFromWhere.FIRST_OFFSET
KEYS = 6
QUEUES = 4


class Sequence:
    """Sends numbered messages of several keys and remembers how many."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic = producer, topic
        self.sent = 0

    def send(self, rounds: int) -> None:
        for _ in range(rounds):
            for key in range(KEYS):
                self._producer.send_ordered(Message(self._topic, f"{key} {self.sent}"), key)
            self.sent += 1


class Deliveries:
    """Who got which number of which key, in order of time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers: dict[int, list[tuple[str, int]]] = defaultdict(list)

    def add(self, who: str, body: bytes) -> None:
        key, number = map(int, body.split())
        with self._changed:
            self._numbers[key].append((who, number))
            self._changed.notify_all()

    def ours(self, message: MessageExt) -> None:
        self.add("ours", message.body)

    def read_java(self, process: JavaProcess) -> None:
        threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def _read(self, process: JavaProcess) -> None:
        for row in process.rows(timeout=2 * WAIT_SECONDS):
            if row["type"] == "msg":
                self.add("java", base64.b64decode(row["body"]))

    def wait(self, numbers: int) -> None:
        """Until each key's messages have all come."""
        with self._changed:
            done = self._changed.wait_for(
                lambda: all(self._last(key) == numbers - 1 for key in range(KEYS)), WAIT_SECONDS
            )
        assert done, {key: self._numbers[key][-3:] for key in range(KEYS)}

    def _last(self, key: int) -> int:
        return self._numbers[key][-1][1] if self._numbers[key] else -1

    def owners(self) -> set[str]:
        """Who got the last message of some key."""
        return {self._numbers[key][-1][0] for key in range(KEYS)}

    def check(self, *, java_may_repeat: bool = False) -> None:
        """No number is left out, and none comes again; a Java member stores its offsets every few seconds only, so the
        next owner of its queues may go back, but never forward."""
        for key, entries in self._numbers.items():
            last, owner = -1, ""
            for who, number in entries:
                if who != owner == "java" and java_may_repeat:
                    assert number <= last + 1, (key, entries)
                else:
                    assert number == last + 1, (key, entries)
                last, owner = number, who


def our_consumer(side: Side, name: str, topic: str, listener: object, **options: object) -> PushConsumer:
    consumer = PushConsumer(
        name,
        side.namesrv,
        orderly=True,
        consume_from=FIRST,
        suspend_seconds=0.01,
        **options,  # type: ignore[arg-type]
    )
    consumer.subscribe(topic, listener=listener)  # type: ignore[arg-type]
    return consumer


def by_queue(rows: list[Row]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        if row["ok"]:
            found[row["queueId"]].append(row["queueOffset"])
    return found


def test_our_orderly_consumer_gets_each_key_in_order_and_retries_in_place(java: JavaPeer, side: Side) -> None:
    topic, deliveries, failed = side.topic(java, QUEUES), Deliveries(), set[bytes]()

    def listen(message: MessageExt) -> None:
        if message.body.endswith(b" 3") and message.body not in failed:
            failed.add(message.body)
            raise ValueError("on purpose")
        deliveries.ours(message)

    java.produce(side.namesrv, topic, 12, mode="orderly", body="0 {i}", hash_key="one key")
    with Producer("p", side.namesrv) as producer, our_consumer(side, group(), topic, listen):
        sequence = Sequence(producer, topic)
        for key in range(1, KEYS):
            for number in range(12):
                producer.send_ordered(Message(topic, f"{key} {number}"), key)
        sequence.sent = 12
        deliveries.wait(12)
    deliveries.check()
    assert len(failed) == KEYS


def test_a_java_orderly_consumer_gets_each_queue_in_order_and_retries_in_place(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java, QUEUES)
    with Producer("p", side.namesrv) as producer:
        Sequence(producer, topic).send(5)
    rows = java.consume(side.namesrv, topic, group(), 2 * 5 * KEYS, mode="orderly", fail_times=1, suspend_ms=10)
    for offsets in by_queue(rows).values():
        assert offsets == list(range(len(offsets)))
    assert {row["reconsumeTimes"] for row in rows if row["ok"]} == {1}


def test_our_orderly_consumer_sends_exhausted_messages_to_the_dead_letter_topic(java: JavaPeer, side: Side) -> None:
    topic, name, inbox = side.topic(java, 1), group(), Inbox()

    def listen(message: MessageExt) -> None:
        inbox(message)
        if message.body == b"1":
            raise ValueError("on purpose")

    with Producer("p", side.namesrv) as producer:
        for i in range(3):
            producer.send(Message(topic, b"%d" % i, keys=f"k{i}"))
    with our_consumer(side, name, topic, listen, max_reconsume_times=2):
        seen = inbox.wait(5)
        assert [one.body for one in seen] == [b"0", b"1", b"1", b"1", b"2"]
        [dead] = java.consume(side.namesrv, f"%DLQ%{name}", group(), 1)
    assert base64.b64decode(dead["body"]) == b"1"
    assert dead["keys"] == "k1"
    assert dead["properties"]["RETRY_TOPIC"] == topic


def test_members_of_both_clients_hand_over_queues_in_order(java: JavaPeer, side: Side) -> None:
    topic, name, deliveries = side.topic(java, QUEUES), group(), Deliveries()
    with Producer("p", side.namesrv) as producer:
        sequence = Sequence(producer, topic)

        def until_served_by(owners: set[str]) -> None:
            def look() -> set[str]:
                sequence.send(1)
                deliveries.wait(sequence.sent)
                return deliveries.owners()

            eventually(look, lambda seen: seen == owners)

        with our_consumer(side, name, topic, deliveries.ours) as ours:
            until_served_by({"ours"})
            with java.consumer(side.namesrv, topic, name, mode="orderly", timeout=600) as theirs:
                deliveries.read_java(theirs)
                until_served_by({"ours", "java"})
                ours.close()
                until_served_by({"java"})
                with our_consumer(side, name, topic, deliveries.ours):
                    until_served_by({"ours", "java"})
                    theirs.terminate()
                    until_served_by({"ours"})
    deliveries.check(java_may_repeat=True)
