"""Traces our producers and consumers leave, and that nothing else suffers from them."""

import asyncio
import logging
import threading

import pytest

from rocketmq_py import (
    Admin,
    ConfigError,
    ConsumeResult,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
    aio,
)
from rocketmq_py.client.hooks import tracing
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.trace import TraceKind, decode_trace
from tests.server.consuming import FIRST, PATIENCE, Seen, eventually

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@pytest.fixture(scope="module")
def cluster():
    soon = {"transaction_check_interval": 100, "transaction_time_out": 200, "message_delay_level": "1s 1s 1s"}
    with Cluster(trace_topic_enable=True, **soon) as running:
        yield running


def traces(cluster, topic=TRACE_TOPIC):
    """All entries in a trace topic with the keys of their messages."""
    with Admin(cluster.namesrv) as admin:
        found = []
        for queue in admin.queues(topic):
            for message in admin.read(queue):
                found += [(entry, message.keys.split()) for entry in decode_trace(message.body)]
        return found


def about(cluster, msg_ids, topic=TRACE_TOPIC):
    """Entries about these messages, in the order they were written."""
    return [entry for entry, keys in traces(cluster, topic) if entry.msg_id in msg_ids and entry.msg_id in keys]


@pytest.mark.parametrize("face", ["asyncio", "blocking"])
async def test_sends_are_traced(cluster, topic, group, face):
    one = Message(topic, b"abc", tags="A", keys=["k1", "k2"])
    late = Message(topic, b"abcd", delay_level=1)
    batch = [Message(topic, b"x", keys=f"b{i}") for i in range(3)]
    if face == "asyncio":
        async with aio.Producer(group, cluster.namesrv, trace=True) as producer:
            result = await producer.send(one)
            await producer.send_async(late)
            await producer.send_batch(batch)
            await producer.send_oneway(Message(topic, b"unheard of"))
            with pytest.raises(ConfigError):
                await producer.send_ordered(Message(topic, b"no key"))
    else:
        with Producer(group, cluster.namesrv, trace=True) as producer:
            result = await asyncio.to_thread(producer.send, one)
            await asyncio.wrap_future(producer.send_async(late))
            await asyncio.to_thread(producer.send_batch, batch)
            await asyncio.to_thread(producer.send_oneway, Message(topic, b"unheard of"))
    entries = await asyncio.to_thread(about, cluster, {m.msg_id for m in (one, late, *batch)})
    assert len(entries) == 5
    by_id = {entry.msg_id: entry for entry in entries}
    first = by_id[one.msg_id]
    broker = cluster.brokers[0].services.address
    assert (first.kind, first.region, first.group, first.topic) == (TraceKind.PUB, "DefaultRegion", group, topic)
    assert (first.tags, first.keys, first.body_length, first.store_host) == ("A", "k1 k2", 3, broker)
    assert (first.message_type, first.offset_msg_id, first.success) == ("Normal_Msg", result.offset_msg_id, True)
    assert first.cost_ms >= 0
    assert by_id[late.msg_id].message_type == "Delay_Msg"
    assert len({by_id[message.msg_id].offset_msg_id for message in batch}) == 3
    found = [keys for entry, keys in traces(cluster) if entry.msg_id == one.msg_id]
    assert {"k1", "k2", one.msg_id} <= set(found[0])


@pytest.mark.parametrize("orderly", [False, True])
async def test_consumption_is_traced(cluster, topic, group, orderly):
    """Delivered twice: fails, then succeeds."""
    with Producer(f"p-{group}", cluster.namesrv) as producer:
        msg_id = producer.send(Message(topic, b"x", keys="k")).msg_id
    seen = Seen()

    def listen(message):
        seen(message)
        if message.reconsume_times == 0:
            raise ValueError("on purpose")

    consumer = aio.PushConsumer(
        group, cluster.namesrv, consume_from=FIRST, trace=True, orderly=orderly, suspend_seconds=0.01, listener=listen
    )
    consumer.subscribe(topic)
    async with consumer:
        await seen.count(2)
    entries = [entry for entry in await asyncio.to_thread(about, cluster, {msg_id}) if entry.group == group]
    kinds = [entry.kind for entry in entries]
    assert kinds == [TraceKind.SUB_BEFORE, TraceKind.SUB_AFTER] * 2
    assert [entry.retry_times for entry in entries] == [0, None, 1, None]
    assert [entry.success for entry in entries] == [None, False, None, True]
    assert [entry.context_code for entry in entries] == [None, 2, None, 0]
    ids = [entry.request_id for entry in entries]
    assert (ids[0], ids[2], len(set(ids))) == (ids[1], ids[3], 2)
    assert {entry.keys for entry in entries} == {"k"}


