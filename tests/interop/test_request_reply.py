"""Requests and replies crosswise: either requester with either replier, on either broker."""

from __future__ import annotations

import base64
import logging

import pytest

from rocketmq_py import (
    Admin,
    BrokerError,
    ConsumeFromWhere,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PushConsumer,
    RequestTimeout,
    reply,
)
from tests.interop.javapeer import JavaPeer
from tests.interop.side import WAIT_SECONDS, Side, eventually, group

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
LARGE = "large " * 2000
"""Enough that both clients compress it."""


def test_our_requester_gets_replies_of_a_java_replier(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java)
    with (
        java.consumer(side.namesrv, topic, group(), reply=f"re: {{body}}, {LARGE}") as replier,
        Producer(group(), side.namesrv) as producer,
    ):
        for i in range(3):
            answer = producer.request(Message(topic, f"n{i}", tags="A"), WAIT_SECONDS)
            assert answer.body.decode() == f"re: n{i}, {LARGE}"
            assert answer.topic == REPLY_TOPIC
            assert {"PUSH_REPLY_TIME", "ARRIVE_TIME"} <= answer.properties.keys()
        rows = replier.until(lambda row: row["type"] == "replied")
    asked = next(row for row in rows if row["type"] == "msg")["properties"]
    assert (asked["TTL"], asked["CLUSTER"]) == (str(int(WAIT_SECONDS * 1000)), "DefaultCluster")


def test_a_java_requester_gets_our_replies(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java)
    seen: list[MessageExt] = []
    with (
        Producer(group(), side.namesrv) as producer,
        PushConsumer(group(), side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer,
    ):

        def listen(message: MessageExt) -> None:
            seen.append(message)
            producer.send(reply(message, b"re: " + message.body + LARGE.encode()))

        consumer.subscribe(topic, "*", listen)
        consumer.start()
        timeout_ms = int(WAIT_SECONDS * 1000)
        rows = java.produce(side.namesrv, topic, 3, mode="request", body="n{i}", timeout_ms=timeout_ms, group=group())
    replies = [row for row in rows if row["type"] == "reply"]
    assert [base64.b64decode(row["body"]).decode() for row in replies] == [f"re: n{i}{LARGE}" for i in range(3)]
    asked = {message.properties["CORRELATION_ID"] for message in seen}
    assert {row["properties"]["CORRELATION_ID"] for row in replies} == asked
    assert {"PUSH_REPLY_TIME", "ARRIVE_TIME"} <= replies[0]["properties"].keys()
    assert {message.properties["TTL"] for message in seen} == {str(timeout_ms)}


def test_late_and_undeliverable_replies_are_reported(
    java: JavaPeer, side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    """A late reply is a line in our log, one for a client that is gone fails its sender; both are kept."""
    topic = side.topic(java, 1)
    with Producer(group(), side.namesrv) as replier, Admin(side.namesrv) as admin:
        end = admin.max_offset(MessageQueue(REPLY_TOPIC, "broker-a", 0))
        with Producer(group(), side.namesrv) as requester:
            with pytest.raises(RequestTimeout, match="no reply to request"):
                requester.request(Message(topic, "x"), 5.0)  # a busy machine is to have sent it by then
            requests = eventually(lambda: list(admin.read(MessageQueue(topic, "broker-a", 0))), bool)
            with caplog.at_level(logging.WARNING):
                replier.send(reply(requests[0], "late"))
            eventually(lambda: caplog.text, lambda text: "after the request had timed out" in text)
        with pytest.raises(BrokerError, match=r"push reply message fail, channel of <.*> not found"):
            replier.send(reply(requests[0], "for nobody"))
        kept = eventually(
            lambda: [message.body for message in admin.read(MessageQueue(REPLY_TOPIC, "broker-a", 0), end)],
            lambda bodies: len(bodies) > 1,
        )
    assert kept[0] == b"late"
    assert set(kept[1:]) == {b"for nobody"}
