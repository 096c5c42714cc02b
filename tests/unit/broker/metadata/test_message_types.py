"""Topics that accept messages of one type only."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.broker.metadata.message_types import message_type, type_fault
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import send

PROPERTIES = {
    "NORMAL": {"WAIT": "true"}, "FIFO": {"__SHARDINGKEY": "k"}, "DELAY": {"DELAY": "1"},
    "TRANSACTION": {"TRAN_MSG": "true"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        *((properties, kind) for kind, properties in PROPERTIES.items()),
        ({"TIMER_DELIVER_MS": "1"}, "DELAY"), ({"TIMER_DELAY_SEC": "1"}, "DELAY"), ({"TIMER_DELAY_MS": "1"}, "DELAY"),
        ({"TRAN_MSG": "true", "DELAY": "1"}, "TRANSACTION"), ({"TRAN_MSG": "false"}, "NORMAL"),
        ({"DELAY": "1", "__SHARDINGKEY": "k"}, "DELAY"), ({}, "NORMAL"),
    ],
)  # fmt: skip
def test_the_type_of_a_message_follows_from_its_properties(properties: dict[str, str], kind: str) -> None:
    assert message_type(properties) == kind


@pytest.mark.parametrize("wanted", ["NORMAL", "FIFO", "DELAY", "TRANSACTION"])
@pytest.mark.parametrize("found", ["NORMAL", "FIFO", "DELAY", "TRANSACTION"])
def test_a_topic_accepts_its_own_type(wanted: str, found: str) -> None:
    topic = TopicConfig(topic_name="t", attributes={"message.type": wanted})
    words = f"TopicMessageType validate failed, the expected type is {wanted}, but actual type is {found}"
    assert type_fault(topic, PROPERTIES[found]) == (None if wanted == found else words)


@pytest.mark.parametrize("found", PROPERTIES)
def test_topics_that_accept_every_type(found: str) -> None:
    mixed = TopicConfig(topic_name="t", attributes={"message.type": "MIXED"})
    assert type_fault(mixed, PROPERTIES[found]) is None
    assert type_fault(TopicConfig(topic_name="%RETRY%g"), PROPERTIES[found]) is None
    assert type_fault(TopicConfig(topic_name="%DLQ%g"), PROPERTIES[found]) is None
    plain = type_fault(TopicConfig(topic_name="t"), PROPERTIES[found])
    assert (plain is None) == (found == "NORMAL")


def fifo(running: InProcess) -> Client:
    running.services.topics.put([TopicConfig(topic_name="fifo", attributes={"message.type": "FIFO"})])
    return running.connect()


def test_a_broker_that_checks_refuses_every_time(tmp_path: Path) -> None:
    with broker(tmp_path, enable_topic_message_type_check=True) as running:
        client = fifo(running)
        for _ in range(2):
            assert client.ask(Code.SEND_MESSAGE_V2, send("fifo", properties={"__SHARDINGKEY": "k"}), b"b").code == 0
            answer = client.ask(Code.SEND_MESSAGE_V2, send("fifo"), b"body")
            assert answer.code == 13
            assert "the expected type is FIFO, but actual type is NORMAL" in (answer.remark or "")
        assert client.ask(Code.SEND_MESSAGE_V2, send(), b"body").code == 0


def test_a_broker_checks_nothing_by_default(running: InProcess) -> None:
    assert fifo(running).ask(Code.SEND_MESSAGE_V2, send("fifo"), b"body").code == 0


def test_the_check_can_be_switched_on_while_targets_are_known(running: InProcess) -> None:
    client = fifo(running)
    assert client.ask(Code.SEND_MESSAGE_V2, send("fifo"), b"body").code == 0
    client.ask_task(Code.UPDATE_BROKER_CONFIG, body=b"enableTopicMessageTypeCheck=true\n")
    assert client.ask(Code.SEND_MESSAGE_V2, send("fifo"), b"body").code == 13
