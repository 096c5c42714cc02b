"""Our clients on static topics: at our brokers and at Java's, while queues move between brokers."""

from __future__ import annotations

import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rocketmq_py import (
    Admin,
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    SendResult,
    TransactionProducer,
    TransactionState,
)
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageExt, MessageQueue, SendStatus
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import WAIT_SECONDS, Inbox, Seen, eventually, group
from tests.interop.static_pairs import BLOCK, EACH, MOCK, QUEUES, Pair, start_pair

FIRST = ConsumeFromWhere.FIRST_OFFSET


@pytest.fixture(scope="module", params=["both ours", "both java"])
def pair(request: pytest.FixtureRequest, java: JavaPeer, servers: OurServers) -> Pair:
    return start_pair(request.param, java, servers)


@pytest.fixture
def topic(pair: Pair) -> str:
    """A static topic that broker-a leads."""
    name = f"static-{uuid.uuid4().hex[:8]}"
    pair.create(name, "broker-a")
    return name


def queues_of(topic: str) -> list[MessageQueue]:
    return [MessageQueue(topic, MOCK, number) for number in range(QUEUES)]


def send(namesrv: str, topic: str, start: int, number: int) -> list[SendResult]:
    """Messages with their numbers as bodies, to the queues in turn."""
    queues = queues_of(topic)
    with Producer(group="p", namesrv=namesrv) as producer:
        return [
            producer.send(Message(topic, b"%d" % i), queue=queues[i % QUEUES]) for i in range(start, start + number)
        ]


class Sending:
    """A thread that sends messages with consecutive numbers, every third one to a queue of its own choice."""

    def __init__(self, namesrv: str, topic: str) -> None:
        self._namesrv = namesrv
        self._topic = topic
        self._stop = threading.Event()
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self.results: list[SendResult] = []
        self.error: RocketMQError | None = None
        self._thread.start()

    def _run(self) -> None:
        queues = queues_of(self._topic)
        try:
            with Producer(group="p", namesrv=self._namesrv) as producer:
                while not self._stop.is_set():
                    number = len(self.results)
                    message = Message(self._topic, b"%d" % number)
                    one = queues[number % QUEUES] if number % 3 == 0 else None
                    result = producer.send(message, queue=one)
                    with self._moved:
                        self.results.append(result)
                        self._moved.notify()
        except RocketMQError as e:
            self.error = e
            with self._moved:
                self._moved.notify()

    def wait_for(self, broker: str, number: int) -> None:
        """Until a broker has stored a number of messages more."""
        with self._moved:
            before = self._stored_at(broker)
            assert self._moved.wait_for(lambda: self.error or self._stored_at(broker) >= before + number, WAIT_SECONDS)
        assert self.error is None, self.error

    def _stored_at(self, broker: str) -> int:
        return sum(result.queue.broker_name == broker for result in self.results)

    def end(self) -> int:
        """Stop; how many messages were sent."""
        self._stop.set()
        self._thread.join()
        assert self.error is None, self.error
        assert {result.status for result in self.results} == {SendStatus.SEND_OK}
        return len(self.results)


@contextmanager
def pushed(namesrv: str, topic: str, name: str, *, orderly: bool = False) -> Iterator[Inbox]:
    inbox = Inbox()
    with PushConsumer(name, namesrv, consume_from=FIRST, orderly=orderly) as member:
        member.subscribe(topic, listener=inbox)
        member.start()
        yield inbox


def drained(member: LitePullConsumer, number: int) -> list[Seen]:
    found: list[Seen] = []
    while len(found) < number:
        messages = member.poll(WAIT_SECONDS)
        assert messages, f"{len(found)} of {number}"
        found += map(Seen.of_ours, messages)
    return found


def by_queue(seen: list[Seen]) -> dict[int, list[int]]:
    offsets = defaultdict(list)
    for one in seen:
        offsets[one.queue].append(one.offset)
    return offsets


def assert_each_once(seen: list[Seen], number: int) -> None:
    counts = Counter(int(one.body) for one in seen)
    assert counts.keys() == set(range(number)), "nothing is lost"
    assert set(counts.values()) == {1}, "nothing comes twice"


