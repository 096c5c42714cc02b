from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.bodies.base import Body, DataVersion
from rocketmq_py.protocol.bodies.client import (
    ConnectionInfo,
    ConsumerData,
    ConsumerIdList,
    HeartbeatData,
    LockBatchRequest,
    SubscriptionData,
    describe_client,
)
from rocketmq_py.protocol.bodies.group import SubscriptionGroupTable
from rocketmq_py.protocol.bodies.route import ClusterInfo, TopicList, TopicRouteData
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig, TopicConfigTable
from rocketmq_py.wire import fastjson
from tests.golden import files
from tests.unit.protocol.defaults import defaults


def body(name: str, *, of_request: bool = False) -> bytes:
    frame = files.request(name) if of_request else files.response(name)
    return files.header_and_body(frame)[1]


def without(tree: Any, *names: str) -> Any:
    if isinstance(tree, dict):
        return {k: without(v, *names) for k, v in tree.items() if k not in names}
    return [without(v, *names) for v in tree] if isinstance(tree, list) else tree


GOLDEN: list[tuple[type[Body], bytes]] = [
    (HeartbeatData, body("heartbeat", of_request=True)),
    (RegisterBrokerBody, body("register_broker", of_request=True)),
    (TopicRouteData, body("route")),
    (TopicRouteData, body("route_old_client")),
    (ClusterInfo, body("cluster_info")),
    (TopicList, body("namesrv_topic_list")),
    (TopicConfig, body("topic_config")),
    (TopicConfigTable, body("topic_config_all")),
    (SubscriptionGroupTable, body("group_config_all")),
    (ConsumerIdList, body("consumer_list")),
    (LockBatchRequest, files.fact("body", name="LockBatchRequestBody")["json"].encode()),
    (TopicConfigTable, (files.STORE / "config" / "topics.json").read_bytes()),
    (SubscriptionGroupTable, (files.STORE / "config" / "subscriptionGroup.json").read_bytes()),
]


@pytest.mark.parametrize(("cls", "data"), GOLDEN, ids=lambda value: getattr(value, "__name__", ""))
def test_a_java_body_is_decoded_and_encoded_unchanged(cls: type[Body], data: bytes) -> None:
    assert json.loads(cls.decode(data).encode()) == fastjson.loads(data)


@pytest.mark.parametrize(("cls", "data"), GOLDEN, ids=lambda value: getattr(value, "__name__", ""))
def test_null_members_get_defaults(cls: type[Body], data: bytes) -> None:
    tree = fastjson.loads(data)
    padded = fastjson.dumps({**tree, "somethingNew": {"x": 1}, "somethingNull": None})
    assert cls.decode(padded) == cls.decode(data)


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b'{"clientID":"c","producerDataSet":{}}', b"\xff"])
def test_a_malformed_heartbeat_is_refused(data: bytes) -> None:
    with pytest.raises(BadHeader, match="HeartbeatData"):
        HeartbeatData.decode(data)


def test_subscriptions_equal_those_of_a_java_consumer() -> None:
    heartbeat = HeartbeatData.decode(body("heartbeat", of_request=True))
    [consumer] = heartbeat.consumer_data_set
    for theirs in consumer.subscription_data_set:
        ours = SubscriptionData.parse(theirs.topic, theirs.sub_string, theirs.sub_version)
        assert ours == theirs


@pytest.mark.parametrize(("expression", "tags"), [
    ("*", []), ("", []), (None, []), ("  ", []), ("A", ["A"]), ("A || B", ["A", "B"]), (" A||  B ||", ["A", "B"]),
])  # fmt: skip
def test_tag_expressions_are_parsed(expression: str | None, tags: list[str]) -> None:
    data = SubscriptionData.parse("t", expression, 7)
    assert (data.tags_set, data.sub_version, data.expression_type) == (tags, 7, "TAG")
    assert data.code_set == [ord(tag) for tag in tags]


def test_an_expression_without_a_tag_is_refused() -> None:
    with pytest.raises(BadHeader, match="names no tag"):
        SubscriptionData.parse("t", "|| ||", 7)


def test_an_sql_expression_has_no_tags() -> None:
    data = SubscriptionData.parse("t", "a > 5", 7, "SQL92")
    assert (data.sub_string, data.tags_set) == ("a > 5", [])


def test_a_data_version_is_incremented() -> None:
    assert DataVersion(counter=4, timestamp=1).bump(99) == DataVersion(counter=5, timestamp=99)


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (SubscriptionData, {"subVersion": 0, "classFilterMode": False}),
        (ConsumerData, {"unitMode": False}),
        (HeartbeatData, {"heartbeatFingerprint": 0, "withoutSub": False}),
        (LockBatchRequest, {"onlyThisBroker": False}),
        (ConnectionInfo, {"version": 0}),
    ],
)
def test_numbers_and_flags_that_are_missing(cls: type[msgspec.Struct], expected: dict[str, float]) -> None:
    assert defaults(cls) == expected


@pytest.mark.parametrize(
    ("heartbeat", "said"),
    [
        (b'{"clientID":"10.0.0.1@4711","broken":', "client '10.0.0.1@4711' (JAVA)"),
        (b"{consumerDataSet:[],clientID : '\xc3\xa4@1'", "client '\u00e4@1' (JAVA)"),
        (b'{"clientID":"' + b"x" * 256 + b'"}', f"client '{'x' * 256}' (JAVA)"),
        (b'{"clientID":"' + b"x" * 257 + b'"}', "client of unknown id (JAVA)"),
        (b" " * (64 * 1024 - 14) + b'"clientID":"c"', "client 'c' (JAVA)"),
        (b" " * (64 * 1024 - 13) + b'"clientID":"c"', "client of unknown id (JAVA)"),
        (b"", "client of unknown id (JAVA)"),
    ],
)
def test_a_client_is_described_whose_heartbeat_cannot_be_read(heartbeat: bytes, said: str) -> None:
    assert describe_client(heartbeat, "JAVA") == said
