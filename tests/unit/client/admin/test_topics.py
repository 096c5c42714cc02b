"""Requests about topics, and what is made of the answers of several brokers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketmq_py.aio import Admin
from rocketmq_py.client.admin.topics import changes
from rocketmq_py.errors import BrokerError, ConfigError, NoRouteError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import TopicOffset
from rocketmq_py.protocol.bodies.group import GroupList
from rocketmq_py.protocol.bodies.route import TopicList
from rocketmq_py.protocol.bodies.topic import TopicConfig, TopicConfigTable
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.admin.scripted_cluster import MASTERS, ScriptedCluster, body, refused, with_admin


def config(topic: str, queues: int) -> TopicConfig:
    return TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)


@with_admin()
async def test_names_of_topics_are_sorted(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.answers[Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER] = lambda *_: body(TopicList(topic_list=["u", "t"]))
    assert await admin.topics() == ["t", "u"]
    assert cluster.asked(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["ns:1"]


@with_admin()
async def test_each_system_topic_is_named_once(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.answers[Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER] = lambda address, _: body(
        TopicList(topic_list=["TBW102", address])
    )
    assert await admin.system_topics() == ["TBW102", "a:1", "b:1", "s:2", "z:1"]


@with_admin()
async def test_configurations_are_given_by_topic_and_broker(admin: Admin, cluster: ScriptedCluster) -> None:
    tables = {"a:1": {"u": 2, "t": 4}, "b:1": {"t": 5}, "z:1": {"t": 6}}
    cluster.answers[Code.GET_ALL_TOPIC_CONFIG] = lambda address, _: body(
        TopicConfigTable(topic_config_table={t: config(t, n) for t, n in tables.get(address, {}).items()})
    )
    expected: dict[str, Any] = {"t": {"a": config("t", 4), "b": config("t", 5)}, "u": {"a": config("u", 2)}}
    found = await admin.topic_configs("c1")
    assert (list(found), found) == (["t", "u"], expected)
    expected["t"]["z"] = config("t", 6)
    assert await admin.topic_configs() == expected


@with_admin()
async def test_a_topic_is_asked_of_the_brokers_of_its_route(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.answers[Code.GET_TOPIC_CONFIG] = lambda address, _: (
        body(config("t", 3)) if address == "a:1" else refused(ResponseCode.TOPIC_NOT_EXIST)
    )
    assert await admin.topic_config("t") == {"a": config("t", 3)}
    assert sorted(cluster.asked(Code.GET_TOPIC_CONFIG)) == ["a:1", "s:2"]
    assert cluster.fields(Code.GET_TOPIC_CONFIG) == [{"topic": "t"}] * 2
    cluster.answers[Code.GET_TOPIC_CONFIG] = lambda *_: refused(ResponseCode.NO_PERMISSION)
    with pytest.raises(BrokerError):
        await admin.topic_config("t")
    with pytest.raises(NoRouteError):
        await admin.topic_config("unknown")


@with_admin()
async def test_offsets_of_the_queues_of_all_brokers_are_joined(admin: Admin, cluster: ScriptedCluster) -> None:
    def answer(address: str, _: Command) -> Command:
        name = address[0]
        key = json.dumps({"topic": "t", "brokerName": name, "queueId": 1})
        extent = {"minOffset": 1, "maxOffset": 9, "lastUpdateTimestamp": 77}
        return body(json.dumps({"offsetTable": {key: extent}}).encode())

    cluster.answers[Code.GET_TOPIC_STATS_INFO] = answer
    extent = TopicOffset(min_offset=1, max_offset=9, last_update_timestamp=77)
    stats = await admin.topic_stats("t")
    assert list(stats.items()) == [(MessageQueue("t", "a", 1), extent), (MessageQueue("t", "s", 1), extent)]
    assert cluster.fields(Code.GET_TOPIC_STATS_INFO) == [{"topic": "t"}] * 2
    cluster.answers[Code.GET_TOPIC_STATS_INFO] = lambda address, request: (
        answer(address, request) if address == "s:2" else refused(ResponseCode.TOPIC_NOT_EXIST)
    )
    assert list(await admin.topic_stats("t")) == [MessageQueue("t", "s", 1)]


@with_admin()
async def test_groups_of_a_topic_are_named_once(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.answers[Code.QUERY_TOPIC_CONSUME_BY_WHO] = lambda address, _: body(GroupList(group_list=["g", address]))
    assert await admin.topic_groups("t") == ["a:1", "g", "s:2"]
    assert cluster.fields(Code.QUERY_TOPIC_CONSUME_BY_WHO) == [{"topic": "t"}] * 2


@with_admin({"t": {"a": 2}})
async def test_the_route_is_asked_anew_each_time(admin: Admin, cluster: ScriptedCluster) -> None:
    assert await admin.queues("t") == [MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)]
    cluster.topics["t"] = {"a": 1}
    assert await admin.queues("t") == [MessageQueue("t", "a", 0)]
    assert (await admin.route("t")).brokers == {"a": {0: "a:1", 1: "a:2"}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        ({"queues": 3}, {"readQueueNums": "3", "writeQueueNums": "3"}),
        ({"queues": 3, "read_queues": 0}, {"readQueueNums": "0", "writeQueueNums": "3"}),
        ({"queues": 3, "write_queues": 0}, {"readQueueNums": "3", "writeQueueNums": "0"}),
        ({"perm": 4}, {"perm": "4"}),
        ({"order": True}, {"order": "true"}),
        ({"attributes": {"message.type": "FIFO", "x": None}}, {"attributes": "+message.type=FIFO,-x"}),
    ],
)
@with_admin()
async def test_a_topic_is_made_on_every_master(
    admin: Admin, cluster: ScriptedCluster, options: dict[str, Any], expected: dict[str, str]
) -> None:
    await admin.create_topic("t", **options)
    assert sorted(cluster.asked(Code.UPDATE_AND_CREATE_TOPIC)) == MASTERS
    default = {
        "topic": "t", "defaultTopic": "TBW102", "readQueueNums": "8", "writeQueueNums": "8", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    assert cluster.fields(Code.UPDATE_AND_CREATE_TOPIC) == [default | expected] * 3


@with_admin()
async def test_a_topic_is_made_where_it_is_wanted(admin: Admin, cluster: ScriptedCluster) -> None:
    await admin.create_topic("t", cluster="c2")
    await admin.create_topic("t", brokers=["b"])
    assert cluster.asked(Code.UPDATE_AND_CREATE_TOPIC) == ["z:1", "b:1"]
    with pytest.raises(ConfigError):
        await admin.create_topic("no topic!")
    assert len(cluster.asked(Code.UPDATE_AND_CREATE_TOPIC)) == 2


@pytest.mark.parametrize(("of", "masters", "more"), [(None, MASTERS, {}), ("c2", ["z:1"], {"clusterName": "c2"})])
@with_admin()
async def test_a_topic_is_deleted_with_its_route(
    admin: Admin, cluster: ScriptedCluster, of: str | None, masters: list[str], more: dict[str, str]
) -> None:
    await admin.delete_topic("t", cluster=of)
    assert sorted(cluster.asked(Code.DELETE_TOPIC_IN_BROKER)) == masters
    assert cluster.fields(Code.DELETE_TOPIC_IN_BROKER) == [{"topic": "t"}] * len(masters)
    assert cluster.asked(Code.DELETE_TOPIC_IN_NAMESRV) == ["ns:1"]
    assert cluster.fields(Code.DELETE_TOPIC_IN_NAMESRV) == [{"topic": "t"} | more]


@with_admin()
async def test_offsets_of_a_queue(admin: Admin, cluster: ScriptedCluster) -> None:
    offsets = {Code.GET_MIN_OFFSET: 3, Code.GET_MAX_OFFSET: 9, Code.SEARCH_OFFSET_BY_TIMESTAMP: 5}
    for code, offset in offsets.items():
        cluster.answers[code] = lambda _, __, offset=offset: Command(0, ext={"offset": str(offset)})  # type: ignore[misc]
    queue = MessageQueue("t", "a", 1)
    assert await admin.min_offset(queue) == 3
    assert await admin.max_offset(queue) == 9
    assert await admin.offset_at(queue, 123) == 5
    assert await admin._extent(queue) == (3, 9)
    where = {"topic": "t", "queueId": "1", "bname": "a"}
    assert cluster.fields(Code.GET_MIN_OFFSET) == [where] * 2
    assert cluster.fields(Code.GET_MAX_OFFSET) == [where] * 2
    assert cluster.fields(Code.SEARCH_OFFSET_BY_TIMESTAMP) == [where | {"timestamp": "123"}]
    assert {address for code in offsets for address in cluster.asked(code)} == {"a:1"}
    cluster.answers[Code.GET_MIN_OFFSET] = lambda *_: Command(0, ext={"offset": "-1"})
    assert await admin.min_offset(queue) == 0, "a batch queue without messages"


@with_admin({})
async def test_a_retry_topic_that_does_not_exist_yet_has_no_queues(admin: Admin, cluster: ScriptedCluster) -> None:
    assert await admin._readable("%RETRY%g") == []
    with pytest.raises(NoRouteError):
        await admin._readable("t")


def test_changes_of_attributes_are_signed() -> None:
    assert changes({"a": "1", "b": None, "c": ""}) == "+a=1,-b,+c="
    assert changes({}) == ""
