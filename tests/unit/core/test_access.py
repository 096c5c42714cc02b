"""Permissions: which resources they cover, which of several decides, and what requests need."""

import json

import pytest

from rocketmq_py.core.access import Acl, Action, Entry, Need, Resource, User, group, refusal, topic
from rocketmq_py.core.needs import needs
from rocketmq_py.errors import BadHeader, ConfigError
from rocketmq_py.protocol.codes import RequestCode as Code

WHO = User(name="anna", password="s3cret")


def entry(resource, actions, allow=True, ips=()):
    return Entry(Resource.parse(resource), tuple(Action(action) for action in actions), allow, tuple(ips))


def acl(*entries, default=()):
    return Acl({one.resource: one for one in entries}, {one.resource: one for one in default})


def may(rules, resource, action, ip="10.0.0.1"):
    return refusal(WHO, rules, [Need(Resource.parse(resource), (Action(action),))], ip) is None


@pytest.mark.parametrize("text", ["*", "Topic:*", "Topic:orders", "Group:shop-*", "Cluster:DefaultCluster"])
def test_resources_are_read_and_written(text):
    assert str(Resource.parse(text)) == text


@pytest.mark.parametrize("text", ["", "orders", "Topic:", "Queue:a", "Any:a"])
def test_what_is_no_resource_is_refused(text):
    with pytest.raises(ConfigError, match="is no resource"):
        Resource.parse(text)


def test_patterns_cover_what_they_say():
    rules = acl(entry("Topic:orders", ["Pub"]), entry("Group:shop-*", ["Sub"]), entry("Cluster:*", ["All"]))
    assert may(rules, "Topic:orders", "Pub")
    assert not may(rules, "Topic:orders", "Sub")
    assert not may(rules, "Topic:orders2", "Pub")
    assert may(rules, "Group:shop-a", "Sub")
    assert not may(rules, "Group:sho", "Sub")
    assert may(rules, "Cluster:any", "Delete")


def test_the_closest_permission_decides():
    rules = acl(
        entry("*", ["All"]), entry("Topic:*", ["All"], allow=False), entry("Topic:a*", ["Pub"]),
        entry("Topic:ab*", ["Pub"], allow=False), entry("Topic:abc", ["Pub"]),
    )  # fmt: skip
    assert may(rules, "Group:g", "Sub")
    assert not may(rules, "Topic:b", "Pub")
    assert may(rules, "Topic:a", "Pub")
    assert not may(rules, "Topic:abd", "Pub")
    assert may(rules, "Topic:abc", "Pub")


def test_defaults_hold_where_nothing_else_does():
    rules = acl(entry("Topic:a", ["Pub"], allow=False), default=[entry("*", ["All"])])
    assert may(rules, "Topic:b", "Pub")
    assert not may(rules, "Topic:a", "Pub")


def test_permissions_may_be_bound_to_addresses():
    rules = acl(entry("Topic:a", ["Pub"], ips=["10.0.0.0/24", "::1"]))
    assert may(rules, "Topic:a", "Pub", "10.0.0.77")
    assert may(rules, "Topic:a", "Pub", "::1")
    assert not may(rules, "Topic:a", "Pub", "10.0.1.1")
    with pytest.raises(ConfigError, match="source ip is invalid"):
        entry("Topic:a", ["Pub"], ips=["10.0.0.300"])


def test_a_refusal_names_what_is_missing():
    why = refusal(WHO, None, [Need(topic("orders"), (Action.PUB,))], "10.0.0.1")
    assert (
        why == "User:anna has no permission to access Topic:orders from 10.0.0.1 (Pub is needed), no matched policies."
    )
    denied = acl(entry("Topic:orders", ["All"], allow=False))
    assert "the decision is deny." in refusal(WHO, denied, [Need(topic("orders"), (Action.PUB,))], "10.0.0.1")


def test_super_users_may_do_everything():
    assert (
        refusal(User(name="root", password="p", is_super=True), None, [Need(topic("t"), (Action.PUB,))], "::1") is None
    )


