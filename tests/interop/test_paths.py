"""Messages of every kind, from either producer through either broker to either consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from rocketmq_py import CompressionType, ConsumeFromWhere, Message, Producer, PushConsumer, SendStatus, aio
from tests.interop.javapeer import JavaPeer
from tests.interop.side import Inbox, Seen, Side, group

EACH = 8
SIZE = 300
KINDS: dict[str, dict[str, Any]] = {
    "sync": {},
    "async": {"mode": "async"},
    "oneway": {"mode": "oneway"},
    "batch": {"mode": "batch", "batch": 4},
    "zlib": {"compress_over": 100},
    "lz4": {"compress_over": 100, "compress_type": "LZ4"},
    "zstd": {"compress_over": 100, "compress_type": "ZSTD"},
    "keyed": {"mode": "orderly", "hash_key": "{i%3}"},
    "binary": {"java_options": "-Drocketmq.serialize.type=ROCKETMQ"},
    "v1": {"java_options": "-Dorg.apache.rocketmq.client.sendSmartMsg=false"},
}
"""Kind of sending -> flags of the Java producer. Message i of a kind is tagged with the kind and keyed ``KIND-i``."""
OUR_KINDS = ["sync", "async", "aio", "oneway", "batch", "zlib", "lz4", "zstd", "keyed"]


def body(i: int) -> bytes:
    """The body the Java producer gives message i."""
    text = f"{i:08d}|".encode()
    return text + bytes(ord("a") + k % 26 for k in range(len(text), SIZE))


@dataclass(frozen=True, slots=True)
class Sent:
    """A topic with messages of all kinds and, per acknowledged message key, the id it was sent under."""

    topic: str
    kinds: list[str]
    ids: dict[str, str]


@pytest.fixture(scope="module")
def sent_by_java(java: JavaPeer, side: Side) -> Sent:
    topic = side.topic(java)
    ids: dict[str, str] = {}
    for kind, flags in KINDS.items():
        rows = java.produce(side.namesrv, topic, EACH, size=SIZE, tags=kind, keys=kind + "-{i} all", prop="city=Zürich",
                            flag=7, **flags)  # fmt: skip
        if kind not in ("oneway", "batch"):
            assert {row["status"] for row in rows} == {"SEND_OK"}
            ids |= {f"{kind}-{row['i']} all": row["msgId"] for row in rows}
    return Sent(topic, list(KINDS), ids)


@pytest.fixture(scope="module")
def sent_by_us(java: JavaPeer, side: Side) -> Sent:
    topic = side.topic(java)
    ids: dict[str, str] = {}

    def message(kind: str, i: int) -> Message:
        return Message(topic, body(i), tags=kind, keys=f"{kind}-{i} all", flag=7, properties={"city": "Zürich"})

    with Producer(group="p", namesrv=side.namesrv, send_timeout=30) as producer:
        results = {f"sync-{i} all": producer.send(message("sync", i)) for i in range(EACH)}
        pending = {f"async-{i} all": producer.send_async(message("async", i)) for i in range(EACH)}
        results |= {key: future.result(240) for key, future in pending.items()}
        results |= {f"keyed-{i} all": producer.send_ordered(message("keyed", i), str(i % 3)) for i in range(EACH)}
        for i in range(EACH):
            producer.send_oneway(message("oneway", i))
        producer.send_batch([message("batch", i) for i in range(EACH)])
    for kind in ("zlib", "lz4", "zstd"):
        compression = CompressionType[kind.upper()]
        with Producer(
            group="p", namesrv=side.namesrv, send_timeout=30, compress_over=100, compression=compression
        ) as producer:
            results |= {f"{kind}-{i} all": producer.send(message(kind, i)) for i in range(EACH)}
    results |= asyncio.run(_send_with_asyncio(side, [message("aio", i) for i in range(EACH)]))
    assert {result.status for result in results.values()} == {SendStatus.SEND_OK}
    ids = {key: result.msg_id for key, result in results.items()}
    return Sent(topic, OUR_KINDS, ids)


async def _send_with_asyncio(side: Side, messages: list[Message]) -> dict[str, Any]:
    async with aio.Producer(group="p", namesrv=side.namesrv, send_timeout=30) as producer:
        results = await asyncio.gather(*(producer.send(message) for message in messages))
    return {message.keys or "": result for message, result in zip(messages, results, strict=True)}


@pytest.fixture(scope="module", params=["java", "ours"])
def sent(request: pytest.FixtureRequest, side: Side) -> Sent:
    del side  # named, so that what was sent to one side is not looked for at the other
    return request.getfixturevalue("sent_by_java" if request.param == "java" else "sent_by_us")


@pytest.fixture(scope="module", params=["to java", "to ours"])
def received(request: pytest.FixtureRequest, java: JavaPeer, side: Side, sent: Sent) -> Iterator[list[Seen]]:
    """What a new consumer group receives of all that was sent."""
    n = EACH * len(sent.kinds)
    if request.param == "to java":
        yield [Seen.of_java(row) for row in java.consume(side.namesrv, sent.topic, group(), n)]
        return
    inbox = Inbox()
    with PushConsumer(group=group(), namesrv=side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(sent.topic, listener=inbox)
        consumer.start()
        inbox.wait(n)
    yield inbox.seen


def test_every_message_arrives_once(sent: Sent, received: list[Seen]) -> None:
    assert len({(seen.queue, seen.offset) for seen in received}) == len(received)
    assert sorted(seen.keys or "" for seen in received) == sorted(
        f"{kind}-{i} all" for kind in sent.kinds for i in range(EACH))  # fmt: skip


def test_content_is_unchanged(received: list[Seen]) -> None:
    for seen in received:
        kind, _, number = (seen.keys or "").removesuffix(" all").rpartition("-")
        assert (seen.tags, seen.body) == (kind, body(int(number)))
        assert seen.properties["city"] == "Zürich"
        assert seen.reconsume_times == 0


def test_message_ids_equal_those_of_the_send_results(sent: Sent, received: list[Seen]) -> None:
    by_key = {seen.keys: seen.msg_id for seen in received}
    assert {key: by_key[key] for key in sent.ids} == sent.ids


def test_offsets_are_dense_in_every_queue(received: list[Seen]) -> None:
    for queue in {seen.queue for seen in received}:
        offsets = sorted(seen.offset for seen in received if seen.queue == queue)
        assert offsets == list(range(len(offsets)))


def test_a_batch_is_stored_contiguously_in_one_queue(received: list[Seen]) -> None:
    batch = sorted((seen.queue, seen.offset, seen.keys) for seen in received if seen.tags == "batch")
    assert len({(queue, offset - int((keys or "")[6])) for queue, offset, keys in batch}) <= 2


def test_one_key_goes_to_one_queue(received: list[Seen]) -> None:
    queues = {int((seen.keys or "")[6]) % 3: set[int]() for seen in received if seen.tags == "keyed"}
    for seen in received:
        if seen.tags == "keyed":
            queues[int((seen.keys or "")[6]) % 3].add(seen.queue)
    assert all(len(used) == 1 for used in queues.values())


def test_a_tag_subscription_gets_only_matching_messages(java: JavaPeer, side: Side, sent: Sent) -> None:
    wanted = {f"{kind}-{i} all" for kind in ("sync", "zlib") for i in range(EACH)}
    inbox = Inbox()
    with PushConsumer(group=group(), namesrv=side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(sent.topic, "sync || zlib", inbox)
        consumer.start()
        assert {seen.keys for seen in inbox.wait(len(wanted))} == wanted
    rows = java.consume(side.namesrv, sent.topic, group(), len(wanted), sub="sync || zlib")
    assert {row["keys"] for row in rows} == wanted


def test_the_broker_adds_its_usual_properties(received: list[Seen]) -> None:
    for seen in received:
        added = {name: seen.properties.get(name) for name in ("CLUSTER", "MSG_REGION", "TRACE_ON")}
        if seen.tags == "batch":  # messages of a batch are stored as they were sent
            assert set(added.values()) == {None}
        else:
            assert added == {"CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert all(seen.properties["UNIQ_KEY"] == seen.msg_id for seen in received)
