"""Messages that go to other masters, and messages read there."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rocketmq_py.broker.cluster.escape_bridge import EscapeBridge
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BrokerError, ConnectError, NoRouteError, OffsetIllegal, RequestTimeout
from rocketmq_py.properties import decode_properties, encode_properties
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.store import NewRecord
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import QUEUE_OFFSET_AT
from tests.unit.broker.harness import START_MS

BROKERS = {"broker-a": {0: "a:1"}, "broker-b": {0: "b:1", 1: "b:2"}, "broker-c": {0: "c:1"}, "broker-d": {1: "d:2"}}


def route(*names: str, queues: int = 2, perm: int = 6) -> bytes:
    return TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm) for name in names
        ],
        broker_datas=[BrokerData(cluster="c", broker_name=name, broker_addrs=BROKERS[name]) for name in names],
    ).encode()


class Others(RpcClient):
    """A name server with one route, and brokers with one answer."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.body = body
        self.answer: Callable[[], tuple[int, dict[str, str], bytes]] = lambda: (0, {}, b"")
        self.failure: Exception | None = None
        self.asked: list[tuple[str, int, dict[str, str], bytes, float]] = []
        self.routes = 0
        self.closed = 0

    async def invoke(self, address: str, command: Command, timeout: float) -> Reply:
        if address == "n:1":
            self.routes += 1
            return Reply(0, command.opaque, body=self.body)
        self.asked.append((address, int(command.code), dict(command.ext), bytes(command.body), timeout))
        if self.failure is not None:
            raise self.failure
        code, ext, body = self.answer()
        return Reply(code, command.opaque, remark="why", fields=msgspec.Raw(msgspec.json.encode(ext)), body=body)

    def close(self) -> None:
        self.closed += 1


def bridge(others: Others, **config: Any) -> EscapeBridge:
    settings = BrokerConfig(namesrv_addr="n:1", broker_name="broker-a", **config)
    return EscapeBridge(settings, others, lambda: START_MS)


def record(**properties: str) -> NewRecord:
    return NewRecord(
        topic="t", body=b"body", properties=encode_properties(properties), born_timestamp=5, flag=7, sys_flag=0,
        reconsume_times=3, queue_id=0, born_host=b"\0" * 8,
    )  # fmt: skip


# -- put


def test_a_message_is_sent_to_another_master_as_it_was() -> None:
    others = Others(route("broker-a", "broker-b"))
    given = {"KEYS": "k", "DELAY": "3", "REAL_TOPIC": "r", "REAL_QID": "9", "UNIQ_KEY": "ID"}
    asyncio.run(bridge(others).put(record(**given)))
    [(address, code, ext, body, timeout)] = others.asked
    assert (address, code, body, timeout) == ("b:1", 310, b"body", 3.0)
    properties = decode_properties(ext["i"].encode())
    assert properties == {"KEYS": "k", "UNIQ_KEY": "ID"}
    assert ext["e"] in ("0", "1")
    assert {key: ext[key] for key in "abcdfghjkmn"} == {
        "a": "InnerProducerGroup_broker-a_0", "b": "t", "c": "TBW102", "d": "4", "f": "0", "g": "5", "h": "7",
        "j": "3", "k": "false", "m": "false", "n": "broker-b",
    }  # fmt: skip


def test_the_producer_group_of_a_half_message_is_kept() -> None:
    others = Others(route("broker-b"))
    asyncio.run(bridge(others).put(record(PGROUP="p")))
    assert others.asked[0][2]["a"] == "p"


def test_messages_are_spread_over_all_queues_of_other_masters() -> None:
    others = Others(route("broker-a", "broker-b", "broker-c", "broker-d"))
    subject = bridge(others)

    async def put() -> None:
        for _ in range(8):
            await subject.put(record())

    asyncio.run(put())
    places = [(address, ext["e"]) for address, _, ext, *_ in others.asked]
    assert sorted(places) == sorted([("b:1", "0"), ("b:1", "1"), ("c:1", "0"), ("c:1", "1")] * 2)
    assert others.routes == 1


def test_messages_with_one_key_go_to_one_master() -> None:
    others = Others(route("broker-b", "broker-c"))
    subject = bridge(others)

    async def put() -> None:
        for key in ("a",) * 4 + ("b",) * 4:
            await subject.put(record(), key)

    asyncio.run(put())
    a, b = others.asked[:4], others.asked[4:]
    assert ({address for address, *_ in a}, {address for address, *_ in b}) == ({"c:1"}, {"b:1"}), "97 and 98 modulo 2"
    assert {ext["e"] for _, _, ext, *_ in a} == {"0", "1"}


