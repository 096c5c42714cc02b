"""Recalls of timed messages: each check of Java's order, and the record that cancels the message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.headers.send import RecallMessage
from rocketmq_py.protocol.recall_handle import RecallHandle
from rocketmq_py.wire.record import decode_record
from tests.unit.broker.harness import START_MS, InProcess
from tests.unit.broker.pop.pop_client import make_topic

RECALL, TIMER = 370, "rmq_sys_wheel_timer"
NO_PERMISSION, TOPIC_NOT_EXIST, ILLEGAL, NOT_AVAILABLE, SLAVE = 16, 17, 604, 14, 11
REMARK = "recall failed, service not available"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[InProcess]:
    running = InProcess(tmp_path, recall_message_enable=True)
    make_topic(running)
    yield running
    running.services.close()


def recall(running: InProcess, topic: str = "t", after: int = 60_000, **more: Any) -> tuple[int, str | None]:
    fields = {"topic": "t", "broker_name": "broker-a", "timestamp": running.now + after, "unique_key": "U"} | more
    group = fields.pop("producer_group", None)
    text = fields.pop("text", None) or RecallHandle(**fields).encode()
    header = RecallMessage(topic=topic, recall_handle=text, producer_group=group)
    answer = running.connect().ask(RECALL, header)
    return answer.code, answer.ext.get("msgId") if answer.code == 0 else answer.remark


def stored(running: InProcess) -> int:
    return running.services.store.queue_range(TIMER, 0)[1]


@pytest.mark.parametrize(("group", "with_topic"), [(None, False), ("p", True)])
def test_a_recall_stores_what_cancels_the_message(running: InProcess, group: str | None, with_topic: bool) -> None:
    running.config.append_topic_for_timer_delete_key = with_topic
    assert recall(running, producer_group=group) == (0, "U")
    raw = running.services.store.record_at_queue(TIMER, 0, 0)
    assert raw is not None
    message = decode_record(raw)
    properties = decode_properties("".join(f"{k}\x01{v}\x02" for k, v in message.properties.items()).encode())
    assert message.body == b"0"
    assert properties["TIMER_DEL_UNIQKEY"] == ("t+U" if with_topic else "U")
    assert (properties["UNIQ_KEY"], properties["REAL_TOPIC"], properties["REAL_QID"]) == ("U", "t", "0")
    assert properties["BORN_TIMESTAMP"] == str(START_MS)
    assert properties.get("PGROUP") == group
    assert properties["TAGS"]
    assert message.born_timestamp == START_MS


@pytest.mark.parametrize(("after", "is_valid"), [(0, False), (1, True), (259_199_999, True), (259_200_000, False)])
def test_a_message_that_is_due_or_beyond_three_days_cannot_be_recalled(
    running: InProcess, after: int, is_valid: bool
) -> None:
    expected = (0, "U") if is_valid else (ILLEGAL, "recall failed, timestamp invalid")
    assert recall(running, after=after) == expected


def refused(running: InProcess, **more: Any) -> tuple[int, str | None]:
    found = recall(running, **more)
    assert stored(running) == 0
    return found


def test_handles_that_do_not_match_are_refused(running: InProcess) -> None:
    assert refused(running, topic="absent") == (TOPIC_NOT_EXIST, "recall failed, the topic[absent] not exist")
    code, remark = refused(running, text="no handle")
    assert (code, bool(remark)) == (ILLEGAL, True)
    code, remark = refused(running, broker_name="broker-b")
    assert code == ILLEGAL
    handle = RecallHandle("u", "broker-a", running.now + 60_000, "U").encode()
    assert refused(running, text=handle) == (ILLEGAL, "recall failed, topic not match")


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({}, 0),
        ({"recall_message_enable": False}, NO_PERMISSION),
        ({"broker_role": "SLAVE"}, SLAVE),
        ({"broker_permission": 4}, 0),
        ({"broker_permission": 4, "allow_recall_when_broker_not_writeable": False}, NOT_AVAILABLE),
        ({"broker_permission": 2, "allow_recall_when_broker_not_writeable": False}, 0),
        ({"start_accept_send_request_time_stamp": START_MS}, 0),
        ({"start_accept_send_request_time_stamp": START_MS + 1}, NOT_AVAILABLE),
    ],
)
def test_a_broker_may_refuse_recalls(running: InProcess, settings: dict[str, Any], code: int) -> None:
    for name, value in settings.items():
        setattr(running.config, name, value)
    found, _ = recall(running)
    running.config.broker_role = "ASYNC_MASTER"
    assert found == code
    assert stored(running) == (0 if code else 1)
