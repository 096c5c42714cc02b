"""Messages that consumers send back: the topics that are created for them, and their levels."""

from __future__ import annotations

import pytest

from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_record
from tests.unit.broker.harness import Client, InProcess
from tests.unit.broker.requests import send

SEND_BACK, SEND_V2 = 36, 310
NO_PERMISSION = 16
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def back(running: InProcess, client: Client, level: int = 0, **more: object) -> Command:
    running.services.groups.put([SubscriptionGroupConfig(group_name="g", retry_queue_nums=2)])
    sent = client.ask(SEND_V2, send(), b"body")
    offset = int(sent.ext["msgId"][16:], 16)
    header = ConsumerSendMsgBack(offset=offset, group="g", delay_level=level, origin_topic="t", **more)  # type: ignore[arg-type]
    return client.ask(SEND_BACK, header)


@pytest.mark.parametrize(("unit", "flag"), [(True, 2), (False, 0)])
def test_the_retry_topic_has_the_groups_queues_and_its_unit(
    running: InProcess, client: Client, unit: bool, flag: int
) -> None:
    assert back(running, client, unit_mode=unit).code == 0
    topic = running.services.topics.table["%RETRY%g"]
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.topic_sys_flag, topic.perm) == (2, 2, flag, 6)


@pytest.mark.parametrize(("level", "queue"), [(0, 2), (1, 0), (5, 4)])
def test_a_message_waits_at_its_level_the_third_by_default(
    running: InProcess, client: Client, level: int, queue: int
) -> None:
    assert back(running, client, level).code == 0
    raw = running.services.store.record_at_queue(SCHEDULE, queue, 0)
    assert raw is not None
    message = decode_record(raw)
    properties = message.properties
    assert (properties["REAL_TOPIC"], properties["RETRY_TOPIC"], properties["WAIT"]) == ("%RETRY%g", "t", "false")
    assert properties["REAL_QID"] in ("0", "1")
    assert properties["DELAY"] == str(queue + 1)
    assert message.reconsume_times == 1
    assert "ORIGIN_MESSAGE_ID" in properties


def test_a_negative_level_makes_a_dead_letter(running: InProcess, client: Client) -> None:
    assert back(running, client, -1).code == 0
    topic = running.services.topics.table["%DLQ%g"]
    assert (topic.read_queue_nums, topic.write_queue_nums) == (1, 1)
    raw = running.services.store.record_at_queue("%DLQ%g", 0, 0)
    assert raw is not None
    assert decode_properties(b"RETRY_TOPIC\x01t\x02").items() <= decode_record(raw).properties.items()
    assert running.services.stats.find("SNDBCK2DLQ_TIMES", "t@g") is not None


def test_a_broker_or_topic_that_is_not_writable_refuses(running: InProcess, client: Client) -> None:
    assert back(running, client).code == 0
    end = running.services.store.queue_range(SCHEDULE, 2)
    running.services.topics.table["%RETRY%g"].perm = 4
    answer = back(running, client)
    assert (answer.code, answer.remark) == (NO_PERMISSION, "the topic[%RETRY%g] sending message is forbidden")
    running.services.topics.table["%RETRY%g"].perm = 6
    running.config.broker_permission = 4
    assert back(running, client).code == NO_PERMISSION
    assert running.services.store.queue_range(SCHEDULE, 2) == end
