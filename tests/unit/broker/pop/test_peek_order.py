"""Peeks: how many messages they return, from which queues first, and that nothing is popped."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.pop import PeekMessage
from rocketmq_py.store import NewRecord
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import Client, InProcess
from tests.unit.broker.pop.pop_client import make_topic, put, take
from tests.unit.broker.requests import heartbeat, pop, send

PEEK, NOT_FOUND = 200052, 19


def peek(client: Client, most: int = 32, queue_id: int = -1) -> tuple[list[bytes], int]:
    """The bodies, and how many messages are not popped."""
    header = PeekMessage(topic="t", queue_id=queue_id, max_msg_nums=most, consumer_group="g")
    answer = client.ask(PEEK, header)
    assert answer.code == (0 if answer.body else NOT_FOUND)
    return [message.body for message in decode_records(answer.body)], int(answer.ext["restNum"])


@pytest.fixture
def filled(running: InProcess, client: Client) -> InProcess:
    """Two messages in each of three queues, and one in the retry topic."""
    make_topic(running, 3)
    client.ask(Code.HEART_BEAT, body=heartbeat(t="*"))
    for queue in range(3):
        put(client, b"%d-0" % queue, b"%d-1" % queue, queue_id=queue)
    running.services.topics.put([TopicConfig(topic_name="%RETRY%g_t", read_queue_nums=1, write_queue_nums=1)])
    assert client.ask(Code.SEND_MESSAGE_V2, send("%RETRY%g_t"), b"retry").code == 0
    running.services.pop.peek_service.random_below = lambda _: 1
    return running


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_no_more_messages_are_returned_than_wanted(filled: InProcess, client: Client, most: int) -> None:
    expected = [b"1-0", b"1-1", b"2-0", b"2-1", b"0-0"]
    assert peek(client, most) == (expected[:most], 7)
    assert peek(client, most) == (expected[:most], 7), "nothing was popped"
    del filled


@pytest.mark.parametrize(("chance", "first"), [(0, b"retry"), (5, b"retry"), (1, b"1-0"), (4, b"1-0"), (6, b"0-0")])
def test_the_retry_topic_comes_first_in_one_of_five(
    filled: InProcess, client: Client, chance: int, first: bytes
) -> None:
    filled.services.pop.peek_service.random_below = lambda _: chance
    found, _ = peek(client)
    assert found[0] == first
    assert len(found) == 7
    assert (found[-1] == b"retry") is (first != b"retry")


def test_one_queue_is_read_alone_but_for_the_retry_topic(filled: InProcess, client: Client) -> None:
    assert peek(client, queue_id=2) == ([b"2-0", b"2-1", b"retry"], 3)
    del filled


def test_popped_messages_are_not_peeked(running: InProcess, client: Client) -> None:
    make_topic(running)
    put(client, b"one", b"two")
    assert len(take(client, max_msg_nums=1)) == 1
    assert peek(client) == ([b"two"], 1)
    take(client)
    assert peek(client) == ([], 0)


def test_with_both_forms_of_retry_topics_both_are_peeked(filled: InProcess, client: Client) -> None:
    filled.services.topics.put([TopicConfig(topic_name="%RETRY%g+t", read_queue_nums=1, write_queue_nums=1)])
    filled.services.store.append(NewRecord("%RETRY%g+t", 0, b"retry 2", b""))
    filled.services.store.commit_pending()
    cases: list[tuple[dict[str, Any], set[bytes]]] = [
        ({}, {b"retry"}),
        ({"enable_retry_topic_v2": True}, {b"retry", b"retry 2"}),
        ({"enable_retry_topic_v2": True, "retrieve_message_from_pop_retry_topic_v1": False}, {b"retry 2"}),
    ]
    for settings, expected in cases:
        for name, value in settings.items():
            setattr(filled.config, name, value)
        found, _ = peek(client)
        assert {body for body in found if body.startswith(b"retry")} == expected


def test_a_held_pop_that_times_out_tells_that_nothing_is_left(running: InProcess, client: Client) -> None:
    make_topic(running)
    header = pop(poll_time=5_000, born_time=running.now)
    assert client.call(Code.POP_MESSAGE, header) is None
    running.turn(6_000)
    [answer] = client.heard
    assert (answer.code, answer.remark) == (210, "the broker[127.0.0.1] pop message is timeout too much")
    fields = ("popTime", "invisibleTime", "reviveQid", "restNum")
    assert [answer.ext[name] for name in fields] == ["0", "0", "0", "0"]
