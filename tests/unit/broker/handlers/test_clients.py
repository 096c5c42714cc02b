"""Heartbeats: those of clients in other languages are understood, and a refused one is logged."""

from __future__ import annotations

import logging

import pytest

from rocketmq_py.protocol.bodies.client import ConsumerIdList
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.group import GroupHeader
from tests.unit.broker.harness import Client

CPP = (
    b'{"clientID":"10.0.0.1@77","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g",'
    b'"messageModel":1,"subscriptionDataSet":[{"codeSet":["84"],"subString":"*","subVersion":"1700000000000",'
    b'"tagsSet":["T"],"topic":"t"}],"unitMode":0}],"producerDataSet":[{"groupName":"p"}]}'
)


def test_a_heartbeat_with_enums_as_ordinals_registers_the_client(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.ask(Code.HEART_BEAT, body=CPP, language="CPP").code == ResponseCode.SUCCESS
    members = client.ask(Code.GET_CONSUMER_LIST_BY_GROUP, GroupHeader(consumer_group="g"))
    assert ConsumerIdList.decode(members.body).consumer_id_list == ["10.0.0.1@77"]
    assert not [record for record in caplog.records if "heartbeat" in record.getMessage()]


@pytest.mark.parametrize(("body", "who", "why"), [
    (CPP.replace(b'"consumeFromWhere":0', b'"consumeFromWhere":77'), "client '10.0.0.1@77' (CPP)",
     "HeartbeatData: consumerDataSet[0].consumeFromWhere is 77: one of"),
    (b"{'clientID' : 'me'", "client 'me' (CPP)", "HeartbeatData"),
    (b"\xff" * 100_000, "client of unknown id (CPP)", "HeartbeatData"),
    (b'{"clientID":"me","x":"' + b"x" * (1 << 20) + b'"}', "client 'me' (CPP)", "1048600 bytes"),
])  # fmt: skip
def test_a_refused_heartbeat_is_one_warning(
    client: Client, caplog: pytest.LogCaptureFixture, body: bytes, who: str, why: str
) -> None:
    answer = client.ask(Code.HEART_BEAT, body=body, language="CPP")
    assert answer.code != ResponseCode.SUCCESS
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"the heartbeat of {who} at ")
    assert " is refused: " in record.getMessage()
    assert why in record.getMessage()
    assert len(record.getMessage()) < 500
