"""Requests for statistics and about running clients."""

from __future__ import annotations

import json
from typing import Any

from rocketmq_py.aio import Admin
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.admin.scripted_cluster import REACHED, ScriptedCluster, body, refused, with_admin

KEY = '{"brokerName":"a","queueId":1,"topic":"t"}'
QUEUE = MessageQueue("t", "a", 1)


def tree(of: Any) -> Command:
    return body(json.dumps(of).encode())


@with_admin()
async def test_a_counter_is_of_each_broker_that_has_it(admin: Admin, cluster: ScriptedCluster) -> None:
    windows = {"statsMinute": {"sum": 6, "tps": 0.1, "avgpt": 2.0}, "statsHour": {"sum": 7}}
    cluster.answers[Code.VIEW_BROKER_STATS_DATA] = lambda address, _: (
        tree(windows) if address == "a:1" else refused(ResponseCode.SYSTEM_ERROR)
    )
    found = await admin.counter("TOPIC_PUT_NUMS", "t")
    assert list(found) == ["a"]
    values = found["a"]
    assert (values.stats_minute.sum, values.stats_minute.tps, values.stats_minute.avgpt) == (6, 0.1, 2.0)
    assert (values.stats_hour.sum, values.stats_day.sum) == (7, 0)
    assert cluster.fields(Code.VIEW_BROKER_STATS_DATA)[0] == {"statsName": "TOPIC_PUT_NUMS", "statsKey": "t"}


@with_admin()
async def test_consume_times_are_by_queue(admin: Admin, cluster: ScriptedCluster) -> None:
    times = {"messageQueue": json.loads(KEY), "minTimeStamp": 1, "maxTimeStamp": 9, "consumeTimeStamp": 4,
             "delayTime": 5, "minTimeStampStr": "x"}  # fmt: skip
    cluster.answers[Code.QUERY_CONSUME_TIME_SPAN] = lambda address, _: (
        tree({"consumeTimeSpanSet": [times]}) if address == "a:1" else refused(ResponseCode.TOPIC_NOT_EXIST)
    )
    found = (await admin.consume_times("g", "t"))[QUEUE]
    assert (found.min_time_stamp, found.max_time_stamp, found.consume_time_stamp, found.delay_time) == (1, 9, 4, 5)


@with_admin()
async def test_the_progress_of_all_groups_is_joined_over_brokers(admin: Admin, cluster: ScriptedCluster) -> None:
    row = '{"brokerOffset":9,"consumerOffset":4}'
    one = f'{{"consumeStatsList":[{{"g":[{{"offsetTable":{{{KEY}:{row}}}}}]}},{{"empty":[]}}],"totalDiff":5}}'
    two = one.replace('"a"', '"b"')
    answers = {"a:1": one, "b:1": two, "s:2": '{"consumeStatsList":[]}', "z:1": "{}"}
    cluster.answers[Code.GET_BROKER_CONSUME_STATS] = lambda address, _: body(answers[address].encode())
    found = await admin.all_progress()
    assert {
        group: {str(queue.broker_name): state.lag for queue, state in queues.items()} for group, queues in found.items()
    } == {
        "empty": {},
        "g": {"a": 5, "b": 5},
    }
    assert sorted(cluster.asked(Code.GET_BROKER_CONSUME_STATS)) == sorted(REACHED.values())
    assert set(cluster.fields(Code.GET_BROKER_CONSUME_STATS)[0].items()) == {("isOrder", "false")}


@with_admin()
async def test_waiting_timers_are_counted_by_topic_and_broker(admin: Admin, cluster: ScriptedCluster) -> None:
    counts = {"timingCount": {"t": {"count": 3, "timeStamp": 1}}, "dataVersion": {"counter": 1}}
    cluster.answers[Code.GET_TIMER_METRICS] = lambda address, _: (
        refused(ResponseCode.SYSTEM_ERROR) if address == "z:1" else tree(counts)
    )
    assert await admin.timers(cluster="c1") == {"t": {"a": 3, "b": 3, "s": 3}}
    assert await admin.timers(cluster="c2") == {}


@with_admin()
async def test_entries_of_a_queue(admin: Admin, cluster: ScriptedCluster) -> None:
    entries = {
        "minQueueIndex": 2,
        "maxQueueIndex": 5,
        "queueData": [{"physicOffset": 7, "physicSize": 8, "tagsCode": 9}],
    }
    cluster.answers[Code.QUERY_CONSUME_QUEUE] = lambda *_: tree(entries)
    found = await admin.queue_entries(QUEUE, 4, 1)
    assert (found.min_queue_index, found.max_queue_index) == (2, 5)
    assert [(entry.physic_offset, entry.physic_size, entry.tags_code) for entry in found.queue_data] == [(7, 8, 9)]
    assert cluster.asked(Code.QUERY_CONSUME_QUEUE) == ["a:1"]
    cluster.answers[Code.QUERY_CONSUME_QUEUE] = lambda *_: Command(0, remark="Index 9 is not exist")
    assert (await admin.queue_entries(QUEUE, 9)).queue_data == []


