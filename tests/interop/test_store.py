"""One store directory, opened by our broker and by a Java broker in turn."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from rocketmq_py import ConsumeFromWhere, Message, Producer, PushConsumer
from tests.golden import files
from tests.interop.javapeer import JavaPeer, JavaServer, Row
from tests.interop.ours import OurServers
from tests.interop.side import Inbox, Seen, group

N = 6
TOPIC = "journal"


def append(namesrv: str, start: int) -> None:
    """N messages numbered from ``start``, plus a compressed one and a batch of two."""
    with Producer(group="p", namesrv=namesrv, compress_over=100) as producer:
        for i in range(start, start + N - 3):
            producer.send(Message(TOPIC, b"%d" % i, tags="A", keys=f"k-{i}"))
        producer.send(Message(TOPIC, b"%d|" % (start + N - 3) + bytes(300), tags="A", keys=f"k-{start + N - 3}"))
        last = range(start + N - 2, start + N)
        producer.send_batch([Message(TOPIC, b"%d" % i, tags="A", keys=f"k-{i}") for i in last])


def read_by_us(namesrv: str, name: str, n: int) -> list[Seen]:
    inbox = Inbox()
    with PushConsumer(group=name, namesrv=namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(TOPIC, listener=inbox)
        consumer.start()
        return inbox.wait(n)


def read_by_java(java: JavaPeer, namesrv: str, name: str, n: int) -> list[Seen]:
    return [Seen.of_java(row) for row in java.consume(namesrv, TOPIC, name, n)]


def numbers(seen: Iterable[Seen]) -> list[int]:
    return sorted(int(one.body.partition(b"|")[0]) for one in seen)


def java_broker(java: JavaPeer, servers: OurServers, store: Path) -> JavaServer:
    """A Java broker on a store, at a name server of ours, which takes a tenth of the time to start."""
    return java.broker(servers.namesrv().namesrv, store=store)


def test_a_store_moves_from_ours_to_java_and_back(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    store, follower = tmp_path / "store", group()
    ours = servers.serve(store)
    append(ours.namesrv, 0)
    first = read_by_us(ours.namesrv, follower, N)
    ours.stop()
    assert not (store / "abort").exists()

    theirs = java_broker(java, servers, store)
    seen = read_by_java(java, theirs.namesrv, group(), N)
    assert set(seen) == set(first), "a Java broker serves what we stored, at the same offsets"
    append(theirs.namesrv, N)
    assert numbers(read_by_java(java, theirs.namesrv, follower, N)) == list(range(N, 2 * N)), "our offsets hold there"
    theirs.process.stop()
    assert not (store / "abort").exists()

    again = servers.serve(store)
    append(again.namesrv, 2 * N)
    assert numbers(read_by_us(again.namesrv, follower, N)) == list(range(2 * N, 3 * N)), "their offsets hold here"
    everything = read_by_us(again.namesrv, group(), 3 * N)
    assert numbers(everything) == list(range(3 * N))
    assert set(first) <= set(everything)
    assert_dense(everything)
    assert "k-1" in java.admin("queryMsgByKey", "-n", again.namesrv, "-t", TOPIC, "-k", "k-1")
    again.stop()


def assert_dense(seen: list[Seen]) -> None:
    for queue in {one.queue for one in seen}:
        offsets = sorted(one.offset for one in seen if one.queue == queue)
        assert offsets == list(range(len(offsets)))


def test_a_store_moves_from_java_to_ours_and_back(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    store, follower = tmp_path / "store", group()
    theirs = java_broker(java, servers, store)
    append(theirs.namesrv, 0)
    rows: list[Row] = java.consume(theirs.namesrv, TOPIC, follower, N, fail_times=1, retry_level=1)
    first = [Seen.of_java(row) for row in rows]
    theirs.process.stop()

    ours = servers.serve(store)
    seen = read_by_us(ours.namesrv, group(), N)
    assert set(seen) == {one for one in first if one.reconsume_times == 0}
    append(ours.namesrv, N)
    ours.stop()

    again = java_broker(java, servers, store)
    everything = read_by_java(java, again.namesrv, group(), 2 * N)
    assert numbers(everything) == list(range(2 * N))
    assert_dense(everything)


def test_both_brokers_serve_the_golden_store(servers: OurServers, tmp_path: Path) -> None:
    """Tiny files, a rolled commit log, compressed bodies, a retry: all that a Java broker left is served."""
    store = tmp_path / "store"
    shutil.copytree(files.STORE, store)
    ours = servers.serve(store, mappedFileSizeCommitLog=4096, mappedFileSizeConsumeQueue=400, maxHashSlotNum=16,
                         maxIndexNum=64)  # fmt: skip
    inbox = Inbox()
    with PushConsumer(group=group(), namesrv=ours.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe("golden", listener=inbox)
        consumer.start()
        seen = inbox.wait(len(files.deliveries()))
    assert {(one.queue, one.offset, one.msg_id) for one in seen} == {
        (row["queueId"], row["queueOffset"], row["msgId"]) for row in files.deliveries()
    }
    ours.stop()