def test_failed_and_slow_listeners_are_traced(cluster, topic, group):
    with Producer(f"p-{group}", cluster.namesrv) as producer:
        msg_ids = [producer.send(Message(topic, body)).msg_id for body in ("refused", "slow")]
    done = {body: threading.Event() for body in (b"refused", b"slow")}

    def listen(message):
        done[message.body].set()
        if message.body == b"refused":
            return ConsumeResult.RECONSUME_LATER
        threading.Event().wait(0.02)
        return None

    consumer = PushConsumer(group, cluster.namesrv, consume_from=FIRST, trace=True, consume_timeout=0.01)
    consumer.subscribe(topic, "*", listen)
    with consumer:
        assert all(event.wait(PATIENCE) for event in done.values())
    codes = {entry.msg_id: entry.context_code for entry in about(cluster, set(msg_ids)) if entry.context_code}
    assert codes[msg_ids[1]] == 1
    assert codes[msg_ids[0]] in (1, 4)


def test_polled_messages_are_traced(cluster, topic, group):
    """Consumed at once: the messages of a poll together, in a loop over messages each by itself."""
    cluster.create_topic(topic, 1)
    with Producer(f"p-{group}", cluster.namesrv) as producer:
        msg_ids = [producer.send(Message(topic, b"x", keys=f"k{i}")).msg_id for i in range(4)]
    with LitePullConsumer(group, cluster.namesrv, consume_from=FIRST, pull_batch_size=2, trace=True) as consumer:
        consumer.subscribe(topic)
        polled = consumer.poll(PATIENCE)
        polled += [message for _, message in zip(range(2), consumer, strict=False)]
    check_polled(about(cluster, set(msg_ids)), group, [message.msg_id for message in polled])


async def test_iterated_messages_are_traced(cluster, topic, group):
    await asyncio.to_thread(cluster.create_topic, topic, 1)
    async with aio.Producer(f"p-{group}", cluster.namesrv) as producer:
        msg_ids = [(await producer.send(Message(topic, b"x", keys=f"k{i}"))).msg_id for i in range(4)]
    async with aio.LitePullConsumer(
        group, cluster.namesrv, consume_from=FIRST, pull_batch_size=2, trace=True
    ) as consumer:
        consumer.subscribe(topic)
        polled = await consumer.poll(PATIENCE)
        polled += [await anext(consumer) for _ in range(2)]
    entries = await asyncio.to_thread(about, cluster, set(msg_ids))
    check_polled(entries, group, [message.msg_id for message in polled])


def check_polled(entries, group, polled):
    """Two entries for each of four messages; the first two messages were polled together."""
    assert len(polled) == 4
    before, after = ([e for e in entries if e.kind is kind] for kind in (TraceKind.SUB_BEFORE, TraceKind.SUB_AFTER))
    assert len(entries) == 8
    assert [entry.msg_id for entry in before] == [entry.msg_id for entry in after] == polled
    assert [entry.request_id for entry in before] == [entry.request_id for entry in after]
    assert before[0].request_id == before[1].request_id
    assert len({entry.request_id for entry in before}) == 3
    assert {entry.group for entry in entries} == {group}
    assert {(entry.success, entry.context_code, entry.cost_ms) for entry in after} == {(True, 0, 0)}
    assert [entry.keys for entry in before] == ["k0", "k1", "k2", "k3"]


@pytest.mark.parametrize("face", ["asyncio", "blocking"])
async def test_transactions_are_traced(cluster, topic, group, face):
    asked = threading.Event()

    def check(_message):
        asked.set()
        return TransactionState.ROLLBACK

    unasked = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "600"}  # however long a busy machine takes to end it
    kept_one = Message(topic, "kept", tags="A", keys="k", properties=unasked)
    messages = [kept_one, Message(topic, "asked about", tags="A", keys="k")]
    if face == "asyncio":
        async with aio.TransactionProducer(group, cluster.namesrv, check=check, trace=True) as producer:
            async with producer.transaction(messages[0]):
                pass
            async with producer.transaction(messages[1]) as tx:
                await tx.leave_open()
            await eventually(asked.is_set)
    else:
        with TransactionProducer(group, cluster.namesrv, check=check, trace=True) as producer:
            with producer.transaction(messages[0]):
                pass
            with producer.transaction(messages[1]) as tx:
                tx.leave_open()
            await eventually(asked.is_set)
    entries = await asyncio.to_thread(about, cluster, {message.msg_id for message in messages})
    kept, later = ([entry for entry in entries if entry.msg_id == message.msg_id] for message in messages)
    assert [entry.message_type for entry in kept] == ["Trans_Msg_Half", "Trans_msg_Commit"]
    assert (kept[1].transaction_state, kept[1].from_check, kept[1].tags) == ("COMMIT_MESSAGE", False, "A")
    assert kept[1].transaction_id == kept[1].msg_id
    assert [(entry.transaction_state, entry.from_check) for entry in later[:3]] == [
        (None, None), ("UNKNOW", False), ("ROLLBACK_MESSAGE", True),
    ]  # fmt: skip


