"""Delayed messages, messages sent back, retry and dead-letter topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.wire.record import decode_record
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import send

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def message(running: InProcess, topic: str, offset: int = 0, queue: int = 0) -> MessageExt:
    raw = running.services.store.record_at_queue(topic, queue, offset)
    assert raw is not None
    return decode_record(raw)


def count(running: InProcess, topic: str, queue: int = 0) -> int:
    return running.services.store.queue_range(topic, queue)[1]


# -- delays


@pytest.mark.parametrize(("level", "queue", "delay"), [("1", 0, 1_000), ("2", 1, 5_000), ("99", 17, 7_200_000)])
def test_a_delayed_message_waits_for_its_time(
    running: InProcess, client: Client, level: str, queue: int, delay: int
) -> None:
    answer = client.ask(Code.SEND_MESSAGE_V2, send(queue_id=3, properties={"DELAY": level, "TAGS": "A"}), b"body")
    assert (answer.code, answer.ext["queueId"]) == (0, "3")
    assert count(running, "t", 3) == 0
    assert count(running, SCHEDULE, queue) == 1
    running.turn(delay - 1)
    assert count(running, "t", 3) == 0
    running.turn(1)
    delivered = message(running, "t", queue=3)
    assert (delivered.body, delivered.queue_id) == (b"body", 3)
    assert delivered.born_host == client.peer.address
    assert running.services.store.queue_entries("t", 3, 0, 1)[0][2] == 65
    running.turn(delay)
    assert count(running, "t", 3) == 1


def test_messages_of_a_level_come_in_order(running: InProcess, client: Client) -> None:
    for i in range(3):
        client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"%d" % i)
        running.turn(500)
    running.turn(500)
    assert [message(running, "t", offset).body for offset in range(3)] == [b"0", b"1", b"2"]


def test_a_delay_level_of_zero_does_not_delay(running: InProcess, client: Client) -> None:
    for level in ("0", "-1", "soon"):
        client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": level}), b"body")
    assert count(running, "t") == 3


def test_delayed_messages_survive_a_restart(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        client = running.connect()
        for _ in range(2):
            client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"body")
            running.turn(1_000)
        client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"last")
        assert count(running, "t") == 2
    with broker(tmp_path) as running:
        running.turn(10_000)
        assert count(running, "t") == 3
        assert message(running, "t", 2).body == b"last"


def test_a_compressed_delayed_message_stays_as_it_was_sent(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}, sys_flag=0x101), b"no LZ4 at all")
    running.turn(1_000)
    raw = running.services.store.record_at_queue("t", 0, 0)
    assert raw is not None
    assert b"no LZ4 at all" in raw


# -- send-back


def back(offset: int = 0, level: int = 0, **more: Any) -> ConsumerSendMsgBack:
    return ConsumerSendMsgBack(offset=offset, group="g", delay_level=level, **more)


def fail(running: InProcess, client: Client, failed: MessageExt, **more: Any) -> None:
    answer = client.ask(Code.CONSUMER_SEND_MSG_BACK, back(failed.commit_log_offset, **more))
    assert (answer.code, answer.remark) == (0, None)
    running.turn(7_200_000)


def test_a_message_is_retried_and_ends_in_the_dead_letter_topic(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(properties={"TAGS": "A", "UNIQ_KEY": "U"}, flag=7), b"body")
    current = first = message(running, "t")
    for retry in range(2):
        fail(running, client, current, max_reconsume_times=2)
        current = message(running, "%RETRY%g", retry)
        assert current.reconsume_times == retry + 1
        assert current.properties["DELAY"] == str(3 + retry)
    fail(running, client, current, max_reconsume_times=2)
    dead = message(running, "%DLQ%g")
    assert count(running, "%RETRY%g") == 2
    assert (dead.body, dead.flag, dead.tags, dead.msg_id, dead.reconsume_times) == (b"body", 7, "A", "U", 3)
    assert dead.properties["RETRY_TOPIC"] == "t"
    assert dead.properties["ORIGIN_MESSAGE_ID"] == first.offset_msg_id
    assert dead.born_host == first.born_host


def test_a_client_chooses_the_level(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    client.ask(Code.CONSUMER_SEND_MSG_BACK, back(level=5))
    assert count(running, SCHEDULE, 4) == 1


def test_a_negative_level_goes_to_the_dead_letter_topic(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    client.ask(Code.CONSUMER_SEND_MSG_BACK, back(level=-1))
    assert count(running, "%DLQ%g") == 1


def test_old_clients_take_the_limit_of_their_group(running: InProcess, client: Client) -> None:
    running.services.groups.put([SubscriptionGroupConfig(group_name="g", retry_max_times=0)])
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    client.ask(Code.CONSUMER_SEND_MSG_BACK, back(max_reconsume_times=16), version=120)
    assert count(running, "%DLQ%g") == 1
    client.ask(Code.CONSUMER_SEND_MSG_BACK, back(max_reconsume_times=16))
    assert count(running, SCHEDULE, 2) == 1


def test_a_group_without_retry_queues_stores_no_failures(running: InProcess, client: Client) -> None:
    running.services.groups.put([SubscriptionGroupConfig(group_name="g", retry_queue_nums=0)])
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    assert client.ask(Code.CONSUMER_SEND_MSG_BACK, back()).code == 0
    assert count(running, SCHEDULE, 2) == 0


def test_invalid_send_backs_are_refused(tmp_path: Path) -> None:
    with broker(tmp_path, auto_create_subscription_group=False) as running:
        client = running.connect()

        def refused() -> tuple[int, str | None]:
            answer = client.ask(Code.CONSUMER_SEND_MSG_BACK, back(12345))
            return answer.code, answer.remark

        assert refused()[0] == 26
        running.services.groups.put([SubscriptionGroupConfig(group_name="g")])
        assert refused() == (1, "look message by offset failed, 12345")
        running.services.topics.put([TopicConfig(topic_name="%RETRY%g", perm=4)])
        assert refused() == (16, "the topic[%RETRY%g] sending message is forbidden")


# -- sends to a retry topic


def to_retry(client: Client, times: int, limit: int | None = 2, **more: Any) -> None:
    header = send("%RETRY%g", reconsume_times=times, max_reconsume_times=limit, **more)
    assert client.ask(Code.SEND_MESSAGE_V2, header, b"body").code == 0


def test_a_client_may_send_to_the_retry_topic_itself(running: InProcess, client: Client) -> None:
    to_retry(client, 2, properties={"DELAY": "1", "TRAN_MSG": "true"})
    assert count(running, SCHEDULE, 0) == 1
    to_retry(client, 3)
    assert count(running, "%DLQ%g") == 1
    assert message(running, "%DLQ%g").properties["DELAY"] == "-1"


def test_failures_of_an_orderly_group_go_to_the_dead_letter_topic(running: InProcess, client: Client) -> None:
    running.services.locks.lock("g", "me", [MessageQueue("t", "broker-a", 0)], running.now)
    to_retry(client, 0)
    assert count(running, "%DLQ%g") == 1


def test_a_retry_topic_of_an_unknown_group_is_refused(tmp_path: Path) -> None:
    with broker(tmp_path, auto_create_subscription_group=False) as running:
        answer = running.connect().ask(Code.SEND_MESSAGE_V2, send("%RETRY%g"), b"body")
        assert answer.code == 26


def test_a_retry_topic_is_created_without_automatic_topic_creation(tmp_path: Path) -> None:
    with broker(tmp_path, auto_create_topic_enable=False) as running:
        assert running.connect().ask(Code.SEND_MESSAGE_V2, send("%RETRY%g"), b"body").code == 0
        topic = running.services.topics.get("%RETRY%g")
        assert topic is not None
        assert topic.write_queue_nums == 1


def test_a_failure_does_not_change_an_order_topic(running: InProcess, client: Client) -> None:
    running.services.topics.create_for_group("%RETRY%g", 1, order=True)
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    client.ask(Code.CONSUMER_SEND_MSG_BACK, back())
    assert running.services.topics.is_order("%RETRY%g")
    assert not running.services.topics.create_for_group("%RETRY%g", 1, order=False).order


def test_a_send_back_of_an_offset_inside_a_message_is_refused(
    running: InProcess, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    body = (512).to_bytes(4) + b"no record" * 100
    client.ask(Code.SEND_MESSAGE_V2, send(), body)
    place = running.services.store.queue_entries("t", 0, 0, 1)[0][0]
    raw = running.services.store.message_at(place)
    assert raw is not None
    inside = place + raw.index(body)
    assert running.services.store.message_at(inside) is not None, "the bytes there announce a size"
    answer = client.ask(Code.CONSUMER_SEND_MSG_BACK, back(inside))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert str(answer.remark).startswith(f"look message by offset failed, {inside}")
    assert not caplog.records
