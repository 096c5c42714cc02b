"""Which queues of a topic are told to clients that speak gRPC because other masters have them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.grpc import other_masters as module
from rocketmq_py.broker.grpc.other_masters import NOWHERE, Elsewhere, OtherMasters
from rocketmq_py.broker.static_topic.forward import Forwarder
from rocketmq_py.core.peer import Reply as RemoteReply
from rocketmq_py.errors import NetworkError
from rocketmq_py.protocol.bodies.route import BrokerData, KvTable, QueueData, TopicRouteData
from rocketmq_py.protocol.bodies.static_topic import MappingInfo
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.headers.send import RecallMessage
from rocketmq_py.server.reply import Reply
from rocketmq_py.wire.command import Command
from tests.unit.broker.rpc import Others, reply

ROUTE, INFO, CONFIG, RECALL = 105, 28, 351, 370
A, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
HEADER = RecallMessage(producer_group="t", topic="t", recall_handle="h")


class Network:
    """A name server and other brokers: what they say may be changed."""

    def __init__(self, *own_topics: str) -> None:
        self.now = 1_000
        self.brokers: dict[str, dict[int, str]] = {"a": {0: A}, "b": {0: B}, "c": {0: C}}
        self.queues = [queues("a"), queues("c", 1, 3), queues("b", 2, 2, 4)]
        self.mappings: dict[str, Any] = {}
        self.info: dict[str, RemoteReply | Exception] = {B: runtime(servesGrpc="true"), C: runtime(servesGrpc="true")}
        self.config: RemoteReply | Exception = reply(
            body=TopicConfig(topic_name="t", attributes={"message.type": "FIFO"}).encode()
        )
        self.route: RemoteReply | Exception | None = None
        self.recalled: RemoteReply | Exception = reply(0, msgId="ID")
        self.client = Others(self.answer)
        self.client.turns = 1
        self.namesrv = "ns:1"
        config = BrokerConfig(namesrv_addr="ns:1", store_path_root_dir="/none")
        self.others = OtherMasters(
            "a", dict.fromkeys(own_topics, object()),  # type: ignore[arg-type]
            lambda: bool(self.namesrv), Forwarder(config, self.client, lambda: self.now), lambda: self.now,
        )  # fmt: skip

    def answer(self, address: str, command: Command) -> RemoteReply | Exception:
        if command.code == ROUTE:
            data = [BrokerData(cluster="c", broker_name=name, broker_addrs=ids) for name, ids in self.brokers.items()]
            return self.route or reply(body=TopicRouteData(
                queue_datas=self.queues, broker_datas=data, topic_queue_mapping_by_broker=self.mappings
            ).encode())  # fmt: skip
        return {INFO: self.info.get(address), CONFIG: self.config, RECALL: self.recalled}[command.code] or NetworkError(
            "?"
        )

    def asked(self, code: int) -> list[str]:
        return [asked.address for asked in self.client.asked if asked.command.code == code]

    async def look_up(self, topic: str = "t") -> Elsewhere:
        found = asyncio.get_running_loop().create_future()
        self.others.look_up(topic, found.set_result)
        return await asyncio.wait_for(found, 10)

    async def forward(self, name: str = "b") -> tuple[Reply, Mapping[str, str]]:
        found = asyncio.get_running_loop().create_future()
        self.others.forward(name, "t", RECALL, HEADER, lambda *answer: found.set_result(answer))  # type: ignore[arg-type]
        return await asyncio.wait_for(found, 10)


def queues(name: str, reads: int = 1, writes: int = 1, perm: int = 6) -> QueueData:
    return QueueData(broker_name=name, read_queue_nums=reads, write_queue_nums=writes, perm=perm)


def runtime(**table: str) -> RemoteReply:
    return reply(body=KvTable(table=table).encode())


def names(found: Elsewhere) -> list[str]:
    return [master.name for master in found.masters]


async def test_other_masters_are_told_by_name_with_their_registered_address() -> None:
    found = await Network("t").look_up()
    assert [(one.name, one.host, one.port) for one in found.masters] == [
        ("b", "10.0.0.2", 10911), ("c", "10.0.0.3", 10911),
    ]  # fmt: skip
    assert [one.queues for one in found.masters] == [queues("b", 2, 2, 4), queues("c", 1, 3)]


async def test_the_type_of_a_topic_is_asked_for_if_this_broker_does_not_know_it() -> None:
    network = Network("t")
    assert (await network.look_up()).message_type is None
    assert network.asked(CONFIG) == []
    network = Network()
    assert (await network.look_up()).message_type == "FIFO"
    assert network.asked(CONFIG) == [B]


async def test_a_broker_that_does_not_say_that_it_serves_grpc_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    network = Network("t")
    for answer in (runtime(), runtime(servesGrpc="no"), reply(1, remark="denied"), NetworkError("gone")):
        network.info[B] = answer
        network.now += 60_000
        assert names(await network.look_up()) == ["c"]
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 2
    assert all(f"broker b at {B} does not say whether it serves gRPC: " in line for line in said)
    assert ("denied" in said[0], "gone" in said[1]) == (True, True)


async def test_what_a_broker_says_holds_for_a_minute_and_longer_if_it_cannot_be_asked() -> None:
    network = Network("t")
    await network.look_up()
    network.info = {B: NetworkError("gone"), C: runtime()}
    network.now += 59_999
    assert names(await network.look_up()) == ["b", "c"]
    assert sorted(network.asked(INFO)) == [B, C]
    network.now += 1
    assert names(await network.look_up()) == ["b"]
    assert sorted(network.asked(INFO)) == [B, B, C, C]


async def test_brokers_without_a_master_and_this_broker_are_left_out() -> None:
    network = Network("t")
    network.brokers["b"] = {1: B}
    assert names(await network.look_up()) == ["c"]
    assert network.asked(INFO) == [C]
    network.brokers.pop("c")
    network.now += 5_000
    assert await network.look_up() == NOWHERE
    assert network.asked(CONFIG) == []


async def test_a_static_topic_is_told_by_each_broker_itself() -> None:
    network = Network("t")
    network.mappings = {"b": MappingInfo(topic="t", bname="b", total_queues=1, epoch=1)}
    assert await network.look_up() == NOWHERE


async def test_without_name_servers_the_answer_comes_at_once() -> None:
    network = Network()
    network.namesrv = ""
    found: list[Elsewhere] = []
    network.others.look_up("t", found.append)
    assert (found, network.others.exist) == ([NOWHERE], False)
    assert network.client.asked == []


@pytest.mark.parametrize("failure", ["route", "config"])
async def test_an_error_leaves_the_queues_of_this_broker(failure: str, caplog: pytest.LogCaptureFixture) -> None:
    network = Network()
    setattr(network, failure, NetworkError("gone"))
    assert await network.look_up() == NOWHERE
    assert "are told the queues of topic t at this broker only" in caplog.text
    setattr(network, failure, reply(1, remark="refused"))
    assert await network.look_up() == NOWHERE


async def test_one_topic_is_looked_up_once_for_all_who_ask_meanwhile() -> None:
    network = Network("t")
    both = await asyncio.gather(network.look_up(), network.look_up())
    assert both[0] == both[1] != NOWHERE
    assert network.asked(ROUTE) == ["ns:1"]
    network.now += 5_000
    assert await network.look_up() == both[0]
    assert network.asked(ROUTE) == ["ns:1"] * 2


async def test_lookups_and_forwarded_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ASKED", 2)
    network = Network("t")
    two = [asyncio.create_task(network.look_up(topic)) for topic in ("t", "u")]
    await asyncio.sleep(0)
    with pytest.raises(CallRefused, match="2 topics are being looked up") as refused:
        network.others.look_up("v", lambda _: None)
    assert refused.value.status().code == Code.TOO_MANY_REQUESTS
    await asyncio.gather(*two)
    assert names(await network.look_up("v")) == ["b", "c"]
    for _ in range(2):  # what has ended makes room
        two = [asyncio.create_task(network.forward()) for _ in range(2)]  # type: ignore[misc]
        await asyncio.sleep(0)
        with pytest.raises(CallRefused, match="2 requests to other brokers are running"):
            await network.forward()
        await asyncio.gather(*two)


async def test_a_request_is_forwarded_to_the_master_of_a_name() -> None:
    network = Network("t")
    answer, ext = await network.forward()
    assert (answer.code, dict(ext)) == (0, {"msgId": "ID"})
    [asked] = [asked for asked in network.client.asked if asked.command.code == RECALL]
    assert (asked.address, asked.command.ext) == (B, HEADER.to_ext())
    network.recalled = reply(ResponseCode.NO_PERMISSION, remark="not here")
    answer, _ = await network.forward()
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "not here")


@pytest.mark.parametrize(("name", "said"), [("b", "gone"), ("other", "no name server knows a broker other")])
async def test_a_request_that_cannot_be_forwarded_is_answered(name: str, said: str) -> None:
    network = Network("t")
    network.recalled = NetworkError("gone")
    answer, ext = await network.forward(name)
    assert (answer.code, ext) == (ResponseCode.SYSTEM_ERROR, {})
    assert said in (answer.remark or "")


async def test_a_stop_ends_what_is_looked_up() -> None:
    network = Network("t")
    found: list[Elsewhere] = []
    network.others.look_up("t", found.append)
    await network.others.stop()
    assert (found, network.others._work.runs) == ([], False)
    assert names(await network.look_up()) == ["b", "c"]


async def test_answers_of_old_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_KNOWN", 2)
    network = Network("t")
    await network.look_up()
    network.now += 60_000
    network.brokers["b"] = {0: "10.0.0.4:10911"}
    network.info["10.0.0.4:10911"] = runtime(servesGrpc="true")
    assert names(await network.look_up()) == ["b", "c"]
    assert set(network.others._serving) == {C, "10.0.0.4:10911"}
