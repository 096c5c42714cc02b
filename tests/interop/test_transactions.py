"""Transactions crosswise: either producer with either broker, one store under both brokers, the same words of refusal.

The Java broker is one of its own: after its first committed transaction it keeps a core busy for good.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py import (
    Admin,
    ConsumeFromWhere,
    Message,
    MessageExt,
    MessageQueue,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.spark.decision_store.decisions import Decisions
from rocketmq_py.spark.sink.exactly_once import Committer
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.ids import parse_offset_msg_id
from tests.interop.javapeer import JavaPeer, JavaProcess, JavaServer, options
from tests.interop.ours import OurServer, OurServers
from tests.interop.side import WAIT_SECONDS, Inbox, Side, eventually, group
from tests.spark.exactsink import Crash, DiesAfterTheEnds, DiesBetweenTheEnds, Sink

COMMIT, ROLLBACK, UNKNOWN = TransactionState
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
SOON = {
    "transactionCheckInterval": 1000, "transactionTimeOut": 1000, "transactionOpBatchInterval": 500,
    "transactionCheckMax": 10**6,
}  # fmt: skip
"""Checks as soon as both brokers bear it, and never given up: the defaults are 30 s, 6 s, 3 s and 15 times."""
NEVER = {**SOON, "transactionCheckInterval": 10**8}


@pytest.fixture(scope="module")
def java_side(java: JavaPeer, servers: OurServers) -> Iterator[Side]:
    broker: JavaServer = java.broker(servers.namesrv().namesrv, conf=SOON)
    yield Side("java", broker.namesrv, broker.address)
    broker.process.kill()


@pytest.fixture(scope="module")
def our_side(servers: OurServers) -> Iterator[Side]:
    server: OurServer = servers.serve(None, **SOON)
    yield Side("ours", server.namesrv, server.broker)
    server.stop()


@pytest.fixture(scope="module", params=["ours", "java"])
def tx_side(request: pytest.FixtureRequest) -> Side:
    side: Side = request.getfixturevalue("our_side" if request.param == "ours" else "java_side")
    return side


class Asked:
    """A check that says what it is told, and remembers what it was asked."""

    def __init__(self, state: TransactionState = UNKNOWN) -> None:
        self.state = state
        self.states: dict[str | None, TransactionState] = {}
        self.ids: set[str | None] = set()
        self.messages: list[MessageExt] = []
        self._changed = threading.Condition()

    def __call__(self, message: MessageExt) -> TransactionState:
        with self._changed:
            self.ids.add(message.transaction_id)
            self.messages.append(message)
            self._changed.notify_all()
            return self.states.get(message.transaction_id, self.state)

    def wait(self, ids: set[str]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.ids >= ids, WAIT_SECONDS), (self.ids, ids)


def send(producer: TransactionProducer, topic: str, state: TransactionState, body: str) -> str:
    """One transaction, ended so; its id."""
    with producer.transaction(Message(topic, body, tags="A", keys=f"k-{body}")) as tx:
        {COMMIT: tx.commit, ROLLBACK: tx.rollback, UNKNOWN: tx.leave_open}[state]()
    return tx.transaction_id


def consume(namesrv: str, topic: str, n: int) -> list[MessageExt]:
    """Everything delivered, once there are ``n``; none may be one too many."""
    inbox, messages = Inbox(), []

    def listen(message: MessageExt) -> None:
        messages.append(message)
        inbox(message)

    with PushConsumer(group(), namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, "*", listen)
        consumer.start()
        inbox.wait(n)
    return messages


def bodies(messages: list[MessageExt]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


def ask(broker: str, code: RequestCode, header: Any) -> Command:
    async def asked() -> Command:
        connections = ConnectionPool()
        try:
            return await connections.invoke(broker, code, header, check=False, timeout=30)
        finally:
            await connections.close()

    return asyncio.run(asked())


# -- either producer, either broker


def test_our_producer_commits_and_rolls_back(java: JavaPeer, tx_side: Side) -> None:
    """Commit, rollback, and what is asked about: seen by a Java consumer."""
    topic, check = tx_side.topic(java), Asked()
    with TransactionProducer(group(), tx_side.namesrv, check=check) as producer:
        ids = {state: send(producer, topic, state, state.name) for state in (COMMIT, ROLLBACK, UNKNOWN)}
        # On a busy machine a broker may ask for what is ended before it has seen the end.
        check.states |= {ids[COMMIT]: UNKNOWN, ids[ROLLBACK]: ROLLBACK}
        check.wait({ids[UNKNOWN]})
        check.state = COMMIT
        rows = java.consume(tx_side.namesrv, topic, group(), 2)
    assert {row["msgId"] for row in rows} == {ids[COMMIT], ids[UNKNOWN]}
    assert {(row["tags"], row["keys"]) for row in rows} == {("A", "k-COMMIT"), ("A", "k-UNKNOWN")}
    asked = next(message for message in check.messages if message.transaction_id == ids[UNKNOWN])
    assert (asked.topic, asked.body, asked.properties["TRANSACTION_CHECK_TIMES"]) == (topic, b"UNKNOWN", "1")
    assert bodies(consume(tx_side.namesrv, topic, 2)) == ["COMMIT", "UNKNOWN"]


def java_producer(java: JavaPeer, side: Side, topic: str, tx: str, check: str, n: int) -> JavaProcess:
    """A Java producer that has sent, and stays to be asked."""
    flags = options(namesrv=side.namesrv, topic=topic, n=n, mode="tx", tx=tx, check=check, group=group(), body="{i}",
                    linger_ms=600_000)  # fmt: skip
    return java.start("produce", *flags)


def test_a_java_producer_commits_and_rolls_back(java: JavaPeer, our_side: Side) -> None:
    """By number modulo 3: commit, rollback, and what is asked about."""
    topic = our_side.topic(java)
    with java_producer(java, our_side, topic, "cycle", "commit", 6) as producer:
        sent = [row for row in producer.until(lambda row: row.get("i") == 5) if row["type"] == "sent"]
        assert [row["localState"] for row in sent] == ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"] * 2
        found = consume(our_side.namesrv, topic, 4)
    assert bodies(found) == ["0", "2", "3", "5"]
    assert {message.transaction_id for message in found} == {sent[i]["transactionId"] for i in (0, 2, 3, 5)}


def test_a_java_producer_rolls_back_after_a_check(java: JavaPeer, our_side: Side) -> None:
    topic = our_side.topic(java)
    with java_producer(java, our_side, topic, "unknown", "rollback", 2) as producer:
        producer.until(lambda row: row.get("i") == 1)
        with Admin(our_side.namesrv) as admin:
            eventually(
                lambda: [half for half in admin.open_transactions() if half.properties["REAL_TOPIC"] == topic],
                lambda halves: not halves,
            )
    with TransactionProducer(group(), our_side.namesrv, check=Asked()) as ours:
        send(ours, topic, COMMIT, "end")
    assert bodies(consume(our_side.namesrv, topic, 1)) == ["end"]


# -- what is stored


def queue(topic: str) -> MessageQueue:
    return MessageQueue(topic, "broker-a", 0)


def shape(message: MessageExt) -> tuple[Any, ...]:
    """What two brokers must agree on; properties stand in an order of Java's hash tables there."""
    topic = message.topic if message.topic in (HALF, OP) else "its own"
    return topic, message.queue_id, message.sys_flag, message.flag, message.tags, sorted(message.properties)


