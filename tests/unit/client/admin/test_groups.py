"""Requests about consumer groups, and what is made of the answers of several brokers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from rocketmq_py.aio import Admin
from rocketmq_py.errors import BrokerError, ConfigError, NoRouteError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from rocketmq_py.protocol.bodies.route import TopicList
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.admin.scripted_cluster import MASTERS, ScriptedCluster, body, refused, with_admin

QUEUE = MessageQueue("t", "a", 1)
WHERE = {"topic": "t", "queueId": "1", "bname": "a"}


def key(topic: str, broker: str, queue_id: int) -> str:
    return json.dumps({"topic": topic, "brokerName": broker, "queueId": queue_id})


def config(name: str, times: int) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(group_name=name, retry_max_times=times)


@with_admin()
async def test_configurations_are_given_by_group_and_broker(admin: Admin, cluster: ScriptedCluster) -> None:
    tables = {"a:1": {"h": 2, "g": 4}, "b:1": {"g": 5}, "z:1": {"g": 6}}
    cluster.answers[Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG] = lambda address, _: body(
        SubscriptionGroupTable(subscription_group_table={g: config(g, n) for g, n in tables.get(address, {}).items()})
    )
    expected: dict[str, Any] = {"g": {"a": config("g", 4), "b": config("g", 5)}, "h": {"a": config("h", 2)}}
    found = await admin.groups("c1")
    assert (list(found), found) == (["g", "h"], expected)
    expected["g"]["z"] = config("g", 6)
    assert await admin.groups() == expected


@pytest.mark.parametrize(
    ("group", "options", "times", "masters"),
    [
        ("g", {}, 16, MASTERS),
        ("g", {"retry_max_times": 3, "cluster": "c2"}, 3, ["z:1"]),
        (config("g", 5), {"retry_max_times": 3}, 5, MASTERS),
    ],
)
@with_admin()
async def test_a_group_is_made_on_every_master(
    admin: Admin,
    cluster: ScriptedCluster,
    group: str | SubscriptionGroupConfig,
    options: dict[str, Any],
    times: int,
    masters: list[str],
) -> None:
    await admin.create_group(group, **options)
    code = Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert sorted(cluster.asked(code)) == masters
    assert {SubscriptionGroupConfig.decode(one).retry_max_times for one in cluster.bodies(code)} == {times}
    with pytest.raises(ConfigError):
        await admin.create_group("no group!")
    assert len(cluster.asked(code)) == len(masters)


@pytest.mark.parametrize(
    ("options", "clean", "masters"),
    [({}, "false", MASTERS), ({"clean_offsets": True, "cluster": "c2"}, "true", ["z:1"])],
)
@with_admin()
async def test_a_group_is_deleted_from_every_master(
    admin: Admin, cluster: ScriptedCluster, options: dict[str, Any], clean: str, masters: list[str]
) -> None:
    await admin.delete_group("g", **options)
    assert sorted(cluster.asked(Code.DELETE_SUBSCRIPTIONGROUP)) == masters
    assert cluster.fields(Code.DELETE_SUBSCRIPTIONGROUP) == [{"groupName": "g", "cleanOffset": clean}] * len(masters)


@pytest.mark.parametrize(("options", "share"), [({}, 0), ({"share": 2}, 2)])
@with_admin()
async def test_the_mode_of_a_group_is_set_on_every_master(
    admin: Admin, cluster: ScriptedCluster, options: dict[str, int], share: int
) -> None:
    await admin.set_request_mode("g", "t", "POP", **options)
    await admin.set_request_mode("g", "t", "PULL", cluster="c2")
    bodies = [json.loads(one) for one in cluster.bodies(Code.SET_MESSAGE_REQUEST_MODE)]
    about = {"consumerGroup": "g", "topic": "t"}
    assert bodies[:3] == [about | {"mode": "POP", "popShareQueueNum": share}] * 3
    assert bodies[3:] == [about | {"mode": "PULL", "popShareQueueNum": 0}]
    with pytest.raises(ConfigError, match="mode='pop' must be 'PULL' or 'POP'"):
        await admin.set_request_mode("g", "t", "pop")


def connected(*clients: str) -> Command:
    members = [{"clientId": c, "clientAddr": "", "language": "JAVA", "version": 1} for c in clients]
    tree = {
        "connectionSet": members, "subscriptionTable": {}, "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
    }  # fmt: skip
    return body(json.dumps(tree).encode())


@with_admin()
async def test_members_of_all_brokers_are_joined(admin: Admin, cluster: ScriptedCluster) -> None:
    there = {"a:1": ["y", "x"], "b:1": ["x", "w"]}
    cluster.answers[Code.GET_CONSUMER_CONNECTION_LIST] = lambda address, _: (
        connected(*there[address]) if address in there else refused(ResponseCode.CONSUMER_NOT_ONLINE)
    )
    found = await admin.members("g")
    assert found is not None
    assert [member.client_id for member in found.connection_set] == ["w", "x", "y"]
    assert cluster.fields(Code.GET_CONSUMER_CONNECTION_LIST)[0] == {"consumerGroup": "g"}
    there.clear()
    assert await admin.members("g") is None
    cluster.answers[Code.GET_CONSUMER_CONNECTION_LIST] = lambda *_: refused(ResponseCode.SYSTEM_ERROR)
    with pytest.raises(BrokerError):
        await admin.members("g")


@with_admin()
async def test_topics_of_a_group_are_named_once(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.answers[Code.QUERY_TOPICS_BY_CONSUMER] = lambda address, _: body(TopicList(topic_list=["t", address]))
    assert await admin.group_topics("g") == ["a:1", "b:1", "s:2", "t", "z:1"]
    assert cluster.fields(Code.QUERY_TOPICS_BY_CONSUMER)[0] == {"group": "g"}


@pytest.mark.parametrize(("topic", "more"), [(None, {}), ("t", {"topic": "t"})])
@with_admin()
async def test_progress_of_all_brokers_is_joined(
    admin: Admin, cluster: ScriptedCluster, topic: str | None, more: dict[str, str]
) -> None:
    state = {"brokerOffset": 9, "consumerOffset": 4, "pullOffset": 5, "lastTimestamp": 77}
    tables = {"b:1": {key("t", "b", 0): state}, "a:1": {key("t", "a", 1): state}}
    cluster.answers[Code.GET_CONSUME_STATS] = lambda address, _: body(
        json.dumps({"offsetTable": tables[address]}).encode() if address in tables else b""
    )
    expected = OffsetWrapper(broker_offset=9, consumer_offset=4, pull_offset=5, last_timestamp=77)
    progress = await admin.progress("g", topic)
    assert list(progress.items()) == [(QUEUE, expected), (MessageQueue("t", "b", 0), expected)]
    assert cluster.fields(Code.GET_CONSUME_STATS)[0] == {"consumerGroup": "g"} | more


def offsets(table: Mapping[str, int]) -> Any:
    """Answers offsets by queue id; a queue that is not there has none."""

    def answer(_: str, request: Command) -> Command:
        found = table.get(request.ext["queueId"])
        return refused(ResponseCode.QUERY_NOT_FOUND) if found is None else Command(0, ext={"offset": str(found)})

    return answer


@with_admin({"t": {"a": 3}})
async def test_committed_offsets(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.answers[Code.QUERY_CONSUMER_OFFSET] = offsets({"0": 0, "2": 7})
    assert await admin.group_offset("g", QUEUE) is None
    assert await admin.group_offset("g", QUEUE._replace(queue_id=2)) == 7
    asked = WHERE | {"consumerGroup": "g", "setZeroIfNotFound": "false"}
    assert cluster.fields(Code.QUERY_CONSUMER_OFFSET) == [asked, asked | {"queueId": "2"}]
    assert await admin.group_offsets("g", "t") == {
        QUEUE._replace(queue_id=0): 0, QUEUE._replace(queue_id=2): 7,
    }  # fmt: skip


@with_admin({"t": {"a": 3}})
async def test_a_committed_offset_is_set(admin: Admin, cluster: ScriptedCluster) -> None:
    await admin.set_group_offset("g", QUEUE, 5)
    assert cluster.fields(Code.UPDATE_CONSUMER_OFFSET) == [WHERE | {"consumerGroup": "g", "commitOffset": "5"}]
    assert cluster.asked(Code.UPDATE_CONSUMER_OFFSET) == ["a:1"]


RESET = {"topic": "t", "group": "g", "timestamp": "-1", "isForce": "true", "queueId": "1", "offset": "5", "bname": "a"}


@pytest.mark.parametrize(("table", "expected"), [({key("t", "a", 1): 6, key("t", "a", 2): 8}, 6), ({}, 5), (None, 5)])
@with_admin({"t": {"a": 3}})
async def test_a_reset_tells_the_offset_that_is_set(
    admin: Admin, cluster: ScriptedCluster, table: dict[str, int] | None, expected: int
) -> None:
    cluster.answers[Code.GET_MAX_OFFSET] = lambda *_: Command(0, version=413, ext={"offset": "9"})
    cluster.answers[Code.INVOKE_BROKER_TO_RESET_OFFSET] = lambda *_: (
        Command(0) if table is None else body(json.dumps({"offsetTable": table}).encode())
    )
    assert await admin.reset_group_offset("g", QUEUE, 5) == expected
    assert cluster.fields(Code.GET_MAX_OFFSET) == [WHERE]
    assert cluster.fields(Code.INVOKE_BROKER_TO_RESET_OFFSET) == [RESET]
    assert cluster.asked(Code.UPDATE_CONSUMER_OFFSET) == []


@pytest.mark.parametrize("code", [ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.REQUEST_CODE_NOT_SUPPORTED])
@with_admin({"t": {"a": 3}})
async def test_a_broker_that_only_forwards_resets_gets_the_offset(
    admin: Admin, cluster: ScriptedCluster, code: int
) -> None:
    cluster.answers[Code.GET_MAX_OFFSET] = lambda *_: Command(0, version=413, ext={"offset": "9"})
    cluster.answers[Code.INVOKE_BROKER_TO_RESET_OFFSET] = lambda *_: refused(code)
    assert await admin.reset_group_offset("g", QUEUE, 5) == 5
    assert cluster.fields(Code.UPDATE_CONSUMER_OFFSET) == [WHERE | {"consumerGroup": "g", "commitOffset": "5"}]


@with_admin({"t": {"a": 3}})
async def test_a_broker_before_5_0_would_reset_all_queues(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.answers[Code.GET_MAX_OFFSET] = lambda *_: Command(0, version=412, ext={"offset": "9"})
    with pytest.raises(ConfigError, match="broker a is of version V5_0_0_SNAPSHOT"):
        await admin.reset_group_offset("g", QUEUE, 5)
    assert cluster.asked(Code.INVOKE_BROKER_TO_RESET_OFFSET) == cluster.asked(Code.UPDATE_CONSUMER_OFFSET) == []
    cluster.answers[Code.GET_MAX_OFFSET] = lambda *_: Command(0, version=413, ext={"offset": "9"})
    cluster.answers[Code.INVOKE_BROKER_TO_RESET_OFFSET] = lambda *_: refused(ResponseCode.SYSTEM_ERROR)
    with pytest.raises(BrokerError):
        await admin.reset_group_offset("g", QUEUE, 5)
    assert cluster.asked(Code.UPDATE_CONSUMER_OFFSET) == []


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([], False),
        ([("t", "a", 1)], True),
        ([("t", "a", 2)], False),
        ([("t", "b", 1), ("u", "a", 1)], False),
        ([("t", "a", 2), ("t", "a", 1)], True),
    ],
)
@with_admin({"t": {"a": 3}})
async def test_a_lock_is_held_if_the_answer_names_the_queue(
    admin: Admin, cluster: ScriptedCluster, held: list[tuple[str, str, int]], expected: bool
) -> None:
    queues = [{"topic": topic, "brokerName": broker, "queueId": number} for topic, broker, number in held]
    cluster.answers[Code.LOCK_BATCH_MQ] = lambda *_: body(json.dumps({"lockOKMQSet": queues}).encode())
    assert await admin.lock_queue("g", QUEUE) is expected
    await admin.unlock_queue("g", QUEUE)
    for code in (Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ):
        [sent] = map(json.loads, cluster.bodies(code))
        assert (sent["consumerGroup"], sent["clientId"]) == ("g", admin._instance.client_id)
        assert sent["mqSet"] == [{"topic": "t", "brokerName": "a", "queueId": 1}]
        assert cluster.asked(code) == ["a:1"]


@with_admin({"t": {"a": 6}})
async def test_lag_is_what_lies_after_the_committed_offset(admin: Admin, cluster: ScriptedCluster) -> None:
    committed = {"0": 0, "1": 4, "2": 9, "3": 12, "5": 9}
    first = {"0": 3, "1": 3, "2": 3, "3": 3, "4": 3, "5": -1}
    cluster.answers[Code.QUERY_CONSUMER_OFFSET] = offsets(committed)
    cluster.answers[Code.GET_MIN_OFFSET] = offsets(first)
    cluster.answers[Code.GET_MAX_OFFSET] = offsets(dict.fromkeys("01234", 9) | {"5": 10})
    lags = await admin.lags("g", "t")
    assert list(lags.items()) == [(QUEUE._replace(queue_id=n), lag) for n, lag in enumerate((6, 5, 0, 0, 6, 1))]
    assert await admin.lag("g", "t") == 18


@with_admin({})
async def test_there_is_no_lag_where_there_is_no_topic(admin: Admin, cluster: ScriptedCluster) -> None:
    assert await admin.lag("g", "%RETRY%g") == 0
    with pytest.raises(NoRouteError):
        await admin.lag("g", "t")
