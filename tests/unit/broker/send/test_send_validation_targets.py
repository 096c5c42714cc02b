"""Checks of sends: which queue they go to, which topics are created, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.broker.send.send_validation import SendTarget, SendTargets
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.topic import TopicConfig
from tests.unit.broker.harness import START_MS, InProcess
from tests.unit.broker.requests import send

ILLEGAL_PARAMETER, NO_PERMISSION, TOPIC_NOT_EXIST, SYSTEM_ERROR, MESSAGE_ILLEGAL = 29, 16, 17, 1, 13


@pytest.fixture
def targets(running: InProcess) -> SendTargets:
    return running.services.sender.targets


def refused(targets: SendTargets, topic: str = "t", queue_id: int = 0, **more: Any) -> tuple[int, str | None]:
    with pytest.raises(BrokerError) as caught:
        targets.find(send(topic, queue_id, **more), "10.0.0.9:1")
    assert (topic, queue_id) not in targets.known
    return caught.value.code, caught.value.remark


def make(running: InProcess, **more: Any) -> None:
    running.services.topics.put(
        [TopicConfig(**{"topic_name": "t", "read_queue_nums": 3, "write_queue_nums": 3} | more)]
    )


def test_a_target_has_what_its_topic_adds(running: InProcess, targets: SendTargets) -> None:
    make(running)
    assert targets.find(send("t", 2), "x") == SendTarget("t", 2, "2", 0, False, False, 3)
    make(running, topic_filter_type="MULTI_TAG", attributes={"queue.type": "BatchCQ"})
    assert targets.find(send("t", 2), "x") == SendTarget("t", 2, "2", 2, False, True, 3)
    make(running, topic_name="%RETRY%g")
    assert targets.find(send("%RETRY%g", 0), "x").is_retry


def test_targets_are_remembered_but_random_ones(running: InProcess, targets: SendTargets) -> None:
    make(running)
    targets.forget()
    found = {targets.find(send("t", -1), "x").queue_id for _ in range(200)}
    assert found == {0, 1, 2}
    assert targets.known == {}
    first = targets.find(send("t", 1), "x")
    assert targets.known == {("t", 1): first}
    running.config.enable_topic_message_type_check = True
    targets.find(send("t", 2), "x")
    assert ("t", 2) not in targets.known, "whether it may be sent depends on the message"


def test_a_topic_without_queues_for_sends_has_queue_0(running: InProcess, targets: SendTargets) -> None:
    make(running, write_queue_nums=0)
    assert targets.find(send("t", -1), "x").queue_id == 0


@pytest.mark.parametrize(("read", "write", "queue_id", "fits"), [(3, 5, 4, True), (5, 3, 4, True), (3, 4, 4, False)])
def test_a_queue_is_one_that_is_read_or_written(
    running: InProcess, targets: SendTargets, read: int, write: int, queue_id: int, fits: bool
) -> None:
    make(running, read_queue_nums=read, write_queue_nums=write)
    if fits:
        assert targets.find(send("t", queue_id), "x").queue_id == queue_id
    else:
        code, remark = refused(targets, queue_id=queue_id)
        assert code == ILLEGAL_PARAMETER
        assert (remark or "").startswith("request queueId[4] is illegal, TopicConfig [topicName=t")
        assert (remark or "").endswith("Producer: 10.0.0.9:1")


@pytest.mark.parametrize(("priority", "queue"), [(-1, 0), (0, 0), (2, 2), (3, 2), (99, 2)])
def test_a_priority_is_the_nearest_queue(priority: int, queue: int) -> None:
    target = SendTarget("t", 1, "1", 0, False, False, 3).of_priority(priority)
    assert (target.queue_id, target.queue_text) == (queue, str(queue))


@pytest.mark.parametrize(("begins", "accepted"), [(0, True), (START_MS, True), (START_MS + 1, False)])
def test_sends_are_accepted_from_a_time_on(
    running: InProcess, targets: SendTargets, begins: int, accepted: bool
) -> None:
    running.config.start_accept_send_request_time_stamp = begins
    if accepted:
        assert targets.find(send(), "x").topic == "t"
    else:
        assert refused(targets) == (SYSTEM_ERROR, f"broker unable to service, until {begins}")


@pytest.mark.parametrize(
    ("permission", "order", "accepted"), [(6, True, True), (2, True, True), (4, True, False), (4, False, True)]
)
def test_without_write_permission_order_topics_refuse_messages(
    running: InProcess, targets: SendTargets, permission: int, order: bool, accepted: bool
) -> None:
    make(running, order=order)
    running.config.broker_permission = permission
    if accepted:
        assert targets.find(send(), "x").topic == "t"
    else:
        code, remark = refused(targets)
        assert code == NO_PERMISSION
        assert "127.0.0.1" in (remark or "")


def test_topics_that_clients_may_not_send_to(targets: SendTargets) -> None:
    topic = "RMQ_SYS_TRANS_HALF_TOPIC"
    assert refused(targets, topic) == (NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
    assert refused(targets, "no topic!")[0] == ILLEGAL_PARAMETER
    assert refused(targets, "")[0] == ILLEGAL_PARAMETER


@pytest.mark.parametrize(("unit", "flag"), [(True, 1), (False, 0)])
def test_a_topic_is_created_by_its_first_message(
    running: InProcess, targets: SendTargets, unit: bool, flag: int
) -> None:
    targets.find(send("new", 0, default_topic_queue_nums=3, unit_mode=unit), "x")
    topic = running.services.topics.table["new"]
    assert (topic.write_queue_nums, topic.read_queue_nums, topic.topic_sys_flag) == (3, 3, flag)


@pytest.mark.parametrize(("unit", "flag"), [(True, 2), (False, 0)])
def test_only_retry_topics_are_created_if_topics_are_not(
    running: InProcess, targets: SendTargets, unit: bool, flag: int
) -> None:
    running.config.auto_create_topic_enable = False
    code, remark = refused(targets, "new", default_topic="absent")
    assert code == TOPIC_NOT_EXIST
    assert "new" in (remark or "")
    assert "new" not in running.services.topics.table
    targets.find(send("%RETRY%g", 0, default_topic="absent", unit_mode=unit), "x")
    topic = running.services.topics.table["%RETRY%g"]
    assert (topic.write_queue_nums, topic.topic_sys_flag) == (1, flag)


def test_a_message_of_the_wrong_type_is_refused_if_types_are_checked(running: InProcess, targets: SendTargets) -> None:
    make(running, attributes={"message.type": "DELAY"})
    assert targets.find(send(), "x").topic == "t"
    targets.forget()
    running.config.enable_topic_message_type_check = True
    assert refused(targets)[0] == MESSAGE_ILLEGAL
    assert targets.find(send(properties={"DELAY": "3"}), "x").topic == "t"
