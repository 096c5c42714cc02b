"""Requests that no sub-command of mqadmin makes, or whose answers it shows in part only.

There are the topic ``orders`` with 15 messages, the group ``readers`` with one member that has consumed them, and the
group ``clones`` that has the same offsets.
"""

from __future__ import annotations

import re
from typing import Any

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command
from tests.server.rawpeer import RawPeer

Raw = tuple[int, str | None, Any]
"""Code, the remark of a refusal, and the body without what differs from run to run."""

EARLIEST = {"timestamp": "0", "isForce": "true"}
TOPIC, GROUP, OTHER = "orders", "readers", "clones"

REQUESTS: tuple[tuple[Code, dict[str, str], bytes], ...] = (
    (Code.QUERY_CONSUME_TIME_SPAN, {"topic": TOPIC, "group": GROUP}, b""),
    (Code.QUERY_CONSUME_TIME_SPAN, {"topic": TOPIC, "group": "nobody"}, b""),
    (Code.QUERY_CONSUME_TIME_SPAN, {"topic": "nothing", "group": GROUP}, b""),
    (Code.QUERY_CORRECTION_OFFSET, {"topic": TOPIC, "compareGroup": "nobody"}, b""),
    (Code.QUERY_CORRECTION_OFFSET, {"topic": TOPIC, "compareGroup": OTHER, "filterGroups": ""}, b""),
    (Code.VIEW_BROKER_STATS_DATA, {"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC}, b""),
    (Code.VIEW_BROKER_STATS_DATA, {"statsName": "TOPIC_PUT_SIZE", "statsKey": TOPIC}, b""),
    (Code.VIEW_BROKER_STATS_DATA, {"statsName": "GROUP_GET_NUMS", "statsKey": f"{TOPIC}@{GROUP}"}, b""),
    (Code.VIEW_BROKER_STATS_DATA, {"statsName": "GROUP_GET_SIZE", "statsKey": f"{TOPIC}@{GROUP}"}, b""),
    (Code.VIEW_BROKER_STATS_DATA, {"statsName": "BROKER_PUT_NUMS", "statsKey": "nothing"}, b""),
    (Code.VIEW_BROKER_STATS_DATA, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "nothing"}, b""),
    (Code.VIEW_BROKER_STATS_DATA, {"statsName": "NO_STATS", "statsKey": TOPIC}, b""),
    (Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": TOPIC, "group": GROUP}, b""),
    (Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": TOPIC, "group": GROUP, "clientAddr": "nobody"}, b""),
    (Code.QUERY_TOPICS_BY_CONSUMER, {"group": GROUP}, b""),
    (Code.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": TOPIC}, b""),
    (Code.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": GROUP, "topic": TOPIC}, b""),
    (Code.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": GROUP, "topic": "nothing"}, b""),
    (Code.UPDATE_AND_GET_GROUP_FORBIDDEN, {"group": OTHER, "topic": TOPIC, "readable": "false"}, b""),
    (Code.UPDATE_AND_GET_GROUP_FORBIDDEN, {"group": OTHER, "topic": TOPIC}, b""),
    (Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "nobody"}, b""),
    (Code.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "nobody"}, b""),
    (Code.GET_TOPIC_STATS_INFO, {"topic": TOPIC}, b""),
    (Code.GET_TOPIC_STATS_INFO, {"topic": "nothing"}, b""),
    (Code.GET_CONSUME_STATS, {"consumerGroup": GROUP}, b""),
    (Code.GET_CONSUME_STATS, {"consumerGroup": GROUP, "topicList": f"{TOPIC};nothing"}, b""),
    (Code.GET_CONSUME_STATS, {"consumerGroup": GROUP, "topic": "SELF_TEST_TOPIC"}, b""),
    (Code.GET_TOPIC_CONFIG, {"topic": TOPIC}, b""),
    (Code.GET_TOPIC_CONFIG, {"topic": "nothing"}, b""),
    (Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": GROUP}, b""),
    (Code.GET_BROKER_HA_STATUS, {}, b""),
    (Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, {}, b""),
    (
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        {"topic": "nothing", "group": GROUP, "timestamp": "0", "isForce": "true"},
        b"",
    ),
    (Code.INVOKE_BROKER_TO_RESET_OFFSET, {"topic": TOPIC, "group": "nobody", "timestamp": "0", "isForce": "true"}, b""),
    (Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, b'{"topicConfigList":[{"topicName":"no/topic"}]}'),
    (Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, b'{"topicConfigList":[{"topicName":"x1","attributes":{"a":"b"}}]}'),
    (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, b'{"groupConfigList":[{"groupName":"no/group"}]}'),
    (Code.UPDATE_BROKER_CONFIG, {}, b"brokerConfigPath=/x\n"),
    (Code.DELETE_TOPIC_IN_BROKER, {"topic": " "}, b""),
    (Code.DELETE_TOPIC_IN_BROKER, {"topic": "TBW102"}, b""),
    (Code.DELETE_TOPIC_IN_BROKER, {"topic": "nothing"}, b""),
    (Code.DELETE_TOPIC_IN_BROKER, {"topic": "broker.b"}, b""),
    (Code.DELETE_TOPIC_IN_BROKER, {"topic": "%RETRY%nothing|here"}, b""),
    (Code.UPDATE_AND_CREATE_TOPIC_LIST, {}, b'{"topicConfigList":[{"topicName":"../../no"}]}'),
    (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, b'{"groupConfigList":[{"groupName":".."}]}'),
)

MASKS = (
    (r"\d+\.\d+\.\d+\.\d+:\d+", "ADDRESS"),
    (r"\d+\.\d+\.\d+\.\d+@peer-[a-z]-\d+", "CLIENT"),
    (r'"(delayTime|tps|avgpt|consumeTps|topicPutTps|masterCommitLogMaxOffset)":-?[\d.E-]+', r'"\1":0'),
    (r"\b1\d{12}\b", "0"),
    (r"\d{4}-\d\d-\d\d#[\d:]+", "TIME"),
    (r'"RMQ_SYS_ROCKSDB_[A-Z_]+",?|"rocksdb-offset",?', ""),
)
UNORDERED = ("topicList", "groupList")


def ask(broker: str, number: int) -> Raw:
    """The answer to one of the requests."""
    code, ext, body = REQUESTS[number]
    with RawPeer(broker) as peer:
        return _normal(peer.ask(code, ext, body, language="JAVA"))


def committed(broker: str) -> dict[str, dict[str, int]]:
    """Offsets by ``topic@group`` and queue."""
    with RawPeer(broker) as peer:
        table: dict[str, dict[str, int]] = fastjson.loads(peer.ask(Code.GET_ALL_CONSUMER_OFFSET).body)["offsetTable"]
        return table


def _normal(answer: Command) -> Raw:
    text = fastjson.dumps(fastjson.loads(answer.body)).decode() if answer.body else ""
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text)
    tree = fastjson.loads(text.replace(",]", "]")) if text else None
    if isinstance(tree, dict):
        tree |= {name: sorted(tree[name]) for name in UNORDERED if name in tree}
    return answer.code, answer.remark if answer.code else None, tree
