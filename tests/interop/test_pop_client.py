"""POP crosswise: our simple consumer and our push consumer in POP mode, on a Java broker and on ours, and beside a Java
member of the same group.
"""

from __future__ import annotations

import base64
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from rocketmq_py import (
    Admin,
    ConsumeFromWhere,
    InvalidReceipt,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    SimpleConsumer,
)
from tests.interop.javapeer import JavaPeer, JavaProcess
from tests.interop.side import WAIT_SECONDS, Inbox, Side, eventually, group

FIRST = ConsumeFromWhere.FIRST_OFFSET
QUEUES = 4


@pytest.fixture
def producer(side: Side) -> Iterator[Producer]:
    with Producer(group="p", namesrv=side.namesrv) as running:
        yield running


def pop_group(side: Side, topic: str, mode: str = "POP") -> str:
    """A new group whose members are told to pop the topic."""
    name = group()
    with Admin(side.namesrv) as admin:
        admin.create_group(name)
        admin.set_request_mode(name, topic, mode)
    return name


def send(producer: Producer, topic: str, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        producer.send(Message(topic, str(number)))


def number(message: MessageExt) -> int:
    return int(message.body)


def pop_time(message: MessageExt) -> int:
    """When the broker gave the message out, by its own clock."""
    return int(message.properties["POP_CK"].split()[1])


def received(member: SimpleConsumer, count: int, **options: float) -> list[MessageExt]:
    found: list[MessageExt] = []
    while len(found) < count:
        messages = member.receive(timeout=WAIT_SECONDS, **options)  # type: ignore[arg-type]
        assert messages, found
        found += messages
    return found


def simple(side: Side, name: str, topic: str, **options: object) -> SimpleConsumer:
    member = SimpleConsumer(name, side.namesrv, consume_from=FIRST, **options)  # type: ignore[arg-type]
    member.subscribe(topic)
    return member


# -- the simple consumer


def test_pops_in_flight_bring_each_message_once(java: JavaPeer, side: Side, producer: Producer) -> None:
    topic, inbox, count = side.topic(java, QUEUES), Inbox(), 600
    producer.send_batch([Message(topic, str(number)) for number in range(count // 2)])
    send(producer, topic, count // 2, count // 2)
    with simple(side, group(), topic) as member:
        messages = received(member, count, max_messages=1024)
        member.ack(messages)
    assert sorted(map(number, messages)) == list(range(count))
    with push(side, pop_group(side, topic), topic, inbox, pulls_in_flight="auto", pop_threshold_for_queue=512):
        assert sorted(int(one.body) for one in inbox.wait(count)) == list(range(count))


def test_unacked_messages_are_redelivered_after_their_invisible_time(
    java: JavaPeer, side: Side, producer: Producer
) -> None:
    topic, name = side.topic(java, QUEUES), group()
    java.produce(side.namesrv, topic, 40, body="{i}")
    with simple(side, name, topic) as one, simple(side, name, topic) as other:
        first = one.receive(10)
        rest = received(other, 40 - len(first))
        assert sorted(map(number, [*first, *rest])) == list(range(40))
        lost, kept, acked, *done = rest
        for message in (acked, kept):
            other.extend(message, 60)
        receipt = other.extend(kept, 5)
        assert receipt == kept.properties["POP_CK"]
        one.ack(first)
        other.ack([acked, *done])
        other.extend(lost, 2)

        again = {number(message): message for message in received(one, 2)}
        assert set(again) == {number(lost), number(kept)}
        assert pop_time(again[number(lost)]) >= pop_time(lost) + 2000
        assert pop_time(again[number(kept)]) >= int(receipt.split()[1]) + 5000
        assert {(message.reconsume_times, message.topic) for message in again.values()} == {(1, topic)}
        with pytest.raises(InvalidReceipt):
            other.ack(lost)
        one.ack(again.values())
        eventually(lambda: sum(one.lag().values()), lambda lag: lag == 0)


def test_messages_of_a_killed_member_go_to_the_others(java: JavaPeer, side: Side, producer: Producer) -> None:
    topic, name = side.topic(java, QUEUES), group()
    send(producer, topic, 12)
    with simple(side, name, topic) as dying:
        had = dying.receive(12, invisible_duration=2, timeout=WAIT_SECONDS)
        assert had
    with simple(side, name, topic) as heir:
        heir_s = received(heir, 12)
        assert sorted(map(number, heir_s)) == list(range(12))
        assert {number(one) for one in heir_s if one.reconsume_times} >= set(map(number, had))
        heir.ack(heir_s)


def test_an_orderly_queue_waits_for_the_ack_of_its_last_message(java: JavaPeer, side: Side, producer: Producer) -> None:
    topic, name = side.topic(java, 2), group()
    keys = range(4)
    for i in range(10):
        for key in keys:
            producer.send_ordered(Message(topic, f"{10 * key + i}"), key)
    seen: dict[int, list[int]] = defaultdict(list)
    with simple(side, name, topic, orderly=True) as one, simple(side, name, topic, orderly=True) as other:
        failed = False
        while sum(map(len, seen.values())) < 40:
            for member in (one, other):
                messages = member.receive(3, invisible_duration=20, timeout=0.2)
                if messages and not failed:  # none of a queue may pass those that are given back
                    failed = True
                    for message in messages:
                        member.extend(message, 1)
                    continue
                for message in messages:
                    seen[number(message) // 10].append(number(message) % 10)
                member.ack(messages)
    assert dict(seen) == {key: list(range(10)) for key in keys}


def test_messages_are_filtered_by_tag(java: JavaPeer, side: Side, producer: Producer) -> None:
    topic, name = side.topic(java, 1), group()
    for i in range(6):
        producer.send(Message(topic, str(i), tags="ab"[i % 2]))
    with SimpleConsumer(name, side.namesrv, consume_from=FIRST) as member:
        member.subscribe(topic, "b || c")
        found = received(member, 3)
        assert [number(message) for message in found] == [1, 3, 5]
        assert {message.tags for message in found} == {"b"}
        member.ack(found)
        assert member.receive(timeout=0) == []


# -- the push consumer


def push(side: Side, name: str, topic: str, listener: object, **options: object) -> PushConsumer:
    member = PushConsumer(
        name, side.namesrv, consume_from=FIRST, client_rebalance=False, **options,  # type: ignore[arg-type]
    )  # fmt: skip
    member.subscribe(topic, listener=listener)  # type: ignore[arg-type]
    return member


def test_failed_messages_are_redelivered_with_the_delays_of_java(
    java: JavaPeer, side: Side, producer: Producer
) -> None:
    topic, inbox = side.topic(java, QUEUES), Inbox()
    name = pop_group(side, topic)

    def listen(message: MessageExt) -> None:
        inbox(message)
        if message.body == b"7" and message.reconsume_times == 0:
            raise ValueError("on purpose")

    with push(side, name, topic, listen) as one, push(side, name, topic, listen) as other:
        for member in (one, other):
            assert [queue.queue_id for queue in member.queues if queue.topic == topic] == [-1]
        send(producer, topic, 40)
        seen = inbox.wait(41)
        assert Counter(seen_one.body for seen_one in seen) == Counter({**{b"%d" % i: 1 for i in range(40)}, b"7": 2})
        [again] = [one for one in seen if one.reconsume_times]
        assert (again.body, again.reconsume_times, again.topic) == (b"7", 1, topic)
        waited = int(again.properties["POP_CK"].split()[1]) - int(again.properties["1ST_POP_TIME"])
        assert waited >= 10_000
        eventually(lambda: sum(one.lag().values()), lambda lag: lag == 0)


def test_a_group_of_java_and_our_members_gets_every_message_once(
    java: JavaPeer, side: Side, producer: Producer
) -> None:
    topic, deliveries = side.topic(java, QUEUES), Deliveries()
    name = pop_group(side, topic)
    with java.consumer(side.namesrv, topic, name, mode="pop", timeout=600) as theirs:
        deliveries.read_java(theirs)
        with push(side, name, topic, deliveries.ours):

            def look() -> set[str]:
                before = deliveries.total
                send(producer, topic, 20, before)
                deliveries.wait(before + 20)
                return deliveries.owners()

            eventually(look, lambda owners: owners == {"ours", "java"})
        left = deliveries.total
        send(producer, topic, 20, left)
        deliveries.wait(left + 20)
    assert deliveries.counts() == Counter(range(left + 20))


class Deliveries:
    """Who got which number how often."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._got: list[tuple[str, int]] = []

    @property
    def total(self) -> int:
        return len(self._got)

    def ours(self, message: MessageExt) -> None:
        self._add("ours", message.body)

    def read_java(self, process: JavaProcess) -> None:
        threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def _read(self, process: JavaProcess) -> None:
        for row in process.rows(timeout=2 * WAIT_SECONDS):
            if row["type"] == "msg":
                self._add("java", base64.b64decode(row["body"]))

    def _add(self, who: str, body: bytes) -> None:
        with self._changed:
            self._got.append((who, int(body)))
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._got) >= count, WAIT_SECONDS), self.counts()

    def owners(self) -> set[str]:
        return {who for who, _ in self._got}

    def counts(self) -> Counter[int]:
        return Counter(number for _, number in self._got)


def test_a_broker_can_switch_a_group_between_pop_and_pull(java: JavaPeer, side: Side, producer: Producer) -> None:
    topic, inbox = side.topic(java, QUEUES), Inbox()
    name = pop_group(side, topic, "PULL")
    with Admin(side.namesrv) as admin, push(side, name, topic, inbox, rebalance_interval=0.3) as member:

        def queues() -> list[int]:
            return [queue.queue_id for queue in member.queues if queue.topic == topic]

        def have(count: int) -> None:
            # Offsets are committed from time to time: what was pulled last may be popped again. Nothing is left out.
            inbox.until(lambda seen: {int(one.body) for one in seen} == set(range(count)))

        eventually(queues, lambda found: found == list(range(QUEUES)))
        send(producer, topic, 10)
        have(10)
        admin.set_request_mode(name, topic, "POP")
        eventually(queues, lambda found: found == [-1])
        send(producer, topic, 10, 10)
        have(20)
        admin.set_request_mode(name, topic, "PULL")
        eventually(queues, lambda found: found == list(range(QUEUES)))
        send(producer, topic, 10, 20)
        have(30)


def test_broker_assigned_queues_are_shared_by_members(java: JavaPeer, side: Side, producer: Producer) -> None:
    topic, inbox = side.topic(java, QUEUES), Inbox()
    name = pop_group(side, topic, "PULL")
    with push(side, name, topic, inbox) as one, push(side, name, topic, inbox) as other:

        def shares() -> list[list[int]]:
            return [[queue.queue_id for queue in m.queues if queue.topic == topic] for m in (one, other)]

        eventually(shares, lambda seen: {*map(len, seen)} == {2} and {*seen[0], *seen[1]} == {*range(QUEUES)})
        send(producer, topic, 20)
        assert sorted(int(each.body) for each in inbox.wait(20)) == list(range(20))


def test_orderly_pops_keep_their_order_while_members_change(java: JavaPeer, side: Side, producer: Producer) -> None:
    topic, changed = side.topic(java, QUEUES), threading.Condition()
    name = pop_group(side, topic)
    keys, failed = range(6), set[bytes]()
    seen: dict[int, list[int]] = defaultdict(list)

    def listen(message: MessageExt) -> None:
        with changed:
            if message.body.endswith(b"3") and message.body not in failed:
                failed.add(message.body)
                raise ValueError("on purpose")
            seen[number(message) // 100].append(number(message) % 100)
            changed.notify_all()

    def member() -> PushConsumer:
        return push(side, name, topic, listen, orderly=True, suspend_seconds=0.01, pop_invisible_time=30)

    def rounds(numbers: range) -> None:
        for i in numbers:
            for key in keys:
                producer.send_ordered(Message(topic, f"{100 * key + i}"), key)

    def wait(count: int) -> None:
        with changed:
            assert changed.wait_for(lambda: sum(map(len, seen.values())) >= count * len(keys), WAIT_SECONDS), seen

    with member() as one:
        rounds(range(10))
        wait(5)
        with member():
            wait(10)
            rounds(range(10, 20))
            one.close()
            wait(20)
    assert dict(seen) == {key: list(range(20)) for key in keys}
