"""Timed messages across both producers and both brokers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rocketmq_py import ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer
from rocketmq_py.errors import MessageRefused
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServers
from tests.interop.side import WAIT_SECONDS, Inbox, Seen, Side, group

DELAY_MS = 1_500
TIMER_PROPERTIES = {"TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "REAL_TOPIC", "REAL_QID"}


class Times:
    """Remembers how long after they were born messages were stored to be delivered."""

    def __init__(self) -> None:
        self.waited: dict[bytes, int] = {}
        self.inbox = Inbox()

    def __call__(self, message: MessageExt) -> None:
        self.waited[message.body] = message.store_timestamp - message.born_timestamp
        self.inbox(message)


def consumer(namesrv: str, topic: str, listener: object) -> PushConsumer:
    made = PushConsumer(group=group(), namesrv=namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET)
    made.subscribe(topic, listener=listener)
    return made


def test_timed_messages_of_both_producers_are_delivered_by_either_broker(java: JavaPeer, side: Side) -> None:
    topic, times = side.topic(java), Times()
    with consumer(side.namesrv, topic, times):
        java.produce(side.namesrv, topic, 3, delay_ms=DELAY_MS, body="theirs {i}")
        with Producer("p", side.namesrv) as producer:
            handles = [
                producer.send(Message(topic, f"ours {i}", delay=DELAY_MS / 1000)).recall_handle for i in range(3)
            ]
            with pytest.raises(
                MessageRefused, match="timer message illegal, the delay time should not be bigger"
            ) as no:
                producer.send(Message(topic, "x", delay=10 * 365 * 24 * 3600))
            assert no.value.code == 13
            with pytest.raises(MessageRefused, match="timer message illegal"):
                producer.send(Message(topic, "x", properties={"TIMER_DELIVER_MS": "tomorrow"}))
            producer.send(Message(topic, "over", deliver_at=1))
        seen = times.inbox.wait(7)
    assert sorted(one.body.decode() for one in seen) == [*(f"ours {i}" for i in range(3)), "over",
                                                        *(f"theirs {i}" for i in range(3))]  # fmt: skip
    too_early = {body for body, waited in times.waited.items() if waited < DELAY_MS}
    assert too_early <= {b"over"}, times.waited
    assert all(handles)
    told = [TIMER_PROPERTIES & one.properties.keys() for one in seen if one.body != b"over"]
    assert told == [TIMER_PROPERTIES] * 6


def send(namesrv: str, topic: str, times: dict[str, float]) -> dict[str, str]:
    """Sends messages to be delivered at these times; their recall handles."""
    with Producer("p", namesrv) as producer:
        sent = {name: producer.send(Message(topic, name, deliver_at=round(at * 1000))) for name, at in times.items()}
    return {name: result.recall_handle or "" for name, result in sent.items()}


def names(seen: list[Seen]) -> list[str]:
    return sorted(one.body.decode() for one in seen)


def test_timed_messages_survive_a_change_of_brokers(java: JavaPeer, servers: OurServers, tmp_path: Path) -> None:
    """One directory: ours, stopped in the middle of a slot, then Java's, then ours again; each message comes once."""
    store, topic = tmp_path / "store", "alarms"
    ours = servers.serve(store)
    slot = float(int(time.time()) + 2)
    send(ours.namesrv, topic, {"a1": slot + 0.2, "a2": slot + 0.3, "a3": slot + 0.9, "b": slot + 8, "c": slot + 40})
    with consumer(ours.namesrv, topic, inbox := Inbox()):
        inbox.wait(2)
    ours.stop()

    theirs = java.broker(servers.namesrv().namesrv, store=store, conf={"recallMessageEnable": "true"})
    now = time.time()
    handles = send(theirs.namesrv, topic, {"d": now + 2, "not": now + 35, "e": now + 36})
    with Producer("p", theirs.namesrv) as producer:
        assert producer.recall(topic, handles["not"])
    with consumer(theirs.namesrv, topic, inbox := Inbox()):
        seen = inbox.until(lambda found: {b"a3", b"b", b"d"} <= {one.body for one in found})
    assert {"a1", "a2", "a3", "b", "d"} <= set(names(seen)) <= {"a1", "a2", "a3", "b", "c", "d", "e"}
    theirs.process.stop()

    again = servers.serve(store)
    with consumer(again.namesrv, topic, inbox := Inbox()):
        seen = inbox.until(lambda found: {b"c", b"e"} <= {one.body for one in found}, WAIT_SECONDS)
    assert names(seen) == ["a1", "a2", "a3", "b", "c", "d", "e"]
    again.stop()
