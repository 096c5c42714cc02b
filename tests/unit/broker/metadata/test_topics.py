"""Topics and groups are created, changed, deleted and listed; and their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.topics import TopicConfigs, initial_topics
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.group import (
    GroupList,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from rocketmq_py.protocol.bodies.route import TopicList
from rocketmq_py.protocol.bodies.topic import TopicConfig, TopicConfigList
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.admin import QueryConsumeTimeSpan
from rocketmq_py.protocol.headers.group import DeleteGroup, GetConsumeStats, GroupAndTopic, GroupForbidden, GroupName
from rocketmq_py.protocol.headers.offset import CloneGroupOffset, ResetOffset
from rocketmq_py.protocol.headers.pop import Notification, PeekMessage
from rocketmq_py.protocol.headers.topic import CreateTopic, TopicName
from rocketmq_py.store.config.config_journal import JournaledFile
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_record
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import heartbeat, pop, pull, send
from tests.unit.store.memoryfs import MemoryFileSystem


def ask(client: Client, code: Code, header: Any = None, body: bytes = b"") -> Command:
    return client.ask_task(code, header, body)


def create(topic: str = "t", queues: int = 3, attributes: str | None = None, **more: Any) -> CreateTopic:
    wanted: dict[str, Any] = {"perm": 6, "topic_filter_type": "SINGLE_TAG", "topic_sys_flag": 0, "order": False}
    return CreateTopic(
        topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, attributes=attributes,
        **wanted | more,
    )  # fmt: skip


# -- topics


def test_a_topic_is_created_and_changed(running: InProcess, client: Client) -> None:
    assert ask(client, Code.UPDATE_AND_CREATE_TOPIC, create()).code == 0
    version = running.services.topics.version.counter
    assert ask(client, Code.UPDATE_AND_CREATE_TOPIC, create()).code == 0
    assert running.services.topics.version.counter == version
    assert ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(queues=5, perm=4, order=True)).code == 0
    assert running.services.topics.version.counter == version + 1
    found = TopicConfig.decode(client.ask(Code.GET_TOPIC_CONFIG, TopicName(topic="t")).body)
    assert (found.read_queue_nums, found.perm, found.order) == (5, 4, True)


def test_several_topics_are_created_at_once(running: InProcess, client: Client) -> None:
    topics = TopicConfigList(topic_config_list=[TopicConfig(topic_name="t"), TopicConfig(topic_name="u")])
    assert ask(client, Code.UPDATE_AND_CREATE_TOPIC_LIST, body=topics.encode()).code == 0
    assert {"t", "u"} <= running.services.topics.table.keys()


@pytest.mark.parametrize("topic", ["no topic!", "", "TBW102", "rmq_sys_mine", "DefaultCluster", "broker-a"])
def test_illegal_topic_names_are_refused(client: Client, topic: str) -> None:
    assert ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(topic)).code == 29


@pytest.mark.parametrize(
    ("change", "attributes"),
    [
        ("+message.type=FIFO", {"message.type": "FIFO"}),
        ("+message.type=DELAY,+reserve.time=10", {"message.type": "DELAY", "reserve.time": "10"}),
        ("+queue.type=SimpleCQ", {"queue.type": "SimpleCQ"}),
        ("", {}),
    ],
)
def test_topic_attributes_are_kept(running: InProcess, client: Client, change: str, attributes: dict[str, str]) -> None:
    assert ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(attributes=change)).code == 0
    assert running.services.topics.table["t"].attributes == attributes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("+cleanup.policy=COMPACTION", "is not supported by this broker"),
        ("+message.type=MIXED", "MIXED message type is not supported."),
        ("+message.type=NONE", "not in set: [UNSPECIFIED, MIXED, TRANSACTION, PRIORITY, FIFO, DELAY, LITE, NORMAL]"),
        ("+color=red", "unsupported key: color"),
        ("message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        ("message.type", "delete attribute format is wrong: message.type"),
        ("-message.type", "only add attribute is supported while creating topic. key: message.type"),
        ("+message.type=FIFO,+message.type=DELAY", "key duplication: +message.type"),
        ("+message.type=LITE", "message.type=LITE is not supported by this broker; supported: UNSPECIFIED, MIXED"),
        ("+reserve.time=-2", "value is not in range(-1, 9223372036854775807)"),
        ("+=x", "kv string format wrong."),
    ],
)
def test_invalid_attributes_are_refused(running: InProcess, client: Client, change: str, words: str) -> None:
    answer = ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(attributes=change))
    assert answer.code
    assert words in (answer.remark or "")
    assert running.services.topics.get("t") is None


def test_an_immutable_attribute_cannot_change(client: Client) -> None:
    ask(client, Code.UPDATE_AND_CREATE_TOPIC, create())
    answer = ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(attributes="+queue.type=SimpleCQ"))
    assert answer.remark == "attempt to update an unchangeable attribute. key: queue.type"


def test_an_attribute_is_removed(running: InProcess, client: Client) -> None:
    ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(attributes="+message.type=FIFO"))
    assert ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(attributes="-message.type")).code == 0
    assert running.services.topics.table["t"].attributes == {}
    answer = ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(attributes="-message.type"))
    assert (answer.code, answer.remark) == (1, "attempt to delete a nonexistent key: message.type")


def test_a_deleted_topic_leaves_nothing(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    running.services.offsets.commit("g", "t", 0, 1, "c")
    assert ask(client, Code.DELETE_TOPIC_IN_BROKER, TopicName(topic="t")).code == 0
    assert client.ask(Code.GET_TOPIC_CONFIG, TopicName(topic="t")).code == 17
    assert client.ask(Code.PULL_MESSAGE, pull()).code == 17
    assert running.services.store.queue_range("t", 0) == (0, 0)
    assert running.services.offsets.table == {}
    client.ask(Code.SEND_MESSAGE_V2, send(), b"again")
    assert running.services.store.queue_range("t", 0) == (0, 1)


def test_a_missing_topic_is_not_deleted(running: InProcess) -> None:
    topics = running.services.topics
    before = topics.version
    assert not topics.delete("t")
    assert topics.version == before


@pytest.mark.parametrize("topic", [" ", "TBW102"])
def test_system_topics_cannot_be_deleted(client: Client, topic: str) -> None:
    assert ask(client, Code.DELETE_TOPIC_IN_BROKER, TopicName(topic=topic)).code == 29


def test_the_offsets_of_a_topic_are_returned(running: InProcess, client: Client) -> None:
    assert client.ask(Code.GET_TOPIC_STATS_INFO, TopicName(topic="t")).code == 17
    client.ask(Code.SEND_MESSAGE_V2, send(queue_id=1), b"body")
    table = fastjson.loads(client.ask(Code.GET_TOPIC_STATS_INFO, TopicName(topic="t")).body)["offsetTable"]
    assert len(table) == 4
    key = fastjson.object_key({"brokerName": "broker-a", "queueId": 1, "topic": "t"})
    assert table[key] == {"lastUpdateTimestamp": running.now, "maxOffset": 1, "minOffset": 0}


def test_system_topics_are_listed(client: Client) -> None:
    found = TopicList.decode(client.ask(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body).topic_list
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster"} <= set(found)


def test_the_first_start_creates_system_topics(tmp_path: Path) -> None:
    with broker(tmp_path, broker_cluster_name="c", broker_name="b", trace_topic_enable=True) as running:
        topics = {topic.topic_name: (topic.write_queue_nums, topic.perm) for topic in initial_topics(running.config)}
    assert topics == {
        "SELF_TEST_TOPIC": (1, 6), "TBW102": (8, 7), "BenchmarkTest": (1024, 6), "c": (16, 7), "b": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6), "SCHEDULE_TOPIC_XXXX": (18, 6), "c_REPLY_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_c": (8, 6), "rmq_sys_SYNC_BROKER_MEMBER_b": (1, 1), "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6), "rmq_sys_wheel_timer": (1, 6), "RMQ_SYS_TRACE_TOPIC": (1, 6),
    }  # fmt: skip


def test_topics_survive_a_restart_in_the_layout_of_java(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        ask(running.connect(), Code.UPDATE_AND_CREATE_TOPIC, create())
        version = running.services.topics.version
    text = (tmp_path / "config" / "topics.json").read_text()
    assert json.loads(text)["topicConfigTable"]["t"] == {
        "attributes": {}, "order": False, "perm": 6, "readQueueNums": 3, "topicFilterType": "SINGLE_TAG",
        "topicName": "t", "topicSysFlag": 0, "writeQueueNums": 3,
    }  # fmt: skip
    assert '"t":{\n\t\t\t"attributes":{},\n\t\t\t"order":false,\n\t\t\t"perm":6,' in text
    with broker(tmp_path) as running:
        assert running.services.topics.version == version
        assert running.services.topics.table["t"].write_queue_nums == 3


def test_a_batch_stays_one_record_where_the_topic_has_batch_queues(tmp_path: Path) -> None:
    body = encode_batch([(0, b"a", b""), (0, b"b", b"")])
    batch = send(batch=True, properties={"UNIQ_KEY": "B"})
    with broker(tmp_path) as running:
        client = running.connect()
        assert not ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(attributes="+queue.type=BatchCQ")).code
        answer = client.ask(Code.SEND_MESSAGE_V2, batch, body)
        assert (answer.code, answer.ext["queueOffset"], answer.ext["batchUniqId"]) == (0, "0", "B")
        answer = client.ask(Code.SEND_MESSAGE_V2, send(), b"c")
        assert (answer.code, answer.ext["queueOffset"]) == (0, "2")
        assert "batchUniqId" not in answer.ext
        assert client.ask(Code.SEND_MESSAGE_V2, batch, b"no batch").code == ResponseCode.MESSAGE_ILLEGAL
    with broker(tmp_path) as running:
        store = running.services.store
        assert store.queue_range("t", 0) == (0, 3)
        assert [entry[1] > 0 for entry in store.queue_entries("t", 0, 0, 9)] == [True, True]
        found = decode_record(store.record_at_queue("t", 0, 1) or b"")
        assert dict(found.properties) == {
            "UNIQ_KEY": "B", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster",
            "INNER_NUM": "2", "INNER_BASE": "0",
        }  # fmt: skip
        assert found.body == body
        answer = running.connect().ask(Code.SEND_MESSAGE_V2, send(batch=True), body)
        assert (answer.code, answer.ext["queueOffset"]) == (0, "3")
        assert "batchUniqId" not in answer.ext
        assert len(store.queue_entries("t", 0, 0, 9)) == 4, "without a key it becomes a record for each message"


def test_order_topics_named_by_the_name_server(running: InProcess) -> None:
    topics = running.services.topics
    topics.put([TopicConfig(topic_name="t"), TopicConfig(topic_name="u", order=True)])
    topics.set_order_topics(["t", "nowhere"])
    assert topics.is_order("t")
    assert topics.is_order("u")


# -- groups


def test_a_group_is_created_changed_and_deleted(running: InProcess, client: Client) -> None:
    body = SubscriptionGroupConfig(group_name="g", retry_max_times=3).encode()
    assert client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == 0
    found = client.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, GroupName(group="g"))
    assert SubscriptionGroupConfig.decode(found.body).retry_max_times == 3
    running.services.offsets.commit("g", "t", 0, 1, "c")
    assert client.ask(Code.DELETE_SUBSCRIPTIONGROUP, DeleteGroup(group_name="g")).code == 0
    assert running.services.groups.get("g") is None
    assert running.services.offsets.query("g", "t", 0) == 1
    client.ask(Code.DELETE_SUBSCRIPTIONGROUP, DeleteGroup(group_name="g", clean_offset=True))
    assert running.services.offsets.query("g", "t", 0) == -1


def test_several_groups_are_created_at_once(running: InProcess, client: Client) -> None:
    groups = [SubscriptionGroupConfig(group_name=name) for name in ("g", "h")]
    body = SubscriptionGroupList(group_config_list=groups).encode()
    assert client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body).code == 0
    assert {"g", "h"} <= running.services.groups.table.keys()


def test_a_group_with_an_illegal_name_is_refused(client: Client) -> None:
    body = SubscriptionGroupConfig(group_name="no group!").encode()
    answer = client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert (answer.code, "illegal characters" in (answer.remark or "")) == (29, True)


def test_groups_survive_a_restart(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        running.services.groups.put([SubscriptionGroupConfig(group_name="g", retry_queue_nums=2)])
        running.services.groups.set_read_forbidden("g", "t", True)
    with broker(tmp_path) as running:
        groups = running.services.groups
        assert groups.table["g"].retry_queue_nums == 2
        assert groups.is_read_forbidden("g", "t")
        assert not groups.is_read_forbidden("g", "u")
        assert len(groups.table) == 9
        groups.delete("g")
        assert groups.forbidden == {}
        assert not groups.delete("g")


def test_groups_are_not_created_when_that_is_switched_off(tmp_path: Path) -> None:
    with broker(tmp_path, auto_create_subscription_group=False) as running:
        groups = running.services.groups
        assert groups.find("g") is None
        assert groups.find("CID_RMQ_SYS_new") is not None
        assert running.connect().ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, GroupName(group="g")).code == 26


def test_an_illegal_name_creates_no_group(running: InProcess) -> None:
    assert running.services.groups.find("no group!") is None


def test_progress_of_a_group_is_returned(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    client.ask(Code.PULL_MESSAGE, pull())
    running.services.offsets.commit("g", "t", 0, 1, "c")
    key = fastjson.object_key({"brokerName": "broker-a", "queueId": 0, "topic": "t"})
    wanted = {"brokerOffset": 2, "consumerOffset": 1, "lastTimestamp": running.now, "pullOffset": 2}
    for header in (
        GetConsumeStats(consumer_group="g"), GetConsumeStats(consumer_group="g", topic="t"),
        GetConsumeStats(consumer_group="g", topic_list="t;gone"),
    ):  # fmt: skip
        table = fastjson.loads(client.ask(Code.GET_CONSUME_STATS, header).body)["offsetTable"]
        assert table[key] == wanted
        assert len(table) == 4


def test_groups_of_a_topic_and_topics_of_a_group_are_listed(running: InProcess, client: Client) -> None:
    client.ask(Code.HEART_BEAT, body=heartbeat("one", "online", t="*"))
    running.services.offsets.commit("offline", "t", 0, 1, "c")
    answer = client.ask(Code.QUERY_TOPIC_CONSUME_BY_WHO, TopicName(topic="t"))
    assert GroupList.decode(answer.body).group_list == ["offline", "online"]
    answer = client.ask(Code.QUERY_TOPICS_BY_CONSUMER, GroupName(group="offline"))
    assert TopicList.decode(answer.body).topic_list == ["t"]


def test_offsets_of_one_group_are_copied_to_another(running: InProcess, client: Client) -> None:
    running.services.topics.put([TopicConfig(topic_name="t"), TopicConfig(topic_name="u")])
    for topic in ("t", "u", "gone"):
        running.services.offsets.commit("old", topic, 0, 5, "c")
    client.ask(Code.CLONE_GROUP_OFFSET, CloneGroupOffset(src_group="old", dest_group="one", topic="t"))
    client.ask(Code.CLONE_GROUP_OFFSET, CloneGroupOffset(src_group="old", dest_group="all"))
    assert running.services.offsets.topics_of("one") == ["t"]
    assert running.services.offsets.topics_of("all") == ["t", "u"]


def test_a_group_can_be_forbidden_to_read_a_topic(client: Client) -> None:
    def readable(wanted: bool | None) -> bool:
        header = GroupForbidden(group="g", topic="t", readable=wanted)
        return bool(fastjson.loads(client.ask(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, header).body)["readable"])

    assert [readable(None), readable(False), readable(None), readable(True)] == [True, False, False, True]


def test_the_subscription_of_a_group_is_returned(client: Client) -> None:
    client.ask(Code.HEART_BEAT, body=heartbeat("one", t="A || B"))
    for topic, tags in (("t", ["A", "B"]), ("u", None)):
        answer = client.ask(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, GroupAndTopic(group="g", topic=topic))
        found = fastjson.loads(answer.body).get("subscriptionData")
        assert (found and found["tagsSet"]) == tags


# -- how many queues there may be


NUMBERS = [({"read_queue_nums": 2**31 - 1}, "readQueueNums of topic t is 2147483647: 0 to 8192 is expected"),
           ({"write_queue_nums": 8_193}, "writeQueueNums of topic t is 8193: 0 to 8192 is expected"),
           ({"read_queue_nums": -1}, "readQueueNums of topic t is -1: 0 to 8192 is expected"),
           ({"perm": 8}, "perm of topic t is 8: 0 to 7 is expected"),
           ({"perm": -1}, "perm of topic t is -1: 0 to 7 is expected")]  # fmt: skip


@pytest.mark.parametrize(("numbers", "said"), NUMBERS)
def test_topics_with_illegal_numbers_are_refused(
    running: InProcess, client: Client, numbers: dict[str, int], said: str
) -> None:
    header = create()
    for name, number in numbers.items():
        setattr(header, name, number)
    answer = ask(client, Code.UPDATE_AND_CREATE_TOPIC, header)
    assert (answer.code, answer.remark) == (29, said)
    body = TopicConfigList(topic_config_list=[TopicConfig(topic_name="ok"), TopicConfig(topic_name="t", **numbers)])
    answer = ask(client, Code.UPDATE_AND_CREATE_TOPIC_LIST, body=body.encode())
    assert (answer.code, answer.remark) == (29, said)
    assert not {"t", "ok"} & running.services.topics.table.keys()


def test_a_topic_may_have_as_many_queues_as_the_limit_or_none(client: Client) -> None:
    assert ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(queues=8_192)).code == 0
    assert ask(client, Code.UPDATE_AND_CREATE_TOPIC, create(queues=0)).code == 0


@pytest.mark.parametrize("number", [2**31 - 1, -1])
def test_groups_with_too_many_retry_queues_are_refused(running: InProcess, client: Client, number: int) -> None:
    group = SubscriptionGroupConfig(group_name="many", retry_queue_nums=number)
    answer = client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())
    said = f"retryQueueNums of group many is {number}: 0 to 8192 is expected"
    assert (answer.code, answer.remark) == (29, said)
    body = SubscriptionGroupList(group_config_list=[group]).encode()
    assert client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body).code == 29
    assert "many" not in running.services.groups.table


def test_a_send_creates_no_more_queues_than_the_default_topic_has(running: InProcess, client: Client) -> None:
    assert client.ask(Code.SEND_MESSAGE_V2, send("new", default_topic_queue_nums=2**31 - 1), b"x").code == 0
    assert running.services.topics.table["new"].write_queue_nums == 8


@pytest.mark.parametrize(("key", "value"), [("defaultTopicQueueNums", 8_193), ("defaultTopicQueueNums", -1),
                                            ("reviveQueueNum", 2**31 - 1), ("reviveQueueNum", 0)])  # fmt: skip
def test_settings_give_topics_no_more_queues_either(key: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{key} is {value}: . to 8192 is expected"):
        BrokerConfig.from_properties({key: str(value)})


def test_files_with_too_many_queues_are_loaded_within_the_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with broker(tmp_path) as running:
        running.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=2**31 - 1, write_queue_nums=-5)])
        running.services.groups.put([SubscriptionGroupConfig(group_name="g", retry_queue_nums=2**31 - 1)])
    with broker(tmp_path) as running:
        topic = running.services.topics.table["t"]
        assert (topic.read_queue_nums, topic.write_queue_nums) == (8_192, 0)
        assert running.services.groups.table["g"].retry_queue_nums == 8_192
        client = running.connect()
        client.ask(Code.HEART_BEAT, body=heartbeat(t="*"))
        for code, header in QUEUE_BY_QUEUE:
            assert client.call(code, header) is not None
    assert "its file says that readQueueNums of topic t is 2147483647: 0 to 8192 is expected" in caplog.text
    assert "its file says that retryQueueNums of group g is 2147483647" in caplog.text


QUEUE_BY_QUEUE: list[tuple[Code, Any]] = [
    (Code.GET_TOPIC_STATS_INFO, TopicName(topic="t")),
    (Code.GET_CONSUME_STATS, GetConsumeStats(consumer_group="g", topic="t")),
    (Code.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpan(group="g", topic="t")),
    (Code.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffset(group="g", topic="t", timestamp=-1, is_force=True)),
    (Code.POP_MESSAGE, pop()),
    (Code.PEEK_MESSAGE, PeekMessage(consumer_group="g", topic="t", queue_id=-1, max_msg_nums=1)),
    (Code.NOTIFICATION, Notification(consumer_group="g", topic="t", queue_id=-1, poll_time=0)),
]
"""Requests that look at every queue of a topic."""


def test_a_slave_takes_over_no_more_queues_than_there_may_be(
    running: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    table = {"t": TopicConfig(topic_name="t", read_queue_nums=2**31 - 1)}
    running.services.topics.take_over(DataVersion(counter=99), table)
    assert running.services.topics.table["t"].read_queue_nums == 8_192
    groups = {"g": SubscriptionGroupConfig(group_name="g", retry_queue_nums=2**31 - 1)}
    told = SubscriptionGroupTable(subscription_group_table=groups, data_version=DataVersion(counter=99))
    running.services.groups.take_over(told)
    assert running.services.groups.table["g"].retry_queue_nums == 8_192
    assert "the master says that readQueueNums of topic t is 2147483647" in caplog.text


def test_a_repeated_topic_is_counted_once(running: InProcess, client: Client) -> None:
    ask(client, Code.UPDATE_AND_CREATE_TOPIC, create())
    looked_at: list[int] = []
    original = running.services.store.queue_range

    def counting(topic: str, queue_id: int) -> tuple[int, int]:
        looked_at.append(queue_id)
        return original(topic, queue_id)

    running.services.store.queue_range = counting  # type: ignore[method-assign]
    header = GetConsumeStats(consumer_group="g", topic_list=";".join(["t"] * 1_000))
    assert client.ask(Code.GET_CONSUME_STATS, header).code == 0
    assert looked_at == [0, 1, 2]


def test_the_file_of_topics_is_read_once_at_a_start() -> None:
    fs = MemoryFileSystem()
    path = Path("/config/topics.json")
    fs.write(path, b'{"topicConfigTable":{"a":{"topicName":"a"}},"dataVersion":{"counter":7}}')
    read, reading = [], fs.read
    fs.read = lambda one: (read.append(one), reading(one))[1]  # type: ignore[method-assign,func-returns-value]
    topics = TopicConfigs(JournaledFile(path, fs), BrokerConfig(), lambda: 0)
    topics.read_file()
    topics.load()
    assert topics.get("a") is not None
    assert read.count(path) == 1
