"""Requests about pops, made of our broker and of Java's: the same answers, field by field."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rocketmq_py.protocol import pop_handle
from rocketmq_py.protocol.bodies.pop import BatchAck, BatchAckRequest
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.offset import QueueHeader
from rocketmq_py.protocol.headers.pop import AckMessage, ChangeInvisibleTime, Notification, PeekMessage, PollingInfo
from rocketmq_py.protocol.headers.topic import CreateTopic
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_records
from tests.interop.javapeer import JavaServer
from tests.interop.ours import OurServer
from tests.interop.side import eventually
from tests.server.rawpeer import RawPeer
from tests.unit.broker.requests import pop, send

MESSAGES = 6
INVISIBLE_MS = 30_000
"""Longer than a test asks about what it has popped."""

Answer = dict[str, Any]
Made = Header | Callable[[Command], Header]
"""A request, or what makes it of the answer to an earlier one on the same broker."""


class Both:
    """One connection to each broker, and a topic of one queue with messages of two tags."""

    def __init__(self, ours: RawPeer, java: RawPeer) -> None:
        self.peers = (ours, java)
        self.topic = f"t-{uuid.uuid4().hex[:12]}"
        create = CreateTopic(topic=self.topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
                             topic_filter_type="SINGLE_TAG", order=False)  # fmt: skip
        queue = QueueHeader(topic=self.topic, queue_id=0).to_ext()  # a Java broker fills it after its answers
        for peer in self.peers:
            assert peer.ask(Code.UPDATE_AND_CREATE_TOPIC, create.to_ext()).code == 0
            for i in range(MESSAGES):
                header = send(topic=self.topic, properties={"TAGS": "AB"[i % 2], "n": str(i)})
                assert peer.ask(Code.SEND_MESSAGE_V2, header.to_ext(), b"%d" % i).code == 0
            eventually(
                lambda peer=peer: peer.ask(Code.GET_MAX_OFFSET, queue).ext["offset"], lambda end: int(end) == MESSAGES
            )

    def pop(self, **more: Any) -> Header:
        return pop(**{"topic": self.topic, "invisible_time": INVISIBLE_MS, **more})

    def ask(self, code: Code, made: Made, after: tuple[Command, ...] | None = None) -> tuple[Command, ...]:
        """The answers of both, which must be the same."""
        headers = [made(after[i]) if callable(made) and after else made for i in range(2)]
        answers = tuple(peer.ask(code, header.to_ext()) for peer, header in zip(self.peers, headers, strict=True))  # type: ignore[union-attr]
        ours, java = map(comparable, answers)
        assert ours == java
        return answers


@pytest.fixture(scope="module")
def peers(our_server: OurServer, java_broker: JavaServer) -> Iterator[tuple[RawPeer, RawPeer]]:
    with RawPeer(our_server.broker) as ours, RawPeer(java_broker.address) as java:
        yield ours, java


@pytest.fixture
def both(peers: tuple[RawPeer, RawPeer]) -> Both:
    return Both(*peers)


def comparable(answer: Command) -> Answer:
    """An answer without what is a matter of time, chance and address."""
    ext = {name: value for name, value in answer.ext.items() if name not in ("popTime", "reviveQid")}
    ext["popped"] = str(answer.ext.get("popTime", "0") != "0")
    ext["in order"] = str(answer.ext.get("reviveQid") == "999")
    remark = re.split(r" consumer:\[|: |, /", (answer.remark or "").replace("not set any response code", ""))[0]
    return {
        "code": answer.code, "remark": remark, "ext": ext,
        "messages": [
            (one.topic, one.queue_id, one.queue_offset, one.body, one.reconsume_times, properties(one.properties))
            for one in decode_records(answer.body)
        ],
    }  # fmt: skip


def properties(found: Any) -> dict[str, str]:
    known = {name: value for name, value in found.items() if name not in ("UNIQ_KEY", "1ST_POP_TIME", "POP_CK")}
    known["first pop"] = str("1ST_POP_TIME" in found)
    words = found.get("POP_CK", "").split(" ")
    return known | {"handle": " ".join([*words[:1], *words[4:]])}


def handle(answer: Command, offset: int) -> str:
    """The handle of a message that a pop of queue 0 brought."""
    start = pop_handle.parse_start_offsets(answer.ext["startOffsetInfo"])["0", 0]
    ext = answer.ext
    return f"{start} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 broker-a 0 {offset}"


def acks(topic: str, offset: int, group: str = "g", queue_id: int = 0) -> Callable[[Command], Header]:
    return lambda answer: AckMessage(
        consumer_group=group, topic=topic, queue_id=queue_id, extra_info=handle(answer, min(offset, 5)), offset=offset
    )


def test_pops_acks_and_revivals_are_answered_alike(both: Both) -> None:
    topic = both.topic
    first = both.ask(Code.POP_MESSAGE, both.pop(max_msg_nums=4))
    both.ask(Code.POP_MESSAGE, both.pop(exp="B"))
    both.ask(Code.POP_MESSAGE, both.pop())
    both.ask(Code.ACK_MESSAGE, acks(topic, 0), first)
    both.ask(Code.ACK_MESSAGE, acks(topic, 0), first)
    both.ask(Code.ACK_MESSAGE, acks(topic, 77), first)
    both.ask(Code.ACK_MESSAGE, acks(topic, 1, queue_id=5), first)
    both.ask(
        Code.CHANGE_MESSAGE_INVISIBLETIME,
        lambda answer: ChangeInvisibleTime(
            consumer_group="g", topic=topic, queue_id=0, extra_info=handle(answer, 1), offset=1, invisible_time=600_000
        ),
        first,
    )
    both.ask(
        Code.CHANGE_MESSAGE_INVISIBLETIME,
        ChangeInvisibleTime(consumer_group="g", topic="no", queue_id=0, extra_info="x", offset=1, invisible_time=1),
    )
    for peer, answer in zip(both.peers, first, strict=True):
        ext = answer.ext
        done = BatchAck(consumer_group="g", topic=topic, retry="0", start_offset=0, queue_id=0,
                        revive_queue_id=int(ext["reviveQid"]), pop_time=int(ext["popTime"]),
                        invisible_time=INVISIBLE_MS, bits=pop_handle.encode_bits([2, 60]))  # fmt: skip
        body = BatchAckRequest(broker_name="broker-a", acks=[done]).encode()
        assert peer.ask(Code.BATCH_ACK_MESSAGE, {}, body).code == 0
        assert peer.ask(Code.BATCH_ACK_MESSAGE).code == 208
    ours, java = (sorted(come_back(peer, both.topic), key=str) for peer in both.peers)
    assert ours == java
    assert [message[3] for message in ours] == [b"3", b"5"]


def come_back(peer: RawPeer, topic: str) -> list[Any]:
    """The two messages that were neither acked nor kept."""
    found: list[Any] = []

    def look() -> list[Any]:
        answer = peer.ask(Code.POP_MESSAGE, pop(topic=topic, invisible_time=600_000).to_ext())
        found.extend(
            (one.topic, one.queue_id, one.queue_offset, one.body, one.reconsume_times, properties(one.properties))
            for one in decode_records(answer.body)
        )
        return found

    eventually(look, lambda seen: len(seen) >= 2)
    # in which order they come is a matter of revive queues
    return [(*one[:2], None, *one[3:5], {**one[5], "handle": one[5]["handle"].split(" ")[1:4]}) for one in found]


def test_orderly_pops_are_answered_alike(both: Both) -> None:
    group, topic = "g-order", both.topic
    first = both.ask(Code.POP_MESSAGE, both.pop(consumer_group=group, max_msg_nums=2, order=True, attempt_id="1"))
    both.ask(Code.POP_MESSAGE, both.pop(consumer_group=group, max_msg_nums=2, order=True, attempt_id="2"))
    again = both.ask(Code.POP_MESSAGE, both.pop(consumer_group=group, max_msg_nums=2, order=True, attempt_id="1"))
    both.ask(Code.ACK_MESSAGE, acks(topic, 0, group), first)
    both.ask(Code.ACK_MESSAGE, acks(topic, 3, group), again)
    both.ask(Code.ACK_MESSAGE, acks(topic, 0, group), again)
    both.ask(
        Code.CHANGE_MESSAGE_INVISIBLETIME,
        lambda answer: ChangeInvisibleTime(
            consumer_group=group, topic=topic, queue_id=0, extra_info=handle(answer, 0), offset=0, invisible_time=1
        ),
        again,
    )
    both.ask(Code.POP_MESSAGE, both.pop(consumer_group=group, max_msg_nums=2, order=True, attempt_id="3"))
    both.ask(Code.ACK_MESSAGE, acks(topic, 1, group), again)
    third = both.ask(Code.POP_MESSAGE, both.pop(consumer_group=group, order=True, invisible_time=1))
    while time.time_ns() // 1_000_000 <= 1 + max(int(answer.ext["popTime"]) for answer in third):
        pass  # less than a millisecond, but one clock must have gone on
    both.ask(Code.NOTIFICATION, Notification(topic=topic, consumer_group=group, queue_id=0, poll_time=0, order=True))
    counted = both.ask(Code.POP_MESSAGE, both.pop(consumer_group=group, max_msg_nums=2, order=True))
    assert third[0].ext["orderCountInfo"] == third[1].ext["orderCountInfo"]
    assert counted[0].ext["orderCountInfo"] == counted[1].ext["orderCountInfo"]


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "no"}, {"max_msg_nums": 33}, {"queue_id": 7}, {"exp": "||"}, {"exp": "a >", "exp_type": "SQL92"},
        {"exp": "n > 1", "exp_type": "SQL92", "consumer_group": "g-sql"}, {"born_time": 1}, {"consumer_group": "a b"},
        {"init_mode": 1, "consumer_group": "g-last"}, {"queue_id": 0, "consumer_group": "g-0", "exp": "A || C"},
        {"exp": "X", "consumer_group": "g-none"},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_pops_of_all_kinds_are_answered_alike(both: Both, change: dict[str, Any]) -> None:
    both.ask(Code.POP_MESSAGE, both.pop(**change))


def test_peeks_are_answered_alike(both: Both) -> None:
    topic = both.topic
    for wanted in ({}, {"queue_id": 0, "max_msg_nums": 2}, {"queue_id": 9}, {"topic": "no"}, {"consumer_group": "a b"}):
        fields = {"topic": topic, "queue_id": -1, "max_msg_nums": 32, "consumer_group": "g-look", **wanted}
        both.ask(Code.PEEK_MESSAGE, PeekMessage(**fields))  # type: ignore[arg-type]
        del fields["max_msg_nums"]
        both.ask(Code.NOTIFICATION, Notification(poll_time=0, **fields))  # type: ignore[arg-type]
        both.ask(Code.POLLING_INFO, PollingInfo(**fields))  # type: ignore[arg-type]
    both.ask(Code.POP_MESSAGE, both.pop(consumer_group="g-look"))
    both.ask(Code.PEEK_MESSAGE, PeekMessage(topic=topic, queue_id=-1, max_msg_nums=32, consumer_group="g-look"))
    both.ask(Code.NOTIFICATION, Notification(topic=topic, queue_id=-1, consumer_group="g-look", poll_time=0))


def test_modes_and_assignments_are_answered_alike(both: Both) -> None:
    topic = both.topic

    def say(code: Code, **body: Any) -> list[Any]:
        answers = [peer.ask(code, {}, json.dumps(body).encode()) for peer in both.peers]
        return [(answer.code, answer.remark, json.loads(answer.body or b"null")) for answer in answers]

    for wanted in ({"topic": "no"}, {"topic": "%RETRY%g"}, {"consumerGroup": "a b"}, {"topic": topic}):
        body = {"topic": topic, "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 8, **wanted}
        ours, java = say(Code.SET_MESSAGE_REQUEST_MODE, **body)
        assert ours == java
    for wanted in (
        {},
        {"strategyName": "X"},
        {"strategyName": None},
        {"messageModel": "BROADCASTING"},
        {"topic": "no"},
    ):
        asked = {"topic": topic, "consumerGroup": "g", "clientId": "c", "strategyName": "AVG",
                 "messageModel": "CLUSTERING", **wanted}  # fmt: skip
        ours, java = say(Code.QUERY_ASSIGNMENT, **asked)
        assert ours == java