def test_the_trace_topic_is_configurable(cluster, topic, group):
    cluster.create_topic(f"traces-{group}", 1)
    with Producer(group, cluster.namesrv, trace=f"traces-{group}") as producer:
        msg_id = producer.send(Message(topic, b"x")).msg_id
        producer.send(Message(f"traces-{group}", b"not traced itself"))
    with Admin(cluster.namesrv) as admin:
        first, second = admin.read(MessageQueue(f"traces-{group}", "broker-a", 0))
    assert first.body == b"not traced itself"
    [entry] = decode_trace(second.body)
    assert (entry.msg_id, second.keys) == (msg_id, msg_id)


def test_a_full_batch_of_traces_is_sent_at_once(cluster, topic, group):
    """Ten entries make a message at once."""
    with Producer(group, cluster.namesrv, trace=True) as producer:
        sent = {producer.send(Message(topic, b"x")).msg_id for _ in range(tracing.BATCH)}

        async def wait():
            await eventually(lambda: len(about(cluster, sent)) == tracing.BATCH)

        asyncio.run(wait())


def test_a_few_traces_are_sent_after_a_while(cluster, topic, group, monkeypatch):
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 0.05)
    with Producer(group, cluster.namesrv, trace=True) as producer:
        msg_id = producer.send(Message(topic, b"x")).msg_id

        async def wait():
            await eventually(lambda: about(cluster, {msg_id}))

        asyncio.run(wait())


def test_failed_traces_fail_no_message(topic, group, caplog, monkeypatch):
    monkeypatch.setattr(tracing, "MOST_WAITING", 50)
    with Cluster(auto_create_topic_enable=False) as cluster, caplog.at_level(logging.WARNING):
        cluster.create_topic(topic, 1)
        with Producer(group, cluster.namesrv, trace="nowhere") as producer:
            for _ in range(100):
                producer.send(Message(topic, b"x"))
        assert cluster.brokers[0].services.store.queue_range(topic, 0)[1] == 100
    lost = [line for line in caplog.messages if line.startswith(f"traces of group {group} are lost")]
    assert len(lost) == 1
    assert "nowhere" in lost[0]


def test_too_many_traces_are_dropped(cluster, topic, group, caplog, monkeypatch):
    """Nobody waits for them, and how many it were is told."""
    monkeypatch.setattr(tracing, "MOST_WAITING", 5)
    monkeypatch.setattr(tracing, "MOST_UNDER_WAY", 0)
    with caplog.at_level(logging.WARNING), Producer(group, cluster.namesrv, trace=True) as producer:
        sent = [producer.send(Message(topic, b"x")).msg_id for _ in range(8)]
    assert [entry.msg_id for entry in about(cluster, set(sent))] == sent[:5]
    assert [line for line in caplog.messages if "some are dropped (messages are not)" in line]
    assert f"3 traces of group {group} were not sent to topic {TRACE_TOPIC}" in caplog.messages


def test_a_broker_without_a_trace_topic_gets_no_traces(topic, group):
    with Cluster(trace_on=False, trace_topic_enable=True) as cluster:
        cluster.create_topic(topic, 1)
        got = threading.Event()
        with Producer(group, cluster.namesrv, trace=True) as producer:
            assert producer.send(Message(topic, b"x")).trace_on is False
        consumer = PushConsumer(group, cluster.namesrv, consume_from=FIRST, trace=True, listener=lambda _: got.set())
        consumer.subscribe(topic)
        with consumer:
            assert got.wait(PATIENCE)
        assert traces(cluster) == []


def test_an_illegal_trace_topic_is_refused():
    for client in (Producer, PushConsumer):
        with pytest.raises(ConfigError, match="illegal characters"):
            client("g", "127.0.0.1:9876", trace="no topic!")


def test_tracing_is_off_by_default():
    producer = aio.Producer("g", "127.0.0.1:9876")
    assert (producer.tracer, producer.hooks) == (None, None)