def test_queues_move_while_messages_are_sent_and_consumed(pair: Pair, topic: str) -> None:
    concurrent, orderly, lite = group(), group(), group()
    with (
        pushed(pair.namesrv, topic, concurrent) as inbox,
        pushed(pair.namesrv, topic, orderly, orderly=True) as ordered,
        LitePullConsumer(lite, pair.namesrv, consume_from=FIRST) as member,
    ):
        member.subscribe(topic)
        sending = Sending(pair.namesrv, topic)
        sending.wait_for("broker-a", 50)
        pair.remap(topic, "broker-b")
        sending.wait_for("broker-b", 50)
        pair.remap(topic, "broker-a")
        sending.wait_for("broker-a", 50)
        number = sending.end()
        assert_each_once(inbox.wait(number), number)
        assert_each_once(ordered.wait(number), number)
        assert_each_once(drained(member, number), number)
    for offsets in by_queue(ordered.seen).values():
        assert offsets == sorted(offsets), "an orderly consumer gets a queue in its order"
        assert {offset // BLOCK for offset in offsets} == {0, 1, 2}, "from all three physical queues"
    with LitePullConsumer(group(), pair.namesrv, consume_from=FIRST) as member:
        member.subscribe(topic)
        late = drained(member, number)
    assert_each_once(late, number)
    assert sorted((one.queue, one.offset) for one in late) == sorted((one.queue, one.offset) for one in ordered.seen)
    with Admin(pair.namesrv) as admin:
        ends = {queue: admin.max_offset(queue) for queue in queues_of(topic)}
        for name in (concurrent, orderly, lite):
            assert eventually(lambda name=name: admin.group_offsets(name, topic), lambda found: found == ends)


def test_a_group_goes_on_where_it_was_and_offsets_span_the_mapping(pair: Pair, topic: str) -> None:
    name = group()
    first = send(pair.namesrv, topic, 0, QUEUES * EACH)
    assert {result.queue.broker_name for result in first} == {"broker-a"}, "which stored them, as in Java"
    with pushed(pair.namesrv, topic, name) as inbox:
        inbox.wait(QUEUES * EACH)
    pair.remap(topic, "broker-b")
    pair.await_forwarding(topic)
    second = send(pair.namesrv, topic, QUEUES * EACH, QUEUES * EACH)
    assert {(result.queue.broker_name, result.queue_offset) for result in second} == {
        ("broker-b", BLOCK + n) for n in range(EACH)
    }
    with Admin(pair.namesrv) as admin:
        assert admin.queues(topic) == queues_of(topic)
        for queue in admin.queues(topic):
            assert admin.group_offset(name, queue) == EACH
            eventually(lambda queue=queue: admin.max_offset(queue), lambda end: end == BLOCK + EACH)
            assert admin.min_offset(queue) == 0
            stored = list(admin.read(queue))
            assert [(one.queue, one.queue_offset) for one in stored] == [
                (queue, offset) for offset in (*range(EACH), *range(BLOCK, BLOCK + EACH))
            ]
            assert admin.offset_at(queue, stored[0].store_timestamp) == 0
            if pair.kind == "both ours":  # a Java broker finds 0 for all times, where another broker has the first part
                assert admin.offset_at(queue, stored[EACH].store_timestamp) == BLOCK
            assert admin.lock_queue(name, queue)
            admin.unlock_queue(name, queue)
    with pushed(pair.namesrv, topic, name) as inbox:
        again = inbox.wait(QUEUES * EACH)
    with Admin(pair.namesrv) as admin:
        assert set(admin.group_offsets(name, topic).values()) == {BLOCK + EACH}
    assert sorted(int(one.body) for one in again) == list(range(QUEUES * EACH, 2 * QUEUES * EACH))


def test_a_failed_message_comes_again(pair: Pair, topic: str) -> None:
    """The broker that stores it is not known, so a copy goes to the retry topic, as in Java."""
    inbox = Inbox()

    def fail_first(message: MessageExt) -> bool:
        inbox(message)
        return message.reconsume_times > 0

    send(pair.namesrv, topic, 0, 1)
    pair.remap(topic, "broker-b")
    with PushConsumer(group(), pair.namesrv, consume_from=FIRST) as member:
        member.subscribe(topic, listener=fail_first)
        member.start()
        seen = inbox.wait(2)
    assert [(one.body, one.reconsume_times, one.topic) for one in seen] == [(b"0", 0, topic), (b"0", 1, topic)]


def test_a_transaction_ends_at_the_broker_that_has_its_half(pair: Pair, topic: str) -> None:
    with TransactionProducer(group(), pair.namesrv, check=lambda _: TransactionState.UNKNOWN) as producer:
        with producer.transaction(Message(topic, b"0")):
            pair.remap(topic, "broker-b")
        with pushed(pair.namesrv, topic, group()) as inbox:
            assert [one.body for one in inbox.wait(1)] == [b"0"]
