"""Resets of the offsets of a group, and the offsets of its members."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.broker.handlers import offsets
from rocketmq_py.errors import ConnectionLost
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.group import ConsumerStatus
from rocketmq_py.protocol.headers.offset import ResetOffset
from rocketmq_py.server import Peer
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import heartbeat, send

T = '{"brokerName":"broker-a","queueId":0,"topic":"t"}'


@pytest.fixture
def telling(tmp_path: Path) -> Iterator[InProcess]:
    """A broker that tells members itself, with five messages in one queue of which the group has consumed three."""
    with broker(tmp_path, use_server_side_reset_offset=False) as running:
        client = running.connect()
        for _ in range(5):
            client.ask(Code.SEND_MESSAGE_V2, send(default_topic_queue_nums=1), b"body")
            running.turn(1_000)
        running.services.offsets.commit("g", "t", 0, 3, "c")
        yield running


def member(running: InProcess, client_id: str = "c1") -> Client:
    connected = running.connect()
    connected.ask(Code.HEART_BEAT, body=heartbeat(client_id, t="*"))
    connected.heard.clear()
    return connected


@pytest.mark.parametrize(("timestamp", "force", "offset"), [(-1, False, 3), (-1, True, 5), (0, False, 0), (0, True, 0)])
def test_members_receive_their_new_offsets(telling: InProcess, timestamp: int, force: bool, offset: int) -> None:
    consumer, client = member(telling), telling.connect()
    header = ResetOffset(topic="t", group="g", timestamp=timestamp, is_force=force)
    answer = client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header)
    assert fastjson.loads(answer.body) == {"offsetTable": {T: offset}}
    [told] = consumer.heard
    assert told.code == Code.RESET_CONSUMER_CLIENT_OFFSET
    assert (told.ext["topic"], told.ext["group"], told.ext["timestamp"]) == ("t", "g", str(timestamp))
    assert fastjson.loads(told.body) == {"offsetTable": {T: offset}}
    assert telling.services.offsets.query("g", "t", 0) == 3


def test_a_group_that_is_at_the_first_message_can_be_reset(telling: InProcess) -> None:
    telling.services.offsets.commit("g", "t", 0, 0, "c")
    consumer, client = member(telling), telling.connect()
    header = ResetOffset(topic="t", group="g", timestamp=-1, is_force=True)
    assert client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header).code == 0
    assert fastjson.loads(consumer.heard[0].body) == {"offsetTable": {T: 5}}


def test_members_in_cpp_receive_a_list(telling: InProcess) -> None:
    consumer, client = member(telling), telling.connect()
    header = ResetOffset(topic="t", group="g", timestamp=0)
    client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header, language="CPP")
    listed = [{"brokerName": "broker-a", "offset": 0, "queueId": 0, "topic": "t"}]
    assert fastjson.loads(consumer.heard[0].body) == {"offsetTable": listed}


@pytest.mark.parametrize(
    ("topic", "group", "code", "words"),
    [
        ("t", "g", 206, "Consumer not online, so can not reset offset, Group: g Topic: t Timestamp: 0"),
        ("t", "new", 1, "THe consumer group <new> not exist"),
        ("no", "g", 17, "[reset-offset] reset offset failed, no topic in this broker. topic=no"),
    ],
)
def test_invalid_resets_are_refused(telling: InProcess, topic: str, group: str, code: int, words: str) -> None:
    header = ResetOffset(topic=topic, group=group, timestamp=0)
    answer = telling.connect().ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header)
    assert (answer.code, answer.remark) == (code, words)


def status(client: Client, members: dict[str, tuple[Client, Command | None]], wanted: str | None = None) -> Command:
    """The answer an administrator gets; each member gives its answer when it is asked, or leaves."""

    async def ask() -> Command:
        header = ConsumerStatus(topic="t", group="g", client_addr=wanted)
        assert client.call(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header) is None
        while not client.heard:
            await asyncio.sleep(0)
            for consumer, answer in members.values():
                if consumer.heard and answer is not None:
                    answer.opaque, answer.flag = consumer.heard.pop().opaque, 1
                    consumer.read([answer])
                elif consumer.heard:
                    consumer.heard.clear()
                    consumer.leave()
        return client.heard.pop()

    return asyncio.run(ask())


def test_offsets_of_all_members_are_returned(running: InProcess, client: Client) -> None:
    table = f'{{"messageQueueTable":{{{T}:7}},"consumerTable":{{}}}}'.encode()
    members = {
        "c1": (member(running, "c1"), Command(0, body=table)),
        "c2": (member(running, "c2"), Command(1, remark="no")),
        "c3": (member(running, "c3"), None),
        "c4": (member(running, "c4"), Command(0, body=b"[]")),
    }
    found = fastjson.loads(status(client, members).body)
    assert found == {"consumerTable": {"c1": {T: 7}}, "messageQueueTable": {}}


def test_offsets_of_one_member_are_returned(running: InProcess, client: Client) -> None:
    answer = Command(0, body=f'{{"messageQueueTable":{{{T}:7}}}}'.encode())
    members = {name: (member(running, name), answer) for name in ("c1", "c2")}
    assert fastjson.loads(status(client, members, "c2").body)["consumerTable"].keys() == {"c2"}


def test_a_member_that_does_not_answer_is_left_out(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "_SECONDS", 0.01)
    member(running)
    header = ConsumerStatus(topic="t", group="g")
    answer = client.ask_task(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
    assert fastjson.loads(answer.body)["consumerTable"] == {}


def test_a_group_without_members_has_no_status(client: Client) -> None:
    answer = client.ask_task(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ConsumerStatus(topic="t", group="g"))
    assert (answer.code, answer.remark) == (1, "No Any Consumer online in the consumer group: [g]")


def test_members_have_five_seconds_to_answer(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seconds: list[float] = []

    async def invoke(_: Peer, command: Command, timeout: float) -> Command:
        assert (command.code, command.ext) == (221, {"topic": "t", "group": "g"})
        seconds.append(timeout)
        raise ConnectionLost("it has gone")

    monkeypatch.setattr(Peer, "invoke", invoke)
    member(running, "c1")
    answer = client.ask_task(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, ConsumerStatus(topic="t", group="g"))
    assert (fastjson.loads(answer.body)["consumerTable"], seconds) == ({}, [5.0])
    assert "consumer c1 did not return its offsets: it has gone" in caplog.text