def test_every_need_has_to_be_met():
    rules = acl(entry("Topic:t", ["Sub"]))
    both = [Need(topic("t"), (Action.SUB,)), Need(group("g"), (Action.SUB,))]
    assert "Group:g" in refusal(WHO, rules, both, "::1")


def test_passwords_are_not_shown():
    assert "s3cret" not in repr(WHO)


def wanted(code, ext=None, body=b""):
    return [
        f"{'|'.join(action.value for action in need.actions)} {need.resource}"
        for need in needs(code, ext or {}, body, "c")
    ]


def test_what_requests_need():
    assert wanted(Code.SEND_MESSAGE_V2, {"a": "g", "b": "t"}) == ["Pub Topic:t"]
    assert wanted(Code.SEND_MESSAGE, {"producerGroup": "g", "topic": "%RETRY%r"}) == ["Sub Group:r"]
    assert wanted(Code.PULL_MESSAGE, {"consumerGroup": "g", "topic": "t"}) == ["Sub Topic:t", "Sub Group:g"]
    assert wanted(Code.PULL_MESSAGE, {"consumerGroup": "g", "topic": "%RETRY%g"}) == ["Sub Group:g"]
    assert wanted(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "t"}) == ["Pub|Sub|Get Topic:t"]
    assert wanted(Code.CONSUMER_SEND_MSG_BACK, {"group": "g"}) == ["Sub Group:g"]
    assert wanted(Code.UNREGISTER_CLIENT, {"producerGroup": "p"}) == []
    assert wanted(Code.UPDATE_AND_CREATE_TOPIC, {"topic": "t"}) == ["Create Topic:t"]
    assert wanted(Code.GET_BROKER_CONFIG) == ["Get Cluster:c"]
    assert wanted(Code.UPDATE_BROKER_CONFIG) == ["Update Cluster:c"]
    assert wanted(Code.AUTH_CREATE_USER, {"username": "u"}) == ["Update Cluster:c"]
    assert wanted(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["List Topic:*"]
    assert wanted(99_999) == ["Update Cluster:c"]


def test_what_requests_need_is_also_said_by_bodies():
    beat = {"clientID": "c", "consumerDataSet": [
        {"groupName": "g", "subscriptionDataSet": [{"topic": "t"}, {"topic": "%RETRY%g"}]}]}  # fmt: skip
    assert wanted(Code.HEART_BEAT, body=json.dumps(beat).encode()) == ["Sub Group:g", "Sub Topic:t"]
    lock = {"consumerGroup": "g", "mqSet": [{"topic": "t", "brokerName": "b", "queueId": n} for n in range(2)]}
    assert wanted(Code.LOCK_BATCH_MQ, body=json.dumps(lock).encode()) == ["Sub Group:g", "Sub Topic:t"]
    created = json.dumps({"groupName": "g"}).encode()
    assert wanted(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=created) == ["Create Group:g"]
    topics = json.dumps({"topicConfigList": [{"topicName": "a"}, {"topicName": "b"}]}).encode()
    assert wanted(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=topics) == ["Create Topic:a", "Create Topic:b"]


@pytest.mark.parametrize("code", [
    Code.HEART_BEAT, Code.CHECK_CLIENT_CONFIG, Code.LOCK_BATCH_MQ, Code.QUERY_ASSIGNMENT, Code.BATCH_ACK_MESSAGE,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.UPDATE_AND_CREATE_TOPIC_LIST,
])  # fmt: skip
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b"\xff\xfe", b'{"topicConfigList": 5, "groupName": {}}'])
def test_bodies_nobody_understands_are_never_let_through_in_silence(code, body):
    """They need something, or are refused: that is what the server makes of BadHeader."""
    try:
        found = needs(code, {}, body, "c")
    except BadHeader:
        return
    assert found or code == Code.BATCH_ACK_MESSAGE, found
