"""What a send is checked for before anything is stored, and the queue it goes to."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.broker.send.send_validation import SendTarget
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.unit.broker.harness import START_MS, Client, InProcess
from tests.unit.broker.requests import send


@pytest.mark.parametrize(
    ("priority", "queues", "queue"), [(0, 4, 0), (3, 4, 3), (4, 4, 3), (99, 4, 3), (-1, 4, 0), (5, 1, 0), (5, 0, 0)]
)
def test_a_priority_is_the_queue_of_its_number(priority: int, queues: int, queue: int) -> None:
    target = SendTarget("t", 7, "7", 5, True, True, queues)
    assert target.of_priority(priority) == SendTarget("t", queue, str(queue), 5, True, True, queues)


def sent(client: Client, topic: str = "t", queue: int = 0, **more: Any) -> tuple[int, str | None]:
    answer = client.ask(Code.SEND_MESSAGE_V2, send(topic, queue, **more), b"body")
    return answer.code, answer.remark if answer.code else answer.ext["queueId"]


@pytest.fixture
def topic(running: InProcess) -> TopicConfig:
    """Three queues to read, two to write."""
    found = TopicConfig(topic_name="t", read_queue_nums=3, write_queue_nums=2, perm=6)
    running.services.topics.put([found])
    return found


@pytest.mark.parametrize(("queue", "accepted"), [(0, True), (2, True), (3, False), (9, False)])
def test_a_queue_that_can_be_read_or_written_is_accepted(
    topic: TopicConfig, client: Client, queue: int, accepted: bool
) -> None:
    code, text = sent(client, queue=queue)
    if accepted:
        assert (code, text) == (0, str(queue))
    else:
        assert code == 29
        assert f"request queueId[{queue}] is illegal" in (text or "")
        assert f"Producer: {client.peer.address}" in (text or "")


def test_without_a_queue_any_that_can_be_written_is_chosen(topic: TopicConfig, client: Client) -> None:
    assert {sent(client, queue=-1) for _ in range(40)} == {(0, "0"), (0, "1")}


@pytest.mark.parametrize(("begins", "accepted"), [(START_MS + 1, False), (START_MS, True), (0, True)])
def test_a_broker_may_accept_messages_from_a_time_on(
    topic: TopicConfig, running: InProcess, client: Client, begins: int, accepted: bool
) -> None:
    running.config.start_accept_send_request_time_stamp = begins
    code, text = sent(client)
    assert (code == 0) is accepted
    if not accepted:
        assert (code, text) == (1, f"broker unable to service, until {begins}")


@pytest.mark.parametrize(
    ("name", "code"),
    [("SCHEDULE_TOPIC_XXXX", 16), ("RMQ_SYS_TRANS_HALF_TOPIC", 16), ("OFFSET_MOVED_EVENT", 16), ("a b", 29), ("", 29)],
)
def test_names_that_producers_may_not_use_are_refused(client: Client, name: str, code: int) -> None:
    assert sent(client, name)[0] == code


def test_an_order_topic_is_refused_by_a_broker_that_is_read_only(
    topic: TopicConfig, running: InProcess, client: Client
) -> None:
    running.config.broker_permission = 4
    ordered = TopicConfig(topic_name="o", perm=6, order=True)
    running.services.topics.put([ordered])
    code, text = sent(client, "o")
    assert (code, "sending message is forbidden" in (text or "")) == (16, True)


@pytest.mark.parametrize(("unit", "flag"), [(True, 1), (False, 0), (None, 0)])
def test_a_created_topic_has_the_unit_of_its_producer(
    running: InProcess, client: Client, unit: bool | None, flag: int
) -> None:
    assert sent(client, "new", unit_mode=unit)[0] == 0
    made = running.services.topics.get("new")
    assert made is not None
    assert made.topic_sys_flag == flag


def test_tags_of_several_are_marked(running: InProcess, client: Client) -> None:
    running.services.topics.put([TopicConfig(topic_name="m", topic_filter_type="MULTI_TAG")])
    assert sent(client, "m")[0] == 0
    raw = running.services.store.record_at_queue("m", 0, 0)
    assert raw is not None
    assert int.from_bytes(raw[36:40], "big") & 2 == 2
