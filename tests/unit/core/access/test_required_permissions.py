"""What requests require whose permissions come from their bodies, and those that come from the cluster."""

import json

import pytest

from rocketmq_py.core.access.required_permissions import required_permissions
from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.codes import RequestCode as Code


def wanted(code, ext=None, body=b""):
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [
        f"{'|'.join(action.value for action in need.actions)} {need.resource}"
        for need in required_permissions(code, ext or {}, encoded, "c")
    ]


@pytest.mark.parametrize(
    ("topic", "needs"),
    [("t", ["Sub Group:g", "Sub Topic:t"]), ("%RETRY%g", ["Sub Group:g"])],
)
def test_a_checked_subscription_is_of_a_group_and_a_topic(topic, needs):
    body = {"clientId": "i", "group": "g", "subscriptionData": {"topic": topic}}
    assert wanted(Code.CHECK_CLIENT_CONFIG, body=body) == needs


def test_a_heartbeat_of_several_groups_requires_all_of_them_with_their_topics():
    groups = [("g", ["t", "u"]), ("h", ["%RETRY%h"]), ("i", [])]
    body = {
        "clientID": "c",
        "consumerDataSet": [
            {"groupName": name, "subscriptionDataSet": [{"topic": topic} for topic in topics]}
            for name, topics in groups
        ],
    }
    assert wanted(Code.HEART_BEAT, body=body) == [
        "Sub Group:g", "Sub Topic:t", "Sub Topic:u", "Sub Group:h", "Sub Group:i",
    ]  # fmt: skip


@pytest.mark.parametrize("code", [Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ])
def test_locks_require_each_topic_once(code):
    queues = [("u", 0), ("t", 0), ("t", 1), ("%RETRY%g", 0)]
    body = {"consumerGroup": "g", "mqSet": [{"topic": t, "brokerName": "b", "queueId": n} for t, n in queues]}
    assert wanted(code, body=body) == ["Sub Group:g", "Sub Topic:t", "Sub Topic:u"]
    assert wanted(code, body={"mqSet": []}) == ["Sub Group:"]


def test_a_queried_assignment_is_of_a_group_and_a_topic():
    body = {"topic": "t", "consumerGroup": "g", "clientId": "i", "strategyName": "AVG", "messageModel": "CLUSTERING"}
    assert wanted(Code.QUERY_ASSIGNMENT, body=body) == ["Sub Group:g", "Sub Topic:t"]


def test_every_ack_of_a_batch_is_checked():
    acks = [
        {"c": group, "t": topic, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 0, "it": 0, "b": "AQ=="}
        for group, topic in (("g", "t"), ("h", "u"))
    ]
    assert wanted(Code.BATCH_ACK_MESSAGE, body={"brokerName": "b", "acks": acks}) == [
        "Sub Group:g", "Sub Topic:t", "Sub Group:h", "Sub Topic:u",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "several", "name", "kind"),
    [
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "groupConfigList", "groupName", "Group"),
        (Code.UPDATE_AND_CREATE_TOPIC_LIST, "topicConfigList", "topicName", "Topic"),
    ],
)
def test_every_member_of_a_list_is_created(code, several, name, kind):
    assert wanted(code, body={several: [{name: "a"}, {name: "b"}, {}]}) == [
        f"Create {kind}:a", f"Create {kind}:b", f"Create {kind}:",
    ]  # fmt: skip
    assert wanted(code, body={several: None}) == []
    assert wanted(code, body={}) == []
    assert wanted(code, body={several: {name: "one"}}) == [f"Create {kind}:one"]
    with pytest.raises(BadHeader, match=f"a member of {several} is str, no object"):
        required_permissions(code, {}, json.dumps({several: [{name: "a"}, "b"]}).encode(), "c")


@pytest.mark.parametrize(("body", "why"), [(b"{", "the body is not JSON"), (b"[]", "the body is list, no object")])
def test_a_body_that_is_no_object_is_refused(body, why):
    with pytest.raises(BadHeader, match=why):
        required_permissions(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body, "c")


def test_a_route_of_a_retry_topic_is_for_its_group():
    assert wanted(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "%RETRY%g"}) == ["Sub|Get Group:g"]
    assert wanted(Code.GET_ROUTEINFO_BY_TOPIC) == ["Pub|Sub|Get Topic:"]


def test_a_send_without_a_topic_is_checked_for_the_empty_name():
    assert wanted(Code.SEND_MESSAGE_V2, {"a": "g"}) == ["Pub Topic:"]
    assert wanted(Code.SEND_HALF_MESSAGES, {"b": "t"}) == ["Pub Topic:t"]


def test_everybody_may_look_up_the_brokers():
    assert wanted(Code.GET_BROKER_CLUSTER_INFO) == []


def test_a_topic_that_two_fields_name_is_checked_once():
    assert wanted(Code.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "g", "topic": "t"}) == [
        "Update Topic:t", "Update Group:g",
    ]  # fmt: skip
    assert wanted(Code.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "h", "topic": "t"}) == [
        "Update Topic:t", "Update Group:g", "Update Group:h",
    ]  # fmt: skip
