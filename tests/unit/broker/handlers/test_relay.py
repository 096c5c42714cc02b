"""Requests of administrators are forwarded over the consumer's connection, and its answer is returned."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.broker.handlers import relay
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.group import ConsumeMessageDirectly, GetConsumerRunningInfo
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import Client, InProcess
from tests.unit.broker.requests import heartbeat, send


@pytest.fixture
def consumer(running: InProcess) -> Client:
    connected = running.connect()
    connected.ask(Code.HEART_BEAT, body=heartbeat("c1", t="*"))
    connected.heard.clear()
    return connected


async def ask(admin: Client, code: Code, header: Header, consumer: Client, answer: Command | None) -> Command:
    """The answer an administrator gets; ``consumer`` gives ``answer`` when it is asked, or leaves."""
    assert admin.call(code, header) is None
    while not admin.heard:
        await asyncio.sleep(0)
        if consumer.heard and answer is not None:
            answer.opaque, answer.flag = consumer.heard[0].opaque, 1
            consumer.read([answer])
        elif consumer.heard:
            consumer.leave()
    return admin.heard.pop()


def test_running_info_of_a_consumer_is_forwarded(client: Client, consumer: Client) -> None:
    header = GetConsumerRunningInfo(consumer_group="g", client_id="c1", jstack_enable=True)
    answer = Command(0, remark="fine", body=b'{"properties":{}}')
    got = asyncio.run(ask(client, Code.GET_CONSUMER_RUNNING_INFO, header, consumer, answer))
    assert (got.code, got.remark, got.body) == (0, "fine", b'{"properties":{}}')
    [asked] = consumer.heard
    assert asked.code == Code.GET_CONSUMER_RUNNING_INFO
    assert asked.ext == {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true"}


def test_direct_consumption_is_forwarded(client: Client, consumer: Client) -> None:
    msg_id = client.ask(Code.SEND_MESSAGE_V2, send(), b"body").ext["msgId"]
    header = ConsumeMessageDirectly(consumer_group="g", client_id="c1", msg_id=msg_id, topic="t")
    answer = Command(0, body=b'{"consumeResult":"CR_SUCCESS"}')
    got = asyncio.run(ask(client, Code.CONSUME_MESSAGE_DIRECTLY, header, consumer, answer))
    assert got.body == b'{"consumeResult":"CR_SUCCESS"}'
    [asked] = consumer.heard
    assert [message.body for message in decode_records(asked.body)] == [b"body"]
    assert asked.ext["brokerName"] == "broker-a"
    assert (asked.ext["topicSysFlag"], asked.ext["groupSysFlag"]) == ("0", "0")


def test_the_flags_of_topic_and_group_are_forwarded(running: InProcess, client: Client, consumer: Client) -> None:
    running.services.topics.put([TopicConfig(topic_name="t", topic_sys_flag=2)])
    running.services.groups.put([SubscriptionGroupConfig(group_name="g", group_sys_flag=3)])
    msg_id = client.ask(Code.SEND_MESSAGE_V2, send(), b"body").ext["msgId"]
    header = ConsumeMessageDirectly(consumer_group="g", client_id="c1", msg_id=msg_id, topic="t")
    asyncio.run(ask(client, Code.CONSUME_MESSAGE_DIRECTLY, header, consumer, Command(0)))
    [asked] = consumer.heard
    assert (asked.ext["topicSysFlag"], asked.ext["groupSysFlag"]) == ("2", "3")


def test_what_is_not_known_here_keeps_the_flags_of_the_request(
    running: InProcess, client: Client, consumer: Client
) -> None:
    """A group may be deleted while its consumers are connected."""
    msg_id = client.ask(Code.SEND_MESSAGE_V2, send(), b"body").ext["msgId"]
    running.services.groups.delete("g")
    header = ConsumeMessageDirectly(
        consumer_group="g", client_id="c1", msg_id=msg_id, topic="gone", topic_sys_flag=4, group_sys_flag=5
    )
    got = asyncio.run(ask(client, Code.CONSUME_MESSAGE_DIRECTLY, header, consumer, Command(0, body=b"done")))
    assert got.body == b"done"
    [asked] = consumer.heard
    assert (asked.ext["topicSysFlag"], asked.ext["groupSysFlag"]) == ("4", "5")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (GetConsumerRunningInfo(consumer_group="g", client_id="c9"), "The Consumer <g> <c9> not online"),
        (ConsumeMessageDirectly(consumer_group="g", client_id="c1", msg_id="nonsense"), "is not an offset message id"),
        (ConsumeMessageDirectly(consumer_group="g", client_id="c1", msg_id="0" * 28 + "FFFF"), "can not find message"),
    ],
)
def test_requests_without_a_consumer_are_refused(client: Client, consumer: Client, header: Header, words: str) -> None:
    running_info = isinstance(header, GetConsumerRunningInfo)
    code = Code.GET_CONSUMER_RUNNING_INFO if running_info else Code.CONSUME_MESSAGE_DIRECTLY
    got = asyncio.run(ask(client, code, header, consumer, None))
    assert got.code == 1
    assert words in (got.remark or "")


def test_a_consumer_that_does_not_answer_times_out(
    client: Client, consumer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = GetConsumerRunningInfo(consumer_group="g", client_id="c1")
    got = asyncio.run(ask(client, Code.GET_CONSUMER_RUNNING_INFO, header, consumer, None))
    assert (got.code, "invoke consumer <g> <c1> Exception" in (got.remark or "")) == (1, True)
    monkeypatch.setattr(relay, "_SECONDS", 0.01)
    consumer.peer.closed = False
    consumer.ask(Code.HEART_BEAT, body=heartbeat("c1", t="*"))
    consumer.heard.clear()

    async def silent() -> Command:
        assert client.call(Code.GET_CONSUMER_RUNNING_INFO, header) is None
        while not client.heard:  # noqa: ASYNC110 - the timeout is what is waited for
            await asyncio.sleep(0.001)
        return client.heard.pop()

    got = asyncio.run(silent())
    assert (got.code, "consumer <g> <c1> Timeout" in (got.remark or "")) == (207, True)