@with_admin()
async def test_a_producer_of_several_brokers_is_listed_once(admin: Admin, cluster: ScriptedCluster) -> None:
    def one(name: str) -> dict[str, object]:
        return {
            "clientId": name,
            "language": "JAVA",
            "lastUpdateTimestamp": 5,
            "remoteIP": "/1.2.3.4:5",
            "version": 477,
        }

    answers = {"a:1": {"p": [one("y"), one("x")]}, "b:1": {"p": [one("x")], "q": [one("z")]}}
    cluster.answers[Code.GET_ALL_PRODUCER_INFO] = lambda address, _: tree({"data": answers.get(address, {})})
    found = await admin.producers()
    assert {group: [member.client_id for member in members] for group, members in found.items()} == {
        "p": ["x", "y"],
        "q": ["z"],
    }
    assert (found["q"][0].remote_ip, found["q"][0].last_update_timestamp) == ("/1.2.3.4:5", 5)


@with_admin()
async def test_the_members_of_a_producer_group(admin: Admin, cluster: ScriptedCluster) -> None:
    connections = [{"clientId": "y", "clientAddr": "h:1"}, {"clientId": "x", "clientAddr": "h:2"}]
    cluster.answers[Code.GET_PRODUCER_CONNECTION_LIST] = lambda address, _: (
        tree({"connectionSet": connections}) if address == "b:1" else refused(ResponseCode.SYSTEM_ERROR)
    )
    assert [member.client_addr for member in await admin.producer_members("p")] == ["h:2", "h:1"]


@with_admin()
async def test_a_running_consumer_is_asked_through_the_broker_that_reaches_it(
    admin: Admin, cluster: ScriptedCluster
) -> None:
    held = '{"cachedMsgCount":3,"cachedMsgSizeInMiB":1,"commitOffset":4,"droped":false,"lastPullTimestamp":8}'
    info = (
        f'{{"properties":{{"PROP_CLIENT_VERSION":"v"}},"mqTable":{{{KEY}:{held}}},"mqPopTable":{{{KEY}:{{}}}},'
        '"statusTable":{"t":{"pullTPS":1.5,"consumeRT":2.5}},"jstack":"main"}'
    )
    cluster.answers[Code.GET_CONSUMER_RUNNING_INFO] = lambda address, _: (
        body(info.encode()) if address == "b:1" else refused(ResponseCode.SYSTEM_ERROR)
    )
    found = await admin.running_info("g", "c", stack=True)
    assert found is not None
    state = found.queues()[QUEUE]
    assert (state.cached_count, state.cached_mib, state.commit_offset, state.last_pull_timestamp) == (3, 1, 4, 8)
    assert found.popped_queues() == [QUEUE]
    assert (found.status_table["t"].pull_tps, found.status_table["t"].consume_rt, found.jstack) == (1.5, 2.5, "main")
    [asked, *_] = cluster.fields(Code.GET_CONSUMER_RUNNING_INFO)
    assert asked == {"consumerGroup": "g", "clientId": "c", "jstackEnable": "true"}
    cluster.answers[Code.GET_CONSUMER_RUNNING_INFO] = lambda *_: refused(ResponseCode.SYSTEM_ERROR)
    assert await admin.running_info("g", "c") is None


@with_admin()
async def test_held_requests_are_of_the_brokers_that_tell_them(admin: Admin, cluster: ScriptedCluster) -> None:
    one = {
        "kind": "pull",
        "topic": "t",
        "queueId": 1,
        "consumerGroup": "g",
        "clientAddr": "h:1",
        "since": 5,
        "until": 9,
    }
    cluster.answers[Code.LIST_HELD_REQUESTS] = lambda address, _: (
        tree({"held": [one], "total": 4, "isCut": True})
        if address == "a:1"
        else refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    )
    found = await admin.held("t", "g")
    assert list(found) == ["a"]
    [held] = found["a"].held
    assert (held.queue_id, held.client_addr, held.offset, held.until) == (1, "h:1", None, 9)
    assert (found["a"].total, found["a"].is_cut) == (4, True)
    assert cluster.fields(Code.LIST_HELD_REQUESTS)[0] == {"topic": "t", "consumerGroup": "g"}