def stored_by(java: JavaPeer, side: Side) -> list[tuple[Any, ...]]:
    """A half message, its op message and the real message, as a broker stores them."""
    topic = side.topic(java, 1)
    with (
        TransactionProducer("records", side.namesrv, check=Asked()) as producer,
        producer.transaction(Message(topic, "one", tags="A", keys="k")) as tx,
        Admin(side.namesrv) as admin,
    ):
        tx.commit()
        place = str(tx.half.queue_offset)
        [op] = eventually(lambda: [op for op in admin.read(queue(OP)) if place in op.body.decode().split(",")], bool)
        half = next(admin.read(queue(HALF), tx.half.queue_offset))
        [delivered] = eventually(lambda: list(admin.read(queue(topic))), bool)
    assert delivered.prepared_transaction_offset == half.commit_log_offset
    return [shape(half), shape(delivered), shape(op)]


def test_both_brokers_store_the_same(java: JavaPeer, our_side: Side, java_side: Side) -> None:
    assert stored_by(java, our_side) == stored_by(java, java_side)


# -- bad input


def test_both_brokers_refuse_with_the_same_remarks(java: JavaPeer, our_side: Side, java_side: Side) -> None:
    answers: dict[str, list[tuple[int, str | None]]] = {"ours": [], "java": []}
    for side in (our_side, java_side):
        topic, name = side.topic(java), group()
        producer = TransactionProducer(name, side.namesrv, check=Asked(ROLLBACK))
        message = Message(topic, "x", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"})
        with producer, producer.transaction(message) as tx:
            right = {
                "producer_group": name, "tran_state_table_offset": tx.half.queue_offset, "commit_or_rollback": 8,
                "commit_log_offset": parse_offset_msg_id(tx.half.offset_msg_id)[2], "msg_id": tx.transaction_id,
            }  # fmt: skip
            for wrong in (
                {"producer_group": "another"},
                {"tran_state_table_offset": tx.half.queue_offset + 1},
                {"commit_log_offset": 1 << 50},
                {"commit_or_rollback": 12, "producer_group": "another"},
                {"commit_or_rollback": 12, "commit_log_offset": 1 << 50},
            ):
                answer = ask(side.broker, RequestCode.END_TRANSACTION, EndTransaction(**right | wrong))
                answers[side.name].append((answer.code, answer.remark))
            unknown = ask(side.broker, RequestCode.END_TRANSACTION, EndTransaction(**right | {"commit_or_rollback": 4}))
            assert unknown.code == 1
            assert "commitOrRollback field wrong" in (unknown.remark or "")
            tx.rollback()
    assert answers["ours"] == answers["java"]
    assert {code for code, _ in answers["ours"]} == {1}


# -- one store under both


def test_open_transactions_survive_a_change_of_brokers(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    """Ours, then Java's, then ours: what each leaves open the next asks about, and what has ended stays so."""
    store, topic, name = tmp_path / "store", f"t-{group()}", group()
    ours = servers.serve(store, **NEVER)
    with TransactionProducer(name, ours.namesrv, check=Asked()) as producer:
        first = send(producer, topic, UNKNOWN, "open for Java")
        send(producer, topic, COMMIT, "committed by us")
        send(producer, topic, ROLLBACK, "gone")
        still = send(producer, topic, UNKNOWN, "open for all")
    ours.stop()

    theirs = java.broker(servers.namesrv().namesrv, store=store, conf=SOON)
    check = Asked()
    with TransactionProducer(name, theirs.namesrv, check=check, topics=[topic]) as producer:
        check.wait({first, still})
        assert check.ids == {first, still}
        assert bodies(consume(theirs.namesrv, topic, 1)) == ["committed by us"]
        check.states[first] = COMMIT
        send(producer, topic, COMMIT, "committed by Java")
        send(producer, topic, ROLLBACK, "gone, too")
        last = send(producer, topic, UNKNOWN, "open for us")
        assert bodies(consume(theirs.namesrv, topic, 3)) == ["committed by Java", "committed by us", "open for Java"]
        with Admin(theirs.namesrv) as admin:  # a Java broker writes ends down half a second later
            eventually(lambda: {half.msg_id for half in admin.open_transactions()}, lambda ids: ids == {still, last})
    theirs.process.stop()

    again = servers.serve(store, **SOON)
    check = Asked()
    with TransactionProducer(name, again.namesrv, check=check, topics=[topic]):
        check.wait({still, last})
        assert check.ids == {still, last}
        check.state = COMMIT
        found = bodies(consume(again.namesrv, topic, 5))
    assert found == ["committed by Java", "committed by us", "open for Java", "open for all", "open for us"]
    again.stop()


@pytest.mark.parametrize("kind", [DiesBetweenTheEnds, DiesAfterTheEnds], ids=lambda kind: kind.__name__)
def test_exactly_once_rows_survive_the_death_of_the_driver(
    java: JavaPeer, tx_side: Side, kind: type[Committer], tmp_path: Path
) -> None:
    """The broker has stored the half messages again before they are ended: a Java broker asks about those after all."""
    sink = Sink(tx_side.namesrv, tx_side.topic(java), tmp_path)
    tasks = [sink.task(range(10)), sink.task(range(10, 20), partition=1)]
    with Admin(tx_side.namesrv) as admin:
        eventually(
            lambda: [half.properties for half in admin.open_transactions()],
            lambda halves: any(
                half["REAL_TOPIC"] == sink.topic and "TRANSACTION_CHECK_TIMES" in half for half in halves
            ),
        )
    with pytest.raises(Crash):
        kind(sink.settings, Decisions.at(sink.location), WAIT_SECONDS).commit(tasks, 0)
    sink.committer(WAIT_SECONDS).commit([sink.task(range(20))], 0)
    sink.committer(WAIT_SECONDS).commit([sink.task(range(20, 30), 1)], 1)
    assert sorted(sink.seen()) == list(range(30))
