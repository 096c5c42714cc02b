"""Requests about logical queues, at a broker that leads them and at one that does not."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocketmq_py.core.broker.static_topic import as_info
from rocketmq_py.core.peer import Reply as RemoteReply
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.protocol.bodies.admin import ConsumeStatsTable
from rocketmq_py.protocol.bodies.route import BrokerData, TopicRouteData
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingItem, MappingTable, TopicConfigAndMapping
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.group import GetConsumeStats
from rocketmq_py.protocol.headers.offset import (
    GetMaxOffset,
    QueryConsumerOffset,
    QueueHeader,
    SearchOffset,
    UpdateConsumerOffset,
)
from rocketmq_py.protocol.headers.topic import CreateTopic, TopicName
from rocketmq_py.protocol.sys_flag import TRANSACTION_PREPARED
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.fastjson import dumps_java, loads
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.requests import heartbeat, pull, send

A = "broker-a"


def item(gen: int = 0, logic: int = 0, bname: str = A, queue_id: int = 0) -> MappingItem:
    return MappingItem(gen=gen, queue_id=queue_id, bname=bname, logic_offset=logic)


def mapping(queues: dict[int, list[MappingItem]], epoch: int = 1, **more: Any) -> MappingDetail:
    fields = {"topic": "t", "bname": A, "total_queues": 3, "epoch": epoch, "hosted_queues": queues}
    return MappingDetail(**{**fields, **more})


def create(client: Client, detail: MappingDetail, queues: int = 2, **more: Any) -> Command:
    header = CreateTopic(
        topic="t", default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6,
        topic_filter_type="SINGLE_TAG", order=False, **more,
    )  # fmt: skip
    return client.ask_task(Code.UPDATE_AND_CREATE_STATIC_TOPIC, header, detail.encode())


@pytest.fixture
def static(running: InProcess) -> Client:
    """Logical queue 2 is physical queue 1; queue 0 has moved here from broker-b; queue 1 is led by broker-b."""
    client = running.connect()
    queues = {
        0: [item(0, bname="broker-b", queue_id=5), item(1, 10_000, queue_id=0)],
        1: [item(0, queue_id=0), item(1, 10_000, bname="broker-b")],
        2: [item(queue_id=1)],
    }
    answer = create(client, mapping(queues))
    assert answer.code == 0, answer.remark
    client.ask(Code.HEART_BEAT, body=heartbeat(t="*"))
    return client


def test_a_send_is_answered_with_the_logical_queue_and_offset(static: Client) -> None:
    first, second = (static.ask(Code.SEND_MESSAGE_V2, send("t", 2), b"x") for _ in range(2))
    assert [(one.ext["queueId"], one.ext["queueOffset"]) for one in (first, second)] == [("2", "0"), ("2", "1")]
    moved = static.ask(Code.SEND_MESSAGE_V2, send("t", 0), b"x")
    assert (moved.ext["queueId"], moved.ext["queueOffset"]) == ("0", "10000")


def test_a_send_to_a_queue_of_another_leader_is_refused(static: Client) -> None:
    answer = static.ask(Code.SEND_MESSAGE_V2, send("t", 1), b"x")
    assert answer.code == 501
    assert answer.remark == "t-1 does not exit in request process of current broker broker-a"
    assert static.ask(Code.SEND_MESSAGE_V2, send("t", 9), b"x").code == 501


def test_a_send_without_a_queue_goes_to_a_queue_of_this_leader(static: Client) -> None:
    answer = static.ask(Code.SEND_MESSAGE_V2, send("t", -1), b"x")
    assert (answer.code, answer.ext["queueId"]) == (0, "0")


def test_the_offset_of_a_half_message_is_left_alone(static: Client) -> None:
    """Producers end transactions with it: it is one of the half topic, not of the logical queue."""
    half = send("t", 0, {"TRAN_MSG": "true", "PGROUP": "g"}, sys_flag=TRANSACTION_PREPARED)
    answer = static.ask(Code.SEND_MESSAGE_V2, half, b"x")
    assert (answer.code, answer.ext["queueId"], answer.ext["queueOffset"]) == (0, "0", "0")


def test_a_pull_is_translated(static: Client) -> None:
    for _ in range(3):
        static.ask(Code.SEND_MESSAGE_V2, send("t", 0), b"x")
    answer = static.ask(Code.PULL_MESSAGE, pull("t", 10_001, 0))
    names = ("nextBeginOffset", "minOffset", "maxOffset", "offsetDelta")
    assert (answer.code, [answer.ext[name] for name in names]) == (0, ["10003", "10000", "10003", "10000"])
    assert static.ask(Code.PULL_MESSAGE, pull("t", 0, 1)).code == 501


def test_a_pull_of_a_physical_queue_is_not_translated(static: Client) -> None:
    static.ask(Code.SEND_MESSAGE_V2, send("t", 0), b"x")
    answer = static.ask(Code.PULL_MESSAGE, pull("t", 0, 0, lo=False))
    assert (answer.code, answer.ext["nextBeginOffset"]) == (0, "1")
    assert "offsetDelta" not in answer.ext


def test_a_held_pull_is_translated_when_it_is_answered(running: InProcess, static: Client) -> None:
    waiting = running.connect()
    assert waiting.call(Code.PULL_MESSAGE, pull("t", 10_000, 0, sys_flag=4 | 2, suspend_timeout_millis=15_000)) is None
    static.ask(Code.SEND_MESSAGE_V2, send("t", 0), b"x")
    running.turn()
    [answer] = waiting.heard
    assert (answer.code, answer.ext["nextBeginOffset"], answer.ext["offsetDelta"]) == (0, "10001", "10000")


def test_offsets_of_queues_and_groups_are_logical(running: InProcess, static: Client) -> None:
    for _ in range(3):
        static.ask(Code.SEND_MESSAGE_V2, send("t", 0), b"x")
    assert static.ask(Code.GET_MAX_OFFSET, GetMaxOffset(topic="t", queue_id=0)).ext["offset"] == "10003"
    assert static.ask(Code.GET_MAX_OFFSET, GetMaxOffset(topic="t", queue_id=0, lo=False)).ext["offset"] == "3"
    commit = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=10_002)
    assert static.ask(Code.UPDATE_CONSUMER_OFFSET, commit).code == 0
    assert running.services.offsets.query("g", "t", 0) == 2
    asked = QueryConsumerOffset(consumer_group="g", topic="t", queue_id=0)
    assert ask_forwarded(static, Code.QUERY_CONSUMER_OFFSET, asked).ext["offset"] == "10002"


def test_an_offset_committed_by_a_pull_is_physical_where_it_is_stored(running: InProcess, static: Client) -> None:
    static.ask(Code.SEND_MESSAGE_V2, send("t", 0), b"x")
    static.ask(Code.PULL_MESSAGE, pull("t", 10_000, 0, sys_flag=4 | 1, commit_offset=10_001))
    assert running.services.offsets.query("g", "t", 0) == 1
    static.ask(Code.PULL_MESSAGE, pull("t", 10_000, 0, sys_flag=4 | 1, commit_offset=77))
    assert running.services.offsets.query("g", "t", 0) == 1, "77 belongs to the queue at broker-b"


def ask_forwarded(client: Client, code: Code, header: Header) -> Command:
    """The answer to a request that takes a request to another broker."""

    async def once() -> Command:
        before = len(client.heard)
        assert client.call(code, header) is None
        while len(client.heard) == before:  # noqa: ASYNC110 - the next turn of the loop
            await asyncio.sleep(0)
        return client.heard.pop()

    return asyncio.run(once())


class OtherBroker:
    """Answers forwarded requests, and remembers them."""

    def __init__(self, code: int, **ext: str) -> None:
        self._reply = RemoteReply(code, 1, fields=msgspec.Raw(msgspec.json.encode(ext)), body=b"records")
        self.asked: list[tuple[str, Code, Header]] = []

    async def __call__(self, broker_name: str, topic: str, code: Code, header: Header) -> RemoteReply:
        assert topic == "t"
        self.asked.append((broker_name, code, header))
        return self._reply


def test_a_pull_of_old_offsets_goes_to_the_broker_that_has_them(running: InProcess, static: Client) -> None:
    other = OtherBroker(0, suggestWhichBrokerId="0", nextBeginOffset="40", minOffset="0", maxOffset="40")
    running.services.forwarder.ask = other  # type: ignore[method-assign]
    answer = ask_forwarded(static, Code.PULL_MESSAGE, pull("t", 8, 0, sys_flag=4 | 2 | 1))
    [(name, code, header)] = other.asked
    assert (name, code) == ("broker-b", Code.PULL_MESSAGE)
    assert (header.queue_id, header.queue_offset, header.lo, header.sys_flag, header.bname) == (
        5, 8, False, 4, "broker-b",
    )  # fmt: skip
    assert (answer.code, answer.body, answer.ext["nextBeginOffset"], answer.ext["offsetDelta"]) == (
        0, b"records", "40", "0",
    )  # fmt: skip


def test_damaged_messages_of_another_broker_have_logical_offsets(running: InProcess, static: Client) -> None:
    queues = running.services.mappings.table["t"].hosted_queues
    queues[0] = [
        MappingItem(gen=0, queue_id=5, bname="broker-b", logic_offset=100, start_offset=30),
        MappingItem(gen=1, queue_id=0, bname=A, logic_offset=10_000),
    ]
    other = OtherBroker(
        0, suggestWhichBrokerId="0", nextBeginOffset="40", minOffset="30", maxOffset="40", damaged="31,38"
    )
    running.services.forwarder.ask = other  # type: ignore[method-assign]
    answer = ask_forwarded(static, Code.PULL_MESSAGE, pull("t", 100, 0))
    assert (answer.ext["damaged"], answer.ext["offsetDelta"]) == ("101,108", "70")


def test_a_pull_continues_here_after_old_offsets(running: InProcess, static: Client) -> None:
    other = OtherBroker(19, suggestWhichBrokerId="0", nextBeginOffset="40", minOffset="0", maxOffset="40")
    running.services.forwarder.ask = other  # type: ignore[method-assign]
    answer = ask_forwarded(static, Code.PULL_MESSAGE, pull("t", 40, 0))
    assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "10000")


def test_offsets_of_another_broker_are_requested_there(running: InProcess, static: Client) -> None:
    other = OtherBroker(0, offset="7")
    running.services.forwarder.ask = other  # type: ignore[method-assign]
    answer = ask_forwarded(static, Code.GET_MIN_OFFSET, QueueHeader(topic="t", queue_id=0))
    assert answer.ext["offset"] == "7"
    asked = QueryConsumerOffset(consumer_group="new", topic="t", queue_id=0)
    assert ask_forwarded(static, Code.QUERY_CONSUMER_OFFSET, asked).ext["offset"] == "7", (
        "of the last queue that has one"
    )
    commit = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=9)
    assert ask_forwarded(static, Code.UPDATE_CONSUMER_OFFSET, commit).code == 0
    assert [(name, header.queue_id, header.lo) for name, _, header in other.asked] == [("broker-b", 5, False)] * 3
    assert running.services.offsets.query("g", "t", 5) == -1


def test_an_unreachable_broker_is_an_error_without_a_traceback(
    running: InProcess, static: Client, caplog: pytest.LogCaptureFixture
) -> None:
    answer = ask_forwarded(static, Code.GET_MIN_OFFSET, QueueHeader(topic="t", queue_id=0))
    assert answer.code != 0
    assert "no name server returned a route of topic t" in (answer.remark or "")
    assert "Traceback" not in caplog.text


def test_mappings_survive_a_restart_and_are_deleted_with_their_topic(tmp_path: Path) -> None:
    queues = {0: [item(0, queue_id=1)]}
    with broker(tmp_path / "store") as running:
        assert create(running.connect(), mapping(queues)).code == 0
    file = tmp_path / "store" / "config" / "topicQueueMapping.json"
    assert MappingTable.decode(file.read_bytes()).topic_queue_mapping_info_map["t"].hosted_queues == queues
    assert b'hostedQueues":{0:[' in file.read_bytes().replace(b"\t", b"").replace(b"\n", b"")
    with broker(tmp_path / "store") as again:
        client = again.connect()
        assert client.ask(Code.SEND_MESSAGE_V2, send("t", 0), b"x").ext["queueId"] == "0"
        assert again.services.store.queue_range("t", 1) == (0, 1)
        assert client.ask_task(Code.DELETE_TOPIC_IN_BROKER, TopicName(topic="t")).code == 0
    assert MappingTable.decode(file.read_bytes()).topic_queue_mapping_info_map == {}


def test_the_mapping_is_returned_on_request(static: Client) -> None:
    plain = static.ask(Code.GET_TOPIC_CONFIG, TopicName(topic="t"))
    assert "mappingDetail" not in loads(plain.body)
    full = TopicConfigAndMapping.decode(static.ask(Code.GET_TOPIC_CONFIG, TopicName(topic="t", lo=True)).body)
    assert full.mapping_detail is not None
    assert full.mapping_detail.hosted_queues[2] == [item(queue_id=1)]
    assert (full.topic_name, full.read_queue_nums) == ("t", 2)


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        (mapping({0: [item(0), item(0)]}), "gen does not increase"),
        (mapping({}, topic="other"), "of topic 'other'"),
        (mapping({}, bname="broker-b"), "broker 'broker-b'"),
    ],
)
def test_impossible_mappings_are_refused_and_change_nothing(
    running: InProcess, client: Client, detail: MappingDetail, words: str
) -> None:
    answer = create(client, detail)
    assert (answer.code, words in (answer.remark or "")) == (1, True)
    assert running.services.topics.get("t") is None


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"topic":"t"', b"\xff"])
def test_malformed_mappings_are_refused(client: Client, body: bytes) -> None:
    header = CreateTopic(
        topic="t", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
        topic_filter_type="SINGLE_TAG", order=False,
    )  # fmt: skip
    assert client.ask_task(Code.UPDATE_AND_CREATE_STATIC_TOPIC, header, body).code != 0


def test_an_older_mapping_is_refused_unless_forced(static: Client) -> None:
    older = mapping({2: [item(queue_id=0)]}, epoch=0)
    answer = create(static, older)
    assert (answer.code, answer.remark) == (1, "Can't accept data with small epoch 0 < 1")
    assert create(static, older, force=True).code == 0


def test_slaves_get_the_mappings(static: Client) -> None:
    body = static.ask(Code.GET_ALL_TOPIC_CONFIG).body
    assert b'"hostedQueues":{"0":[' in body, "Java's tools skip the mappings, and cannot skip bare keys"
    tree = loads(body)
    assert sorted(map(int, tree["topicQueueMappingDetailMap"]["t"]["hostedQueues"])) == [0, 1, 2]
    assert tree["mappingDataVersion"]["counter"] == 1


def test_a_topic_without_a_mapping_is_untouched(running: InProcess, static: Client) -> None:
    running.services.topics.put([TopicConfig(topic_name="plain", read_queue_nums=1, write_queue_nums=1)])
    answer = static.ask(Code.SEND_MESSAGE_V2, send("plain", 0), b"x")
    assert (answer.code, answer.ext["queueOffset"]) == (0, "0")
    assert "offsetDelta" not in static.ask(Code.PULL_MESSAGE, pull("plain")).ext


def test_a_held_pull_is_answered_when_its_queue_moves(running: InProcess, static: Client) -> None:
    waiting = running.connect()
    assert waiting.call(Code.PULL_MESSAGE, pull("t", 10_000, 0, sys_flag=4 | 2, suspend_timeout_millis=15_000)) is None
    queues = running.services.mappings.table["t"].hosted_queues
    moved = mapping({**queues, 0: [*queues[0], item(2, -1, bname="broker-b")]}, epoch=2)
    assert create(static, moved).code == 0
    running.turn()
    assert [answer.code for answer in waiting.heard] == [19], "the consumer asks again and learns of it"
    assert waiting.ask(Code.PULL_MESSAGE, pull("t", 10_000, 0)).code == 501


def test_tools_see_where_a_group_has_no_offset(running: InProcess, static: Client) -> None:
    running.services.offsets.commit("g", "t", 1, 1, "here")
    body = loads(static.ask_task(Code.GET_CONSUME_STATS, GetConsumeStats(consumer_group="g", topic="t")).body)
    rows = ConsumeStatsTable.convert(body).queues()
    assert {queue.queue_id: row.consumer_offset for queue, row in rows.items()} == {0: -1, 1: 1}


class Brokers:
    """Answers the questions of a clean-up for broker-b and broker-c."""

    def __init__(self, mapping_of_c: MappingDetail, end_at_b: int) -> None:
        self._mapping = mapping_of_c
        self._end = end_at_b
        self.refusals: dict[Code, str] = {}
        self.asked: list[tuple[str, Code, bool | None]] = []

    async def ask(self, broker_name: str, topic: str, code: Code, header: Header) -> RemoteReply:
        assert isinstance(header, TopicName)
        self.asked.append((broker_name, code, header.lo))
        if code == Code.GET_TOPIC_CONFIG:
            fields = {"topic_name": topic, "read_queue_nums": 1, "write_queue_nums": 1}
            body = TopicConfigAndMapping(**fields, mapping_detail=self._mapping).encode()  # type: ignore[arg-type]
        else:
            place = {"brokerName": broker_name, "queueId": 5, "topic": topic}
            extent = {"lastUpdateTimestamp": 0, "maxOffset": self._end, "minOffset": self._end}
            body = dumps_java({"offsetTable": {tuple(place.items()): extent}})
        remark = self.refusals.get(code)
        return RemoteReply(0 if remark is None else 1, 1, remark=remark, fields=msgspec.Raw(b"{}"), body=body)

    async def route(self, topic: str, *, max_age_ms: int) -> TopicRoute:
        assert max_age_ms == 0
        brokers = [BrokerData(broker_name=name, broker_addrs={0: f"{name}:1"}) for name in (A, "broker-b", "broker-c")]
        tree = msgspec.to_builtins(as_info(self._mapping), str_keys=True)
        return TopicRoute(topic, TopicRouteData(broker_datas=brokers, topic_queue_mapping_by_broker={"c": tree}))


def test_the_mapping_is_cleaned_up(running: InProcess, static: Client) -> None:
    """Queue 0 came here from broker-b, where its messages have expired; queue 1 went to broker-b, then to broker-c."""
    moved_on = [item(0), item(1, 10_000, bname="broker-b"), item(2, 20_000, bname="broker-c")]
    brokers = Brokers(mapping({1: moved_on}, bname="broker-c"), end_at_b=40)
    running.services.forwarder.ask = brokers.ask  # type: ignore[method-assign]
    running.services.forwarder.route = brokers.route  # type: ignore[method-assign]
    before = running.services.mappings.version
    asyncio.run(running.services.mapping_clean_up.run())
    assert brokers.asked == [("broker-b", Code.GET_TOPIC_STATS_INFO, False), ("broker-c", Code.GET_TOPIC_CONFIG, True)]
    detail = running.services.mappings.table["t"]
    assert {number: [one.gen for one in items] for number, items in detail.hosted_queues.items()} == {0: [1], 2: [0]}
    assert running.services.mappings.version != before, "slaves take it over"
    answer = static.ask(Code.PULL_MESSAGE, pull("t", 3, 0))
    assert (answer.code, answer.ext["nextBeginOffset"]) == (21, "10000"), "a reader of old offsets goes on here"


def test_a_queue_whose_new_leader_refuses_its_mapping_stays(
    running: InProcess, static: Client, caplog: pytest.LogCaptureFixture
) -> None:
    del static
    moved_on = [item(0), item(1, 10_000, bname="broker-b"), item(2, 20_000, bname="broker-c")]
    brokers = Brokers(mapping({1: moved_on}, bname="broker-c"), end_at_b=40)
    brokers.refusals[Code.GET_TOPIC_CONFIG] = "not now"
    running.services.forwarder.ask = brokers.ask  # type: ignore[method-assign]
    running.services.forwarder.route = brokers.route  # type: ignore[method-assign]
    asyncio.run(running.services.mapping_clean_up.run())
    assert set(running.services.mappings.table["t"].hosted_queues) == {0, 1, 2}
    assert "the mapping of static topic t is not cleaned up" in caplog.text
    assert "not now" in caplog.text
    brokers.refusals.clear()
    asyncio.run(running.services.mapping_clean_up.run())
    assert set(running.services.mappings.table["t"].hosted_queues) == {0, 2}


def test_a_mapping_stays_if_a_broker_does_not_answer(
    running: InProcess, static: Client, caplog: pytest.LogCaptureFixture
) -> None:
    del static
    before = running.services.mappings.version
    asyncio.run(running.services.mapping_clean_up.run())
    assert running.services.mappings.version == before
    assert "the mapping of static topic t is not cleaned up: no name server returned" in caplog.text


@pytest.mark.parametrize(("hours", "runs"), [("00;01;02;03;04;05;06;07;08;09;10;11", 1), ("12", 0)])
def test_the_clean_up_keeps_to_its_hours(tmp_path: Path, hours: str, runs: int) -> None:
    noon = datetime.datetime(2026, 1, 5, 11, 30).astimezone()

    async def look() -> int:
        with broker(tmp_path, store={"delete_when": hours}, now=int(noon.timestamp() * 1000)) as running:
            running.services.mappings.put(mapping({0: [item()]}), "t", force=False)
            running.services.clean_mappings()
            running.services.clean_mappings()  # one is in progress
            found = running.services.mapping_clean_up.runs
            await running.services.mapping_clean_up.stop()
            return found

    assert asyncio.run(look()) == runs


def test_a_slave_leaves_the_clean_up_to_its_master(tmp_path: Path) -> None:
    every = ";".join(f"{hour:02}" for hour in range(24))
    with broker(tmp_path, store={"delete_when": every}, broker_role="SLAVE", broker_id=1) as running:
        running.services.mappings.put(mapping({0: [item()]}), "t", force=False)
        running.services.clean_mappings()
        assert running.services.mapping_clean_up.runs == 0


# -- queues that begin or end at another broker


@pytest.fixture
def led(running: InProcess) -> Client:
    """Logical queue 0 was at broker-b up to 40, then here; queue 2 is here with physical queue 1 alone, from 0."""
    client = running.connect()
    past = item(0, bname="broker-b", queue_id=5)
    past.end_offset = 40
    answer = create(client, mapping({0: [past, item(1, 10_000, queue_id=0)], 2: [item(queue_id=1)]}))
    assert answer.code == 0, answer.remark
    client.ask(Code.HEART_BEAT, body=heartbeat(t="*"))
    for _ in range(3):
        client.ask(Code.SEND_MESSAGE_V2, send("t", 0), b"x")
    return client


def searched(client: Client, timestamp: int, **more: Any) -> str:
    header = SearchOffset(topic="t", queue_id=0, timestamp=timestamp, **more)
    return ask_forwarded(client, Code.SEARCH_OFFSET_BY_TIMESTAMP, header).ext["offset"]


def test_a_time_is_searched_in_the_first_queue_that_has_it(running: InProcess, led: Client) -> None:
    offsets = {Code.SEARCH_OFFSET_BY_TIMESTAMP: "7", Code.GET_MAX_OFFSET: "40"}
    asked: list[tuple[str, int, int, bool | None]] = []

    async def other(broker_name: str, topic: str, code: Code, header: Any) -> RemoteReply:
        asked.append((broker_name, int(code), header.queue_id, header.lo))
        return RemoteReply(0, 1, fields=msgspec.Raw(msgspec.json.encode({"offset": offsets[code]})))

    running.services.forwarder.ask = other  # type: ignore[method-assign]
    assert searched(led, START_MS) == "7"
    assert asked == [("broker-b", 29, 5, False), ("broker-b", 30, 5, False)]
    offsets[Code.SEARCH_OFFSET_BY_TIMESTAMP] = "40"
    assert searched(led, START_MS) == "10000"
    assert searched(led, START_MS, boundary_type="UPPER") == "10002"
    assert searched(led, START_MS + 1) == "10003"


def test_a_single_physical_queue_is_searched_here(running: InProcess, led: Client) -> None:
    led.ask(Code.SEND_MESSAGE_V2, send("t", 2), b"x")
    header = SearchOffset(topic="t", queue_id=2, timestamp=START_MS)
    assert ask_forwarded(led, Code.SEARCH_OFFSET_BY_TIMESTAMP, header).ext["offset"] == "0"
    physical = SearchOffset(topic="t", queue_id=0, timestamp=START_MS, lo=False)
    assert led.ask(Code.SEARCH_OFFSET_BY_TIMESTAMP, physical).ext["offset"] == "0"


def test_a_broker_that_refuses_refuses_for_the_logical_queue(running: InProcess, led: Client) -> None:
    running.services.forwarder.ask = OtherBroker(16)  # type: ignore[method-assign]
    header = SearchOffset(topic="t", queue_id=0, timestamp=START_MS)
    assert ask_forwarded(led, Code.SEARCH_OFFSET_BY_TIMESTAMP, header).code == 16
    assert ask_forwarded(led, Code.GET_MIN_OFFSET, QueueHeader(topic="t", queue_id=0)).code == 16
    asked = QueryConsumerOffset(consumer_group="new", topic="t", queue_id=0)
    assert ask_forwarded(led, Code.QUERY_CONSUMER_OFFSET, asked).code == 16


def test_a_group_without_an_offset_anywhere_is_new(running: InProcess, led: Client) -> None:
    running.services.forwarder.ask = OtherBroker(22)  # type: ignore[method-assign]
    asked = QueryConsumerOffset(consumer_group="new", topic="t", queue_id=0, set_zero_if_not_found=True)
    answer = ask_forwarded(led, Code.QUERY_CONSUMER_OFFSET, asked)
    assert (answer.code, answer.remark) == (22, "Not found, maybe this group consumer boot first")


def test_the_oldest_message_is_asked_for_where_it_is(running: InProcess, led: Client) -> None:
    other = OtherBroker(0, timestamp="77")
    running.services.forwarder.ask = other  # type: ignore[method-assign]
    oldest = QueueHeader(topic="t", queue_id=0)
    assert ask_forwarded(led, Code.GET_EARLIEST_MSG_STORETIME, oldest).ext == {"timestamp": "77"}
    assert [(name, int(code), header.queue_id) for name, code, header in other.asked] == [("broker-b", 32, 5)]
    led.ask(Code.SEND_MESSAGE_V2, send("t", 2), b"x")
    here = led.ask(Code.GET_EARLIEST_MSG_STORETIME, QueueHeader(topic="t", queue_id=2))
    assert here.ext["timestamp"] == str(START_MS)
    assert led.ask(Code.GET_MIN_OFFSET, QueueHeader(topic="t", queue_id=2)).ext["offset"] == "0"


def test_the_end_of_a_queue_is_at_its_last_broker(running: InProcess) -> None:
    client = running.connect()
    assert create(client, mapping({2: [item(queue_id=1)]})).code == 0
    detail = running.services.mappings.table["t"]
    detail.hosted_queues[2].append(item(1, 10_000, bname="broker-b", queue_id=5))
    answer = client.ask(Code.GET_MAX_OFFSET, GetMaxOffset(topic="t", queue_id=2))
    assert answer.code == 501, "another broker leads the queue now"


def test_an_offset_is_committed_to_the_physical_queue_of_the_logical_one(running: InProcess, static: Client) -> None:
    for _ in range(3):
        static.ask(Code.SEND_MESSAGE_V2, send("t", 2), b"x")
    commit = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=2, commit_offset=2)
    assert static.ask(Code.UPDATE_CONSUMER_OFFSET, commit).code == 0
    assert [running.services.offsets.query("g", "t", queue) for queue in range(3)] == [-1, 2, -1]