@pytest.mark.parametrize("body", [route("broker-a"), route("broker-b", perm=4), route("broker-d"), route()])
def test_without_another_master_there_is_no_place(body: bytes) -> None:
    others = Others(body)
    subject = bridge(others)
    for _ in range(2):
        with pytest.raises(NoRouteError, match="no master other than broker-a has topic t: create it on other masters"):
            asyncio.run(subject.put(record()))
    assert (others.asked, others.routes) == ([], 2), "the route is asked for again"


@pytest.mark.parametrize(("code", "stored"), [(0, True), (10, True), (11, True), (12, True), (1, False), (14, False)])
def test_a_refused_send_is_an_error_and_asks_for_the_route_again(code: int, stored: bool) -> None:
    others = Others(route("broker-b"))
    others.answer = lambda: (code, {}, b"")
    subject = bridge(others)
    for _ in range(2):
        if stored:
            asyncio.run(subject.put(record()))
        else:
            with pytest.raises(BrokerError) as refused:
                asyncio.run(subject.put(record()))
            assert (refused.value.code, refused.value.address) == (code, "b:1")
    assert others.routes == (1 if stored else 2)


# -- get


def stored_at(offset: int) -> bytes:
    raw = bytearray(QUEUE_OFFSET_AT + 8)
    struct.pack_into(">q", raw, QUEUE_OFFSET_AT, offset)
    return bytes(raw)


def pulled(code: int = 0, end: int = 10, body: bytes = b"") -> Callable[[], tuple[int, dict[str, str], bytes]]:
    fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": "6", "minOffset": "0", "maxOffset": str(end)}
    return lambda: (code, fields, body)


def test_a_message_is_read_at_the_master() -> None:
    others = Others(route("broker-b"))
    others.answer = pulled(body=stored_at(5))
    assert asyncio.run(bridge(others).get("broker-b", "t", 1, 5)) == stored_at(5)
    [(address, code, ext, _, timeout)] = others.asked
    assert (address, code, timeout) == ("b:1", 11, 10.0)
    assert {key: ext[key] for key in ("consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag",
                                      "commitOffset", "suspendTimeoutMillis", "subVersion", "subscription",
                                      "expressionType", "bname")} == {
        "consumerGroup": "TOOLS_CONSUMER", "topic": "t", "queueId": "1", "queueOffset": "5", "maxMsgNums": "1",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*",
        "expressionType": "TAG", "bname": "broker-b",
    }  # fmt: skip


def test_a_message_is_read_at_a_slave_if_there_is_no_master() -> None:
    others = Others(route("broker-d"))
    others.answer = pulled(body=stored_at(5))
    assert asyncio.run(bridge(others).get("broker-d", "t", 1, 5)) is not None
    assert others.asked[0][0] == "d:2"


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (pulled(body=stored_at(5)), True),
        (pulled(body=stored_at(4)), True),
        (pulled(body=stored_at(6)), False),
        (pulled(19), False),
        (pulled(20), False),
        (pulled(21), False),
        (pulled(end=6, body=stored_at(5)), True),
    ],
)
def test_a_message_that_is_gone_is_none(answer: Any, found: bool) -> None:
    others = Others(route("broker-b"))
    others.answer = answer
    assert (asyncio.run(bridge(others).get("broker-b", "t", 1, 5)) is not None) is found


@pytest.mark.parametrize("end", [0, 4, 5])
def test_a_queue_that_ends_before_the_offset_is_an_error(end: int) -> None:
    others = Others(route("broker-b"))
    others.answer = pulled(21, end)
    with pytest.raises(OffsetIllegal, match="queue 1 of topic t ends before 5 at b:1"):
        asyncio.run(bridge(others).get("broker-b", "t", 1, 5))


def test_a_broker_without_a_route_is_asked_for_again() -> None:
    others = Others(route("broker-b"))
    subject = bridge(others)
    for _ in range(2):
        with pytest.raises(NoRouteError, match="no name server knows a broker broker-x with topic t"):
            asyncio.run(subject.get("broker-x", "t", 1, 5))
    assert others.routes == 2


@pytest.mark.parametrize(("failure", "routes"), [(ConnectError("refused"), 2), (RequestTimeout("late"), 2)])
def test_a_broker_that_does_not_answer_has_its_route_asked_for_again(failure: Exception, routes: int) -> None:
    others = Others(route("broker-b"))
    others.failure = failure
    subject = bridge(others)
    for _ in range(2):
        with pytest.raises(type(failure)):
            asyncio.run(subject.get("broker-b", "t", 1, 5))
    assert others.routes == routes


def test_a_refused_read_is_an_error() -> None:
    others = Others(route("broker-b"))
    others.answer = pulled(16)
    with pytest.raises(BrokerError) as refused:
        asyncio.run(bridge(others).get("broker-b", "t", 1, 5))
    assert (refused.value.code, refused.value.address) == (16, "b:1")


def test_connections_are_closed() -> None:
    others = Others(route())
    bridge(others).close()
    assert others.closed == 1
