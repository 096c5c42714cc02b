"""Statistics for tools: counters, consume time spans, progress of groups, entries of queues."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rocketmq_py.broker.stats import Stats, next_morning
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.admin import (
    BrokerConsumeStats,
    QueryConsumeQueue,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    ViewBrokerStats,
)
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.group import DeleteGroup
from rocketmq_py.protocol.headers.offset import UpdateConsumerOffset
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.wire import fastjson
from tests.unit.broker.harness import START_MS, Client, InProcess
from tests.unit.broker.requests import heartbeat, pull, send

MORNING = next_morning(START_MS)


def tree(client: Client, code: Code, header: Header | None = None) -> Any:
    answer = client.ask(code, header)
    assert answer.code == 0, answer.remark
    return fastjson.loads(answer.body)


def stat(client: Client, name: str, key: str) -> tuple[int, int, int] | str | None:
    """The sums of the windows, or the remark of a refusal."""
    answer = client.ask(Code.VIEW_BROKER_STATS_DATA, ViewBrokerStats(stats_name=name, stats_key=key))
    if answer.code:
        assert answer.code == 1
        return answer.remark
    found = fastjson.loads(answer.body)
    return found["statsMinute"]["sum"], found["statsHour"]["sum"], found["statsDay"]["sum"]


def queue(topic: str, queue_id: int) -> str:
    return fastjson.object_key({"brokerName": "broker-a", "queueId": queue_id, "topic": topic})


def traffic(running: InProcess, client: Client) -> None:
    """Three messages in queue 0, one in queue 1; a group pulls the three and commits two."""
    running.turn()
    for queue_id in (0, 0, 0, 1):
        client.ask(Code.SEND_MESSAGE_V2, send(queue_id=queue_id), b"body")
        running.turn(1_000)
    client.ask(Code.PULL_MESSAGE, pull())
    header = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=2)
    client.ask(Code.UPDATE_CONSUMER_OFFSET, header)
    running.turn(10_000)


def test_sent_and_received_messages_are_counted(running: InProcess, client: Client) -> None:
    traffic(running, client)
    size = running.services.store.queue_entries("t", 0, 0, 1)[0][1]
    for name, key, wanted in (
        ("TOPIC_PUT_NUMS", "t", 4), ("TOPIC_PUT_SIZE", "t", 4 * size),
        ("GROUP_GET_NUMS", "t@g", 3), ("GROUP_GET_SIZE", "t@g", 3 * size),
        ("BROKER_PUT_NUMS", "DefaultCluster", 4), ("BROKER_GET_NUMS", "DefaultCluster", 3),
        ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster", 4),
        ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster", 3),
    ):  # fmt: skip
        assert stat(client, name, key) == (wanted, 0, 0), name
    running.turn(600_000)
    assert stat(client, "TOPIC_PUT_NUMS", "t") == (0, 4, 0)


@pytest.mark.parametrize(("name", "key"), [("TOPIC_PUT_NUMS", "no-topic"), ("NO_STATS", "t")])
def test_an_unused_counter_does_not_exist(client: Client, name: str, key: str) -> None:
    assert stat(client, name, key) == f"The stats <{name}> <{key}> not exist"


def test_messages_sent_back_are_counted(running: InProcess, client: Client) -> None:
    sent = client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    offset = int(sent.ext["msgId"][16:], 16)
    for level in (0, -1):
        client.ask(Code.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBack(offset=offset, group="g", delay_level=level))
    running.turn(10_000)
    assert stat(client, "SNDBCK_PUT_NUMS", "t@g") == (2, 0, 0)
    assert stat(client, "SNDBCK2DLQ_TIMES", "t@g") == (1, 0, 0)


def test_deleted_topics_and_groups_lose_their_counters(running: InProcess, client: Client) -> None:
    traffic(running, client)
    client.ask(Code.DELETE_SUBSCRIPTIONGROUP, DeleteGroup(group_name="g"))
    assert stat(client, "GROUP_GET_NUMS", "t@g") == "The stats <GROUP_GET_NUMS> <t@g> not exist"
    assert stat(client, "TOPIC_PUT_NUMS", "t") == (4, 0, 0)
    client.ask_task(Code.DELETE_TOPIC_IN_BROKER, TopicName(topic="t"))
    assert stat(client, "TOPIC_PUT_NUMS", "t") == "The stats <TOPIC_PUT_NUMS> <t> not exist"
    assert stat(client, "BROKER_PUT_NUMS", "DefaultCluster") == (4, 0, 0)


def test_daily_totals_are_taken_at_midnight() -> None:
    stats = Stats(MORNING - 3_600_000, "c", lambda topic: topic == "system")
    stats.pulled("g", "t", 5, 100)
    stats.pulled("g", "system", 7, 100)
    stats.tick(MORNING - 1_000)
    assert (stats.got_day.yesterday_morning, stats.got_day.today_morning, stats.got_day.now) == (0, 0, 5)
    stats.tick(MORNING)
    stats.pulled("g", "t", 1, 100)
    assert (stats.got_day.yesterday_morning, stats.got_day.today_morning, stats.got_day.now) == (0, 5, 6)
    stats.tick(next_morning(MORNING))
    assert (stats.got_day.yesterday_morning, stats.got_day.today_morning, stats.got_day.now) == (5, 6, 6)


def test_consume_time_spans_are_returned(running: InProcess, client: Client) -> None:
    traffic(running, client)
    spans = tree(client, Code.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpan(topic="t", group="g"))
    first, second, third, _ = spans["consumeTimeSpanSet"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d#\d\d:\d\d:\d\d:000", first.pop("minTimeStampStr"))
    assert first.pop("maxTimeStampStr") > first.pop("consumeTimeStampStr")
    assert first == {
        "consumeTimeStamp": START_MS + 1_000, "delayTime": 12_000, "maxTimeStamp": START_MS + 2_000,
        "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "t"}, "minTimeStamp": START_MS,
    }  # fmt: skip
    assert (second["consumeTimeStamp"], second["minTimeStamp"]) == (START_MS + 3_000, START_MS + 3_000)
    assert (third["minTimeStamp"], third["maxTimeStamp"]) == (-1, -1)
    answer = client.ask(Code.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpan(topic="no", group="g"))
    assert (answer.code, answer.remark) == (17, "topic[no] not exist")


def test_progress_of_all_groups_is_returned(running: InProcess, client: Client) -> None:
    traffic(running, client)
    found = tree(client, Code.GET_BROKER_CONSUME_STATS, BrokerConsumeStats(is_order=False))
    assert (found["brokerAddr"], found["totalDiff"], found["totalInflightDiff"]) == ("127.0.0.1:10911", 2, -2)
    [stats] = next(table["g"] for table in found["consumeStatsList"] if "g" in table)
    assert stats["consumeTps"] == 3 / 10
    assert stats["offsetTable"][queue("t", 0)] == {
        "brokerOffset": 3, "consumerOffset": 2, "lastTimestamp": START_MS + 1_000, "pullOffset": 0,
    }  # fmt: skip
    found = tree(client, Code.GET_BROKER_CONSUME_STATS, BrokerConsumeStats(is_order=True))
    assert found["totalDiff"] == 0


def test_an_unsubscribed_topic_does_not_count(running: InProcess, client: Client) -> None:
    traffic(running, client)
    client.ask(Code.HEART_BEAT, body=heartbeat(group="g", other="*"))
    found = tree(client, Code.GET_BROKER_CONSUME_STATS, BrokerConsumeStats(is_order=False))
    assert next(table["g"] for table in found["consumeStatsList"] if "g" in table) == []


def test_entries_of_a_queue_are_returned(running: InProcess, client: Client) -> None:
    traffic(running, client)
    header = QueryConsumeQueue(topic="t", queue_id=0, index=1, count=5)
    found = tree(client, Code.QUERY_CONSUME_QUEUE, header)
    entries = running.services.store.queue_entries("t", 0, 1, 5)
    assert found == {
        "maxQueueIndex": 3, "minQueueIndex": 0,
        "queueData": [
            {"eval": False, "physicOffset": at, "physicSize": size, "tagsCode": 0} for at, size, _ in entries
        ],
    }  # fmt: skip


def test_entries_are_filtered_by_the_subscription_of_a_group(running: InProcess, client: Client) -> None:
    traffic(running, client)
    header = QueryConsumeQueue(topic="t", queue_id=0, index=0, count=1, consumer_group="g")
    assert tree(client, Code.QUERY_CONSUME_QUEUE, header)["filterData"] == "g@t is not online!"
    client.ask(Code.HEART_BEAT, body=heartbeat(group="g", t="a || b"))
    found = tree(client, Code.QUERY_CONSUME_QUEUE, header)
    assert (found["filterData"], found["subscriptionData"]["tagsSet"]) == ("null", ["a", "b"])


def test_missing_entries_are_refused(running: InProcess, client: Client) -> None:
    traffic(running, client)
    answer = client.ask(Code.QUERY_CONSUME_QUEUE, QueryConsumeQueue(topic="t", queue_id=7, index=0, count=1))
    assert (answer.code, answer.remark) == (1, "7@t is not exist!")
    answer = client.ask(Code.QUERY_CONSUME_QUEUE, QueryConsumeQueue(topic="t", queue_id=0, index=3, count=1))
    assert (answer.code, answer.remark, answer.body) == (0, "Index 3 of 0@t is not exist!", b"")


def test_offset_corrections_are_the_smallest_offsets(running: InProcess, client: Client) -> None:
    for group, offset in (("g1", 5), ("g2", 3), ("g3", 1)):
        running.services.offsets.commit(group, "t", 0, offset, "c")
    running.services.offsets.commit("g1", "t", 1, 9, "c")

    def corrections(compare: str, filtered: str | None = None) -> dict[str, int]:
        header = QueryCorrectionOffset(topic="t", compare_group=compare, filter_groups=filtered)
        found: dict[str, int] = tree(client, Code.QUERY_CORRECTION_OFFSET, header)["correctionOffsets"]
        return found

    assert corrections("nobody") == {"0": 1, "1": 9}
    assert corrections("nobody", "g3,other") == {"0": 3, "1": 9}
    assert corrections("g3", "g3") == {"0": 2**63 - 1, "1": 9}
    assert running.services.offsets.query("g3", "t", 0) == 1


def test_all_producers_are_listed(running: InProcess, client: Client) -> None:
    other = running.connect()
    client.ask(Code.HEART_BEAT, body=heartbeat("c1", group=None, producer="p1"))
    other.ask(Code.HEART_BEAT, body=heartbeat("c2", group=None, producer="p1"))
    found = tree(client, Code.GET_ALL_PRODUCER_INFO)["data"]
    assert found.keys() == {"p1"}
    assert [member["clientId"] for member in found["p1"]] == ["c1", "c2"]
    assert found["p1"][0]["remoteIP"] == f"/{client.peer.address}"
    assert found["p1"][0]["lastUpdateTimestamp"] == START_MS


def test_queues_of_deleted_topics_are_removed(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    client.ask(Code.SEND_MESSAGE_V2, send("other"), b"body")
    running.services.topics.delete("other")
    assert client.ask(Code.CLEAN_UNUSED_TOPIC).code == 0
    assert running.services.store.queues() == [("t", 0)]


def test_replication_info_of_a_master_without_slaves_is_empty(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    found = tree(client, Code.GET_BROKER_HA_STATUS)
    assert (found["master"], found["haConnectionInfo"], found["inSyncSlaveNums"]) == (True, [], 0)
    assert found["masterCommitLogMaxOffset"] == running.services.store.max_physical_offset
