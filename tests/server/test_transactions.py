"""Both faces of the transaction producer against our own broker over real sockets, crashes included."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from rocketmq_py import (
    BrokerError,
    ClosedError,
    ConfigError,
    Message,
    MessageIllegal,
    Producer,
    TransactionListener,
    TransactionProducer,
    TransactionState,
    aio,
)
from rocketmq_py.aio import PushConsumer
from rocketmq_py.client.producer.transaction_producer import ProducerOptions
from rocketmq_py.core.producer import outgoing_message
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.command import Command
from tests.server.consuming import FIRST, PATIENCE, Seen, eventually

COMMIT, ROLLBACK, UNKNOWN = TransactionState
SOON = {
    "transaction_check_interval": 100, "transaction_time_out": 200, "transaction_op_batch_interval": 100,
    "transaction_check_max": 10**6,
}  # fmt: skip
"""Checks as soon as a test can bear, and never given up: the defaults are 30 s, 6 s, 3 s and 15 times."""
UNASKED = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "600"}
"""Of a message that is not asked about, however long a busy machine takes to end it."""


@pytest.fixture(scope="module")
def cluster():
    with Cluster(**SOON) as running:
        yield running


class Listener(TransactionListener):
    """Does and says what it is told, and remembers."""

    def __init__(self, local=UNKNOWN, check=UNKNOWN):
        self.local = local
        self.check = check
        self.executed = []
        self.checked = []
        self.was_checked = threading.Event()

    def execute_local_transaction(self, message, arg):
        self.executed.append((message.transaction_id, arg))
        if isinstance(self.local, Exception):
            raise self.local
        return self.local

    def check_local_transaction(self, message):
        self.checked.append(message)
        self.was_checked.set()
        if isinstance(self.check, Exception):
            raise self.check
        return self.check


class AsyncListener(Listener):
    async def execute_local_transaction(self, message, arg):
        await asyncio.sleep(0)
        return super().execute_local_transaction(message, arg)

    async def check_local_transaction(self, message):
        await asyncio.sleep(0)
        return super().check_local_transaction(message)


def unknown(_message):
    return UNKNOWN


async def delivered(cluster, topic, group, *bodies):
    """Has exactly these messages delivered, in whatever order, with the one that ends the test behind them."""
    with Producer("p-end", cluster.namesrv) as producer:
        for queue in producer.queues(topic):
            producer.send(Message(topic, b"end"), queue)
    async with PushConsumer(group, cluster.namesrv, consume_from=FIRST) as consumer:
        seen = Seen()
        consumer.subscribe(topic, "*", seen)
        await consumer.start()
        await seen.until(lambda seen: seen.bodies.count("end") == 4)
        assert sorted(body for body in seen.bodies if body != "end") == sorted(bodies)
        return seen.messages


def pending(cluster):
    """Half messages that are still open, and whether all ends are on disk."""
    services = cluster.brokers[0].services
    ledger = services.transactions.table
    end = services.store.queue_range("RMQ_SYS_TRANS_HALF_TOPIC", 0)[1]
    return sum(ledger.outcome(half) == 0 for half in range(ledger.base, end))


# -- listeners


@pytest.mark.parametrize("kind", [Listener, AsyncListener])
async def test_a_listener_runs_the_local_transaction(cluster, topic, group, kind):
    listener = kind()
    with TransactionProducer(group, cluster.namesrv, listener=listener) as producer:
        results = []
        for listener.local in (COMMIT, ROLLBACK, COMMIT):
            message = Message(topic, listener.local.name, tags="A", keys="k", properties=UNASKED)
            results.append(await asyncio.to_thread(producer.send_in_transaction, message, len(results)))
    assert [result.state for result in results] == [COMMIT, ROLLBACK, COMMIT]
    assert [result.failure for result in results] == [None] * 3
    assert listener.executed == [(result.transaction_id, number) for number, result in enumerate(results)]
    assert {result.half.queue.topic for result in results} == {topic}
    found = await delivered(cluster, topic, group, "COMMIT", "COMMIT")
    by_id = {message.transaction_id: message for message in found if message.body == b"COMMIT"}
    assert by_id.keys() == {results[0].transaction_id, results[2].transaction_id}
    assert {message.tags for message in by_id.values()} == {"A"}
    assert listener.checked == []


@pytest.mark.parametrize("kind", [Listener, AsyncListener])
async def test_an_asyncio_listener_runs_the_local_transaction(cluster, topic, group, kind):
    listener = kind()
    async with aio.TransactionProducer(group, cluster.namesrv, listener=listener) as producer:
        for listener.local in (COMMIT, ROLLBACK):
            result = await producer.send_in_transaction(Message(topic, listener.local.name), "arg")
            assert (result.state, listener.executed[-1]) == (listener.local, (result.transaction_id, "arg"))
    await delivered(cluster, topic, group, "COMMIT")


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
@pytest.mark.parametrize("kind", [Listener, AsyncListener])
async def test_a_broker_checks_an_unknown_outcome(cluster, topic, group, kind, face):
    """What a local transaction raises, returns by mistake, or does not know yet is asked about until it is known."""
    listener = kind()
    sent = {}

    async def send_all(send):
        for listener.local in (UNKNOWN, ValueError("no idea"), None, "done"):
            result = await send(Message(topic, repr(listener.local)))
            assert result.state is UNKNOWN
            assert result.failure is (listener.local if isinstance(listener.local, Exception) else None)
            sent[result.transaction_id] = repr(listener.local)
        await eventually(lambda: {message.transaction_id for message in listener.checked} >= sent.keys())
        listener.check = ValueError("still none")
        count = len(listener.checked)
        await eventually(lambda: len(listener.checked) >= count + 4)
        listener.check = COMMIT
        await eventually(lambda: not pending(cluster))

    if face == "asyncio":
        async with aio.TransactionProducer(group, cluster.namesrv, listener=listener) as producer:
            await send_all(producer.send_in_transaction)
    else:
        with TransactionProducer(group, cluster.namesrv, listener=listener, check_threads=3) as producer:
            await send_all(lambda message: asyncio.to_thread(producer.send_in_transaction, message))
    asked = listener.checked[-1]
    assert (asked.topic, asked.properties["PGROUP"]) == (topic, group)
    assert asked.body.decode() == sent[asked.transaction_id]
    await delivered(cluster, topic, group, *sent.values())


async def test_a_check_can_roll_back(cluster, topic, group):
    listener = Listener(local=UNKNOWN, check=ROLLBACK)
    async with aio.TransactionProducer(group, cluster.namesrv, listener=listener) as producer:
        await producer.send_in_transaction(Message(topic, "gone"))
        await eventually(lambda: not pending(cluster))
    assert len(listener.checked) >= 1
    await delivered(cluster, topic, group)


# -- with


async def test_a_block_commits_or_rolls_back(cluster, topic, group):
    with TransactionProducer(group, cluster.namesrv, check=unknown) as producer:
        with producer.transaction(Message(topic, "good", keys="k")) as tx:
            assert tx.transaction_id == tx.message.transaction_id == tx.message.msg_id
            assert tx.state is None
        assert (tx.state, tx.failure) == (COMMIT, None)
        for error in (ValueError("bad"), KeyboardInterrupt()):
            with pytest.raises(type(error)), producer.transaction(Message(topic, "bad")) as tx:
                raise error
            assert tx.state is ROLLBACK
        with producer.transaction(Message(topic, "early")) as tx:
            tx.commit()
        with producer.transaction(Message(topic, "never")) as tx:
            tx.rollback()
            with pytest.raises(ClosedError, match="has already ended: ROLLBACK"):
                tx.commit()
    await delivered(cluster, topic, group, "good", "early")


async def test_an_async_block_commits_or_rolls_back(cluster, topic, group):
    async with aio.TransactionProducer(group, cluster.namesrv, check=unknown) as producer:
        async with producer.transaction(Message(topic, "good")) as tx:
            assert tx.transaction_id == tx.message.transaction_id
        assert tx.state is COMMIT
        for error in (ValueError("bad"), asyncio.CancelledError()):
            with pytest.raises(type(error)):
                async with producer.transaction(Message(topic, "bad")) as tx:
                    raise error
            assert tx.state is ROLLBACK
        async with producer.transaction(Message(topic, "early")) as tx:
            await tx.commit()
        async with producer.transaction(Message(topic, "never")) as tx:
            await tx.rollback()
            with pytest.raises(ClosedError, match="has already ended: ROLLBACK"):
                await tx.leave_open()
        with pytest.raises(ClosedError, match="already begun"):
            await tx.__aenter__()
    await delivered(cluster, topic, group, "good", "early")


async def test_an_unfinished_block_is_checked(cluster, topic, group):
    asked = threading.Event()

    def check(message):
        asked.set()
        return COMMIT

    with TransactionProducer(group, cluster.namesrv, check=check) as producer:
        with producer.transaction(Message(topic, "later")) as tx:
            tx.leave_open()
            with pytest.raises(ClosedError, match="already begun"):
                tx.__enter__()
        assert await asyncio.to_thread(asked.wait, PATIENCE)
        await eventually(lambda: not pending(cluster))
    await delivered(cluster, topic, group, "later")


def test_a_transaction_that_has_not_begun_cannot_end(cluster, topic, group):
    with TransactionProducer(group, cluster.namesrv, check=unknown) as producer:
        tx = producer.transaction(Message(topic, "x"))
        with pytest.raises(ClosedError, match="has not begun"):
            tx.commit()


async def test_a_message_can_be_sent_outside_a_transaction(cluster, topic, group):
    """The same object sent once more, without a transaction, must not wait for one."""
    message = Message(topic, "same")
    with TransactionProducer(group, cluster.namesrv, check=unknown) as producer:
        with pytest.raises(ValueError), producer.transaction(message):
            raise ValueError
        producer.send(message)
    await delivered(cluster, topic, group, "same")


# -- refusals and failures


def test_illegal_transactional_messages_are_refused(cluster, topic, group):
    with TransactionProducer(group, cluster.namesrv, check=unknown) as producer:
        for message in (
            Message(topic, "x", delay_level=3), Message(topic, "x", properties={"TIMER_DELAY_SEC": "5"}),
            Message(topic, ""), Message("RMQ_SYS_TRANS_HALF_TOPIC", "x"),
        ):  # fmt: skip
            with pytest.raises(MessageIllegal), producer.transaction(message):
                pytest.fail("the block must not run")
        with pytest.raises(ConfigError, match="needs a listener"):
            producer.send_in_transaction(Message(topic, "x"))


def test_a_producer_needs_a_listener_or_a_check(cluster):
    for kind in (TransactionProducer, aio.TransactionProducer):
        with pytest.raises(ConfigError, match="needs a listener or a check"):
            kind("g", cluster.namesrv)
        with pytest.raises(ConfigError, match="not both"):
            kind("g", cluster.namesrv, listener=Listener(), check=unknown)
        with pytest.raises(ConfigError, match="check_threads=0"):
            kind("g", cluster.namesrv, check=unknown, check_threads=0)


def test_a_broker_can_refuse_transactions(group):
    with (
        Cluster(reject_transaction_message=True) as cluster,
        TransactionProducer(group, cluster.namesrv, check=unknown) as producer,
        pytest.raises(BrokerError, match="sending transaction message is forbidden"),
        producer.transaction(Message("t", "x")),
    ):
        pytest.fail("the block must not run")


def test_an_unflushed_half_message_is_rolled_back(topic, group, monkeypatch):
    """Its broker could not flush it in time: the local transaction must not run."""
    listener = Listener(local=COMMIT)
    with Cluster() as cluster, TransactionProducer(group, cluster.namesrv, listener=listener) as producer:
        cluster.create_topic(topic)
        late = dict.fromkeys(outgoing_message._STATUS, outgoing_message.SendStatus.FLUSH_DISK_TIMEOUT)
        monkeypatch.setattr(outgoing_message, "_STATUS", late)
        with pytest.raises(BrokerError, match="rolled back") as refused, producer.transaction(Message(topic, "x")):
            pytest.fail("the block must not run")
        assert refused.value.code == ResponseCode.FLUSH_DISK_TIMEOUT
        result = producer.send_in_transaction(Message(topic, "x"))
        assert (result.state, listener.executed) == (ROLLBACK, [])
        deadline = time.monotonic() + PATIENCE
        while pending(cluster):
            assert time.monotonic() < deadline
            time.sleep(0.01)


async def test_a_lost_end_is_checked(topic, group):
    """The broker goes away in the middle: no error where the local transaction is done, and a check afterwards."""
    listener = Listener(check=COMMIT)
    with Cluster(**SOON) as cluster:
        cluster.create_topic(topic)
        with TransactionProducer(group, cluster.namesrv, listener=listener) as producer:
            with producer.transaction(Message(topic, "kept")) as tx:
                cluster.stop_broker()
            assert tx.state is COMMIT
            assert tx.failure is not None
            cluster.start_broker()
            await asyncio.to_thread(producer.queues, topic)
            await eventually(lambda: listener.checked and not pending(cluster))
        await delivered(cluster, topic, group, "kept")


# -- questions


async def test_checks_run_in_their_own_pool(cluster, topic, group):
    """As many at a time as there are threads; a slow check holds up neither sends nor other checks for ever."""
    gate, running, most = threading.Event(), [], []

    def check(message):
        running.append(message)
        most.append(len(running))
        gate.wait(PATIENCE)
        running.pop()
        return ROLLBACK

    with TransactionProducer(group, cluster.namesrv, check=check, check_threads=2) as producer:
        for _ in range(5):
            with producer.transaction(Message(topic, "x")) as tx:
                tx.leave_open()
        await eventually(lambda: len(running) == 2)
        producer.send(Message(topic, "meanwhile"))
        gate.set()
        await eventually(lambda: not pending(cluster))
    assert max(most) == 2
    await delivered(cluster, topic, group, "meanwhile")


async def test_too_many_checks_are_dropped_and_repeated(cluster, topic, group, caplog):
    gate = threading.Event()

    def check(message):
        gate.wait(PATIENCE)
        return ROLLBACK

    async with aio.TransactionProducer(group, cluster.namesrv, check=check, check_request_hold_max=1) as producer:
        for _ in range(4):
            async with producer.transaction(Message(topic, "x")) as tx:
                await tx.leave_open()
        await eventually(lambda: "is dropped, the broker repeats it" in caplog.text)
        gate.set()
        await eventually(lambda: not pending(cluster))


async def test_a_check_for_a_group_without_a_producer_is_ignored(cluster, topic, group, caplog):
    """Asked over a connection that serves another group as well."""
    async with aio.TransactionProducer(group, cluster.namesrv, check=unknown) as producer:
        await producer.send(Message(topic, "x"))
        await producer.register_with_brokers()
        peers = cluster.brokers[0].services.clients.producers.groups[group]
        ext = {"tranStateTableOffset": "0", "commitLogOffset": "0"}
        store = cluster.brokers[0].services.store
        [plain] = filter(None, (store.record_at_queue(topic, queue, 0) for queue in range(4)))
        for peer in list(peers):
            for body in (b"junk", plain):
                cluster._portal.call(peer.send, Command(RequestCode.CHECK_TRANSACTION_STATE, ext=ext, body=body))
        await eventually(
            lambda: "cannot be decoded" in caplog.text and "has no transaction producer here" in caplog.text
        )


# -- crashes

_DYING = """
import os, signal, sys
from rocketmq_py import Message, TransactionProducer, TransactionState
namesrv, group, topic, when = sys.argv[1:]
with TransactionProducer(group, namesrv, check=lambda message: TransactionState.UNKNOWN) as producer:
    tx = producer.transaction(Message(topic, when))
    tx.__enter__()
    if when == "after":
        tx.commit()
    print(tx.transaction_id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def die(cluster, group, topic, when):
    """A producer that is killed; the id of its transaction."""
    command = [sys.executable, "-c", _DYING, cluster.namesrv, group, topic, when]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
@pytest.mark.parametrize(("outcome", "bodies"), [(COMMIT, ["between"]), (ROLLBACK, [])])
async def test_a_producer_killed_before_the_end_is_replaced_by_a_check(cluster, topic, group, outcome, bodies):
    """Another producer of the group, which has never sent to the topic, is asked and decides."""
    transaction_id = await asyncio.to_thread(die, cluster, group, topic, "between")
    listener = Listener(check=outcome)
    async with aio.TransactionProducer(group, cluster.namesrv, listener=listener, topics=[topic]):
        await eventually(lambda: listener.checked)
        await eventually(lambda: not pending(cluster))
    assert {message.transaction_id for message in listener.checked} == {transaction_id}
    await delivered(cluster, topic, group, *bodies)


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
async def test_a_producer_killed_after_the_end_changes_nothing(cluster, topic, group):
    """What has left the process counts; nobody is asked any more."""
    await asyncio.to_thread(die, cluster, group, topic, "after")
    await eventually(lambda: not pending(cluster))
    listener = Listener(check=ROLLBACK)
    async with aio.TransactionProducer(group, cluster.namesrv, listener=listener, topics=[topic]):
        await delivered(cluster, topic, group, "after")
    assert listener.checked == []


def test_the_transaction_producer_has_all_producer_options():
    """All of them are options of transaction producers, by the same names."""
    options = set(inspect.signature(Producer.__init__).parameters) - {"self", "group", "namesrv", "topics", "instance"}
    assert {"topics", "instance"} <= set(inspect.signature(TransactionProducer.__init__).parameters)
    assert set(ProducerOptions.__annotations__) == options
