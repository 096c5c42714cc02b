"""Replies: pushed to the requesting client, stored, and answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from rocketmq_py.broker.records.message_properties import decode
from rocketmq_py.broker.send import reply_messages
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.send import SendMessage
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import DEFAULT_RULES, decode_records, decode_response
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import heartbeat, pull, send

TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY = {"MSG_TYPE": "reply", "CORRELATION_ID": "7", "REPLY_TO_CLIENT": "me", "UNIQ_KEY": "u", "KEYS": "k"}
AS_STORED = DEFAULT_RULES._replace(decompress=False)


@pytest.fixture
def requester(running: InProcess) -> Client:
    return requester_of(running)


def requester_of(running: InProcess) -> Client:
    connected = running.connect()
    connected.ask(Code.HEART_BEAT, body=heartbeat("me", None, "p"))
    return connected


async def answered(replier: Client, header: object, requester: Client, code: int | None = 0) -> Command:
    """What the sender of a reply is told when the requester answers with ``code``, or leaves."""
    which = Code.SEND_REPLY_MESSAGE if isinstance(header, SendMessage) else Code.SEND_REPLY_MESSAGE_V2
    assert replier.call(which, header, b"body") is None  # type: ignore[arg-type]
    while not replier.heard:
        await asyncio.sleep(0)
        if requester.heard and code is not None:
            requester.read([Command(code, requester.heard[-1].opaque, 1, remark="no" if code else None)])
        elif requester.heard:
            requester.leave()
    return replier.heard.pop()


def stored(client: Client) -> list[tuple[bytes, dict[str, str]]]:
    body = client.ask(Code.PULL_MESSAGE, pull(TOPIC)).body
    return [(message.body, message.properties) for message in decode_records(body)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_reply_reaches_the_client_that_waits(client: Client, requester: Client, version: int) -> None:
    header = send(TOPIC, properties=REPLY, reconsume_times=0, unit_mode=False)
    if version == 1:
        fields = {name: getattr(header, name) for name in header.__struct_fields__ if name != "bname"}
        answer = asyncio.run(answered(client, SendMessage(**fields), requester))
    else:
        answer = asyncio.run(answered(client, header, requester))
    assert (answer.code, answer.remark) == (0, None)
    assert (answer.ext["queueId"], answer.ext["queueOffset"], len(answer.ext["msgId"])) == ("0", "0", 32)
    assert (answer.ext["MSG_REGION"], answer.ext["TRACE_ON"]) == ("DefaultRegion", "true")
    [pushed] = requester.heard
    assert (pushed.code, pushed.body) == (326, b"body")
    assert (pushed.ext["topic"], pushed.ext["bornHost"]) == (TOPIC, client.peer.address)
    assert decode(pushed.ext["properties"]) == {**REPLY, "PUSH_REPLY_TIME": "1700000000000"}
    assert pushed.ext["storeTimestamp"] == "1700000000000"
    assert stored(client) == [(b"body", REPLY)]


@pytest.mark.parametrize(
    ("properties", "code", "words"),
    [
        (REPLY | {"REPLY_TO_CLIENT": "you"}, 0, "push reply message fail, channel of <you> not found."),
        ({"MSG_TYPE": "reply"}, 0, "reply message properties[REPLY_TO_CLIENT] is null"),
        (REPLY, 1, "push reply message to me" + "fail. code 1: no"),
        (REPLY, None, "push reply message to me" + "fail. "),
    ],
)
def test_a_reply_without_a_client_is_refused_and_stored(
    client: Client, requester: Client, properties: dict[str, str], code: int | None, words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    answer = asyncio.run(answered(client, send(TOPIC, properties=properties), requester, code))
    assert answer.code == 1
    assert (answer.remark or "").startswith(words)
    assert words in caplog.text
    assert [body for body, _ in stored(client)] == [b"body"]


def test_a_client_that_does_not_answer_a_reply_times_out(
    client: Client, requester: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_messages, "_SECONDS", 0.01)

    async def silent() -> Command:
        assert client.call(Code.SEND_REPLY_MESSAGE_V2, send(TOPIC, properties=REPLY), b"body") is None
        while not client.heard:  # noqa: ASYNC110 - the timeout is what is waited for
            await asyncio.sleep(0.001)
        return client.heard.pop()

    answer = asyncio.run(silent())
    assert (answer.code, "did not answer request 326" in (answer.remark or "")) == (1, True)


def test_a_client_is_found_on_its_newest_connection(running: InProcess, client: Client, requester: Client) -> None:
    newer = requester_of(running)
    requester.leave()
    assert asyncio.run(answered(client, send(TOPIC, properties=REPLY), newer)).code == 0
    newer.leave()
    gone = asyncio.run(answered(client, send(TOPIC, properties=REPLY), newer))
    assert gone.remark == "push reply message fail, channel of <me> not found."


def test_replies_need_not_be_stored(tmp_path: Path) -> None:
    with broker(tmp_path / "store", store_reply_message_enable=False) as running:
        client = running.connect()
        answer = asyncio.run(answered(client, send(TOPIC, properties=REPLY), requester_of(running)))
        assert (answer.code, answer.ext["msgId"], answer.ext["queueOffset"]) == (0, "0", "0")
        assert client.ask(Code.PULL_MESSAGE, pull(TOPIC)).code == 19


def test_a_reply_that_cannot_be_stored_has_reached_its_client(
    client: Client, requester: Client, caplog: pytest.LogCaptureFixture
) -> None:
    too_long = REPLY | {"x": "y" * 40_000}
    answer = asyncio.run(answered(client, send(TOPIC, properties=too_long), requester))
    assert (answer.code, answer.ext["msgId"]) == (0, "0")
    assert "was not stored" in caplog.text


def test_a_compressed_reply_has_the_compressed_flag(client: Client, requester: Client) -> None:
    asyncio.run(answered(client, send(TOPIC, properties=REPLY, sys_flag=0x301), requester))
    assert requester.heard[0].ext["sysFlag"] == "769"


def test_a_reply_to_an_unknown_topic_is_refused(client: Client) -> None:
    answer = client.ask_task(Code.SEND_REPLY_MESSAGE_V2, send("nowhere", properties=REPLY, default_topic="x"), b"body")
    assert answer.code == 17


def test_a_stored_reply_has_the_fields_of_its_request(client: Client, requester: Client) -> None:
    fields = {"queue_id": 0, "flag": 5, "born_timestamp": 77, "sys_flag": 0x301 | 0x8}
    for more in ({}, {"reconsume_times": 3}):
        assert asyncio.run(answered(client, send(TOPIC, properties=REPLY, **fields, **more), requester)).code == 0
    first, second = decode_response(client.ask(Code.PULL_MESSAGE, pull(TOPIC)).body, rules=AS_STORED).messages
    assert (first.reconsume_times, second.reconsume_times) == (0, 3)
    for stored_one in (first, second):
        assert (stored_one.flag, stored_one.born_timestamp, stored_one.sys_flag) == (5, 77, 0x301)
        assert (stored_one.queue_id, stored_one.prepared_transaction_offset) == (0, 0)


def test_a_reply_without_properties_is_stored_without_properties(client: Client) -> None:
    header = msgspec.structs.replace(send(TOPIC), properties=None)
    answer = client.ask(Code.SEND_REPLY_MESSAGE_V2, header, b"body")
    assert (answer.code, answer.remark) == (1, "reply message properties[REPLY_TO_CLIENT] is null")
    assert stored(client) == [(b"body", {})]


@pytest.mark.parametrize(("replicas", "offset"), [(1, "0"), (2, None)])
def test_a_master_that_waits_for_slaves_stores_replies_as_it_stores_sends(
    tmp_path: Path, replicas: int, offset: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with broker(
        tmp_path, broker_role="SYNC_MASTER", in_sync_replicas=replicas, total_replicas=replicas,
        enable_slave_acting_master=True,
    ) as running:  # fmt: skip
        client = running.connect()
        answer = asyncio.run(answered(client, send(TOPIC, properties=REPLY), requester_of(running)))
        assert (answer.code, len(answer.ext["msgId"])) == (0, 32 if offset else 1)
        assert running.services.store.queue_range(TOPIC, 0) == (0, 1 if offset else 0)
        assert ("was not stored" in caplog.text) is (offset is None)
