"""Broadcasting across the two implementations, and one offset file that either client goes on from."""

from __future__ import annotations

import base64
from pathlib import Path

from rocketmq_py import ConsumeFromWhere, Message, MessageModel, Producer, PushConsumer
from rocketmq_py.client.consumer.offsets.local_offsets import encode, load
from tests.interop.javapeer import JavaPeer
from tests.interop.side import Inbox, Side, group

N = 8


def send(side: Side, topic: str, start: int) -> set[bytes]:
    bodies = [b"%d" % i for i in range(start, start + N)]
    with Producer("p", side.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic, body))
    return set(bodies)


def our_consumer(side: Side, name: str, topic: str, inbox: Inbox, directory: Path, instance: str) -> PushConsumer:
    consumer = PushConsumer(
        name, side.namesrv, message_model=MessageModel.BROADCASTING, local_offset_dir=directory,
        instance_name=instance, consume_from=ConsumeFromWhere.FIRST_OFFSET,
    )  # fmt: skip
    consumer.subscribe(topic, listener=inbox)
    return consumer


def test_broadcasting_members_of_both_clients_get_every_message(java: JavaPeer, side: Side, tmp_path: Path) -> None:
    topic, name, inbox = side.topic(java), group(), Inbox()
    directory = f"-Drocketmq.client.localOffsetStoreDir={tmp_path}"
    with (
        our_consumer(side, name, topic, inbox, tmp_path, "ours"),
        java.consumer(side.namesrv, topic, name, n=N, broadcast=True, java_options=directory) as theirs,
    ):
        sent = send(side, topic, 0)
        assert {one.body for one in inbox.wait(N)} == sent
        rows = [row for row in theirs.rows() if row["type"] == "msg"]
    assert {base64.b64decode(row["body"]) for row in rows} == sent


def test_both_clients_continue_from_one_offset_file(java: JavaPeer, side: Side, tmp_path: Path) -> None:
    topic, name, first, last = side.topic(java), group(), Inbox(), Inbox()
    directory = f"-Drocketmq.client.localOffsetStoreDir={tmp_path}"

    sent = send(side, topic, 0)
    with our_consumer(side, name, topic, first, tmp_path, "shared") as ours:
        assert {one.body for one in first.wait(N)} == sent
    path = offsets_of(tmp_path, ours.client_id, name)
    assert sum(load(path).values()) == N

    sent = send(side, topic, N)
    rows = java.consume(side.namesrv, topic, name, N, broadcast=True, instance="shared", java_options=directory)
    assert {base64.b64decode(row["body"]) for row in rows} == sent
    [path] = tmp_path.glob(f"*@shared/{name}/offsets.json")
    again = 2 * N - sum(load(path).values())  # what Java's listener had, but was not through with when it closed
    assert 0 <= again <= N
    assert lines(path.read_bytes()) == lines(encode(load(path))), "we would have written other bytes"

    sent = send(side, topic, 2 * N)
    with our_consumer(side, name, topic, last, tmp_path, "shared"):
        assert len(last.wait(N + again)) == N + again
    assert {one.body for one in last.seen} >= sent


def lines(data: bytes) -> list[bytes]:
    """The lines of an offset file; Java puts queues in the order of their hashes."""
    return sorted(line.rstrip(b",") for line in data.splitlines())


def offsets_of(directory: Path, client_id: str, name: str) -> Path:
    return directory / client_id / name / "offsets.json"
