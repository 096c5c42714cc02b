"""Failed messages go back to their broker, else as a copy to the retry topic; a broadcasting consumer drops them."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.aio import ClientInstance
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.consumer.send_message_back import DropFailed, SendMessageBack
from rocketmq_py.model import MessageExt
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.scripted import ScriptedNetwork, cluster, route_answer

HEALTHY = cluster({"t": {"b": 1}, "%RETRY%g": {"b": 1}})


def failed(broker: str = "b") -> MessageExt:
    head = (0, 0, 0, 0, 0, 5, 777, 0, 0, b"", 0, b"", 2, 0, 1)
    return MessageExt(head, "t", b"x", b"UNIQ_KEY\x01ID\x02", broker)


@pytest.mark.parametrize(
    ("broker", "refused", "copies", "sent"),
    [
        ("b", (), 0, True),
        ("b", (36,), 1, True),
        ("gone", (), 1, True),
        ("b", (36, 310), 1, False),
    ],
)
def test_a_message_goes_back_or_a_copy_is_sent(broker: str, refused: tuple[int, ...], copies: int, sent: bool) -> None:
    def answer(address: str, request: Command) -> Command | None:
        is_refused = request.code in refused
        return Command(ResponseCode.MESSAGE_ILLEGAL, remark="no") if is_refused else HEALTHY(address, request)

    async def main() -> None:
        network, instance = ScriptedNetwork(answer), ClientInstance("ns:1", timeout=1.0)
        network.carry(instance.connections)
        await instance.routes.get("t")
        handler = SendMessageBack(ConsumerGroup("g", instance, PushOptions()))
        assert await handler.send_back(failed(broker), 3) is sent
        asked = [request.ext for _, request in network.requests if request.code == Code.CONSUMER_SEND_MSG_BACK]
        assert len(asked) == (broker == "b")
        for fields in asked:
            assert fields == {
                "offset": "777", "group": "g", "delayLevel": "3", "originMsgId": "ID", "originTopic": "t",
                "unitMode": "false", "maxReconsumeTimes": "16", "bname": "b",
            }  # fmt: skip
        assert [request.ext["b"] for _, request in network.sent()] == ["%RETRY%g"] * copies
        assert await handler.dead_letter(failed()) is (310 not in refused)
        assert len(network.sent()) == copies + 1
        await instance.stop()

    asyncio.run(main())


def test_a_copy_names_its_topic_with_the_namespace() -> None:
    async def main() -> None:
        network = ScriptedNetwork(cluster({"ns%t": {"b": 1}, "%RETRY%ns%g": {"b": 1}}))
        instance = ClientInstance("ns:1", timeout=1.0)
        network.carry(instance.connections)
        handler = SendMessageBack(ConsumerGroup("ns%g", instance, PushOptions(namespace="ns")))
        assert await handler.dead_letter(failed())
        [(_, copy)] = network.sent()
        assert decode_properties(copy.ext["i"].encode())["RETRY_TOPIC"] == "ns%t"
        await instance.stop()

    asyncio.run(main())


def test_a_rejected_message_has_no_retries_left_and_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        network, instance = ScriptedNetwork(HEALTHY), ClientInstance("ns:1", timeout=1.0)
        network.carry(instance.connections)
        handler = SendMessageBack(ConsumerGroup("g", instance, PushOptions()))
        assert await handler.reject(failed(), "no\x01order\x02\n" + "x" * 2000)
        [(_, copy)] = network.sent()
        assert (copy.ext["b"], copy.ext["j"], copy.ext["l"]) == ("%RETRY%g", "3", "0")
        properties = decode_properties(copy.ext["i"].encode())
        assert properties["DLQ_REASON"] == "no order  " + "x" * 990 + "..."
        assert properties["RETRY_TOPIC"] == "t"
        await instance.stop()

    asyncio.run(main())
    assert "goes to topic %DLQ%g: no order  xxx" in caplog.text


def test_a_broadcasting_consumer_says_why_it_drops(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        assert await DropFailed(ConsumerGroup("g", ClientInstance("ns:1"), PushOptions())).reject(failed(), "no order")

    asyncio.run(main())
    [line] = caplog.messages
    assert line.endswith("is dropped, group g is broadcasting: no order")


def test_a_message_goes_back_to_a_master_only() -> None:
    def answer(address: str, request: Command) -> Command | None:
        if request.code == Code.GET_ROUTEINFO_BY_TOPIC and request.ext["topic"] == "t":
            return route_answer({"b": 1}, broker_id=1)
        return HEALTHY(address, request)

    async def main() -> None:
        network, instance = ScriptedNetwork(answer), ClientInstance("ns:1", timeout=1.0)
        network.carry(instance.connections)
        await instance.routes.get("t")
        handler = SendMessageBack(ConsumerGroup("g", instance, PushOptions()))
        assert await handler.send_back(failed(), 3)
        assert Code.CONSUMER_SEND_MSG_BACK not in network.codes()
        assert len(network.sent()) == 1
        await instance.stop()

    asyncio.run(main())


def test_a_broadcasting_consumer_drops_what_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        handler = DropFailed(ConsumerGroup("g", ClientInstance("ns:1"), PushOptions()))
        assert await handler.send_back(failed(), 3)
        assert await handler.dead_letter(failed())

    asyncio.run(main())
    assert len(caplog.messages) == 2
    assert all("failed and is dropped: group g is broadcasting" in line for line in caplog.messages)
