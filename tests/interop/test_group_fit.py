"""Members of a group with different subscriptions or equal client ids, at both brokers."""

from __future__ import annotations

import logging

import pytest

from rocketmq_py import ConsumeFromWhere, Message, Producer, PushConsumer
from tests.interop.javapeer import JavaPeer
from tests.interop.side import Inbox, Side, eventually, group

FIRST = ConsumeFromWhere.FIRST_OFFSET


def test_different_subscriptions_are_logged(java: JavaPeer, side: Side, caplog: pytest.LogCaptureFixture) -> None:
    topic, name = side.topic(java), group()
    caplog.set_level(logging.WARNING)
    with PushConsumer(name, side.namesrv, listener=Inbox()) as one, PushConsumer(name, side.namesrv) as two:
        one.subscribe(topic, "a")
        one.start()
        two.subscribe(topic, "b", Inbox())
        two.start()
        eventually(lambda: caplog.text, lambda text: "have different subscriptions" in text)
    [first, *_] = [record.getMessage() for record in caplog.records if "different subscriptions" in record.getMessage()]
    assert name in first
    assert topic in first


def test_a_duplicate_client_id_is_logged_and_loses_no_message(
    java: JavaPeer, side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    topic, name = side.topic(java), group()
    caplog.set_level(logging.WARNING)
    inboxes = Inbox(), Inbox()
    members = [
        PushConsumer(name, side.namesrv, listener=inbox, instance_name=name, consume_from=FIRST) for inbox in inboxes
    ]
    for member in members:
        member.subscribe(topic)
        member.start()
    try:
        eventually(lambda: caplog.text, lambda text: "used by more than one consumer" in text)
        with Producer("p", side.namesrv) as producer:
            bodies = {b"%d" % i for i in range(12)}
            for body in bodies:
                producer.send(Message(topic, body))
        for member in members:
            eventually(lambda member=member: [queue.topic for queue in member.queues].count(topic), lambda n: n == 4)  # type: ignore[misc]
        for inbox in inboxes:
            inbox.until(lambda seen: {one.body for one in seen} == bodies)
    finally:
        for member in members:
            member.close()
