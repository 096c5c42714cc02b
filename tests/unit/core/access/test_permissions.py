"""Permissions: covered resources, precedence, and what requests require."""

import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from rocketmq_py.core.access.permissions import (
    Acl,
    AclEntry,
    Action,
    RequiredPermission,
    Resource,
    User,
    denial_reason,
    group,
    topic,
)
from rocketmq_py.core.access.required_permissions import _BY_FIELDS as BY_FIELDS, _SENDS as SENDS, required_permissions
from rocketmq_py.errors import BadHeader, ConfigError
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.requests import REQUEST_HEADERS

WHO = User(name="anna", password="s3cret")


def entry(resource, actions, allow=True, ips=()):
    return AclEntry(Resource.parse(resource), tuple(Action(action) for action in actions), allow, tuple(ips))


def acl(*entries, default=()):
    return Acl({one.resource: one for one in entries}, {one.resource: one for one in default})


def may(rules, resource, action, ip="10.0.0.1"):
    return denial_reason(WHO, rules, [RequiredPermission(Resource.parse(resource), (Action(action),))], ip) is None


@pytest.mark.parametrize("text", ["*", "Topic:*", "Topic:orders", "Group:shop-*", "Cluster:DefaultCluster"])
def test_resource_names_are_parsed_and_formatted(text):
    assert str(Resource.parse(text)) == text


@pytest.mark.parametrize("text", ["", "orders", "Topic:", "Queue:a", "Any:a"])
def test_an_invalid_resource_is_refused(text):
    with pytest.raises(ConfigError, match="is not a resource"):
        Resource.parse(text)


def test_patterns_match_exact_names_prefixes_and_everything():
    rules = acl(entry("Topic:orders", ["Pub"]), entry("Group:shop-*", ["Sub"]), entry("Cluster:*", ["All"]))
    assert may(rules, "Topic:orders", "Pub")
    assert not may(rules, "Topic:orders", "Sub")
    assert not may(rules, "Topic:orders2", "Pub")
    assert may(rules, "Group:shop-a", "Sub")
    assert not may(rules, "Group:sho", "Sub")
    assert may(rules, "Cluster:any", "Delete")


def test_the_most_specific_permission_decides():
    rules = acl(
        entry("*", ["All"]), entry("Topic:*", ["All"], allow=False), entry("Topic:a*", ["Pub"]),
        entry("Topic:ab*", ["Pub"], allow=False), entry("Topic:abc", ["Pub"]),
    )  # fmt: skip
    assert may(rules, "Group:g", "Sub")
    assert not may(rules, "Topic:b", "Pub")
    assert may(rules, "Topic:a", "Pub")
    assert not may(rules, "Topic:abd", "Pub")
    assert may(rules, "Topic:abc", "Pub")


def test_default_permissions_apply_when_no_other_matches():
    rules = acl(entry("Topic:a", ["Pub"], allow=False), default=[entry("*", ["All"])])
    assert may(rules, "Topic:b", "Pub")
    assert not may(rules, "Topic:a", "Pub")


def test_permissions_can_be_limited_to_addresses():
    rules = acl(entry("Topic:a", ["Pub"], ips=["10.0.0.0/24", "::1"]))
    assert may(rules, "Topic:a", "Pub", "10.0.0.77")
    assert may(rules, "Topic:a", "Pub", "::1")
    assert not may(rules, "Topic:a", "Pub", "10.0.1.1")
    with pytest.raises(ConfigError, match="source ip is invalid"):
        entry("Topic:a", ["Pub"], ips=["10.0.0.300"])


def test_a_denial_names_the_missing_permission():
    why = denial_reason(WHO, None, [RequiredPermission(topic("orders"), (Action.PUB,))], "10.0.0.1")
    assert (
        why == "User:anna has no permission to access Topic:orders from 10.0.0.1 (Pub is needed), no matched policies."
    )
    denied = acl(entry("Topic:orders", ["All"], allow=False))
    assert "the decision is deny." in denial_reason(
        WHO, denied, [RequiredPermission(topic("orders"), (Action.PUB,))], "10.0.0.1"
    )


def test_super_users_may_do_everything():
    assert (
        denial_reason(
            User(name="root", password="p", is_super=True), None, [RequiredPermission(topic("t"), (Action.PUB,))], "::1"
        )
        is None
    )


def test_every_required_permission_must_be_granted():
    rules = acl(entry("Topic:t", ["Sub"]))
    both = [RequiredPermission(topic("t"), (Action.SUB,)), RequiredPermission(group("g"), (Action.SUB,))]
    assert "Group:g" in denial_reason(WHO, rules, both, "::1")


def test_passwords_are_not_shown():
    assert "s3cret" not in repr(WHO)


def wanted(code, ext=None, body=b""):
    return [
        f"{'|'.join(action.value for action in need.actions)} {need.resource}"
        for need in required_permissions(code, ext or {}, body, "c")
    ]


def test_requests_require_permissions():
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


def test_request_bodies_name_required_permissions():
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
def test_requests_with_undecodable_bodies_are_refused(code, body):
    """They need something, or are refused: that is what the server makes of BadHeader."""
    try:
        found = required_permissions(code, {}, body, "c")
    except BadHeader:
        return
    assert found or code == Code.BATCH_ACK_MESSAGE, found


def test_permissions_are_checked_for_the_names_that_handlers_use():
    """The field a permission is computed from is one the request's header has, with the same spelling."""
    letters = {"a": "g", "b": "hidden", "topic": "open", "producerGroup": "g"}
    assert wanted(Code.SEND_MESSAGE_V2, letters) == ["Pub Topic:hidden"]
    assert wanted(Code.SEND_BATCH_MESSAGE, letters) == ["Pub Topic:hidden"]
    assert wanted(Code.SEND_MESSAGE, letters) == ["Pub Topic:open"]
    fields = {code: (*topics, *groups) for code, (_, topics, groups) in BY_FIELDS.items()}
    for code, names in (fields | {code: names[:1] for code, names in SENDS.items()}).items():
        known = {field.encode_name: field for field in msgspec.structs.fields(REQUEST_HEADERS[code])}
        assert set(names) <= set(known), Code(code).name
        assert all(known[name].type in (str, str | None) for name in names), Code(code).name


def test_every_topic_of_a_list_is_checked():
    listed = {"consumerGroup": "g", "topicList": "t;;u"}
    assert wanted(Code.GET_CONSUME_STATS, listed) == ["Get Topic:t", "Get Topic:u", "Get Group:g"]
    assert wanted(Code.GET_CONSUME_STATS, {"consumerGroup": "g", "topicList": ""}) == ["Get Group:g"]


def test_an_empty_required_name_is_checked():
    assert wanted(Code.PULL_MESSAGE, {"consumerGroup": "", "topic": ""}) == ["Sub Topic:", "Sub Group:"]
    assert wanted(Code.DELETE_TOPIC_IN_BROKER, {"topic": ""}) == ["Delete Topic:"]
    assert wanted(Code.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": ""}) == []
    assert (
        denial_reason(WHO, None, required_permissions(Code.DELETE_TOPIC_IN_BROKER, {"topic": ""}, b"", "c"), "::1")
        is not None
    )


@pytest.mark.parametrize("code", [Code.HEART_BEAT, Code.LOCK_BATCH_MQ, Code.UPDATE_AND_CREATE_TOPIC_LIST])
@pytest.mark.parametrize("depth", [400, 600, 900, 50_000])
def test_a_deeply_nested_body_is_refused(code, depth):
    body = b'{"clientID":"c","x":' + b"[" * depth + b"]" * depth + b"}"
    try:
        assert required_permissions(code, {}, body, "c") == (
            [RequiredPermission(group(""), (Action.SUB,))] if code == Code.LOCK_BATCH_MQ else []
        )
    except BadHeader as e:
        assert "nested too deeply" in str(e)  # noqa: PT017 - either will do, depending on the interpreter


class Unscanned(dict):
    """A table that must not be walked through."""

    def values(self):
        raise AssertionError

    __iter__ = items = values


def test_thousands_of_permissions_are_checked_by_lookups():
    entries = [entry(f"Topic:t-{n}", ["Pub"]) for n in range(10_000)] + [entry("Topic:shop-*", ["Sub"])]
    rules = Acl(Unscanned({one.resource: one for one in entries}))
    assert may(rules, "Topic:t-9999", "Pub")
    assert may(rules, "Topic:shop-orders", "Sub")
    assert not may(rules, "Topic:other", "Sub")


@given(
    st.lists(st.tuples(st.sampled_from(["Topic", "Group"]), st.text("ab", max_size=4), st.booleans(), st.booleans())),
    st.text("ab", min_size=1, max_size=5),
    st.booleans(),
)
def test_lookups_decide_like_a_scan_of_all_entries(drawn, name, any_resource):
    entries = {}
    for kind, text, prefix, allow in drawn:
        resource = f"{kind}:{text}*" if prefix or not text else f"{kind}:{text}"
        entries[Resource.parse(resource)] = entry(resource, ["Pub"], allow)
    if any_resource:
        entries[Resource.parse("*")] = entry("*", ["Pub"])
    padding = {(one := entry(f"Cluster:{n}", ["Get"])).resource: one for n in range(100)}
    assert may(Acl({**entries}), f"Topic:{name}", "Pub") == may(Acl({**entries, **padding}), f"Topic:{name}", "Pub")


def test_a_network_may_be_given_by_any_of_its_addresses():
    rules = acl(entry("Topic:a", ["Pub"], ips=["10.0.0.9/24"]))
    assert may(rules, "Topic:a", "Pub", "10.0.0.77")
    assert not may(rules, "Topic:a", "Pub", "10.0.1.9")


@pytest.mark.parametrize("ip", ["", "unknown", "10.0.0.300", "/tmp/socket"])
def test_a_client_without_an_address_is_in_no_network(ip):
    assert not may(acl(entry("Topic:a", ["Pub"], ips=["0.0.0.0/0", "::/0"])), "Topic:a", "Pub", ip)
    assert may(acl(entry("Topic:a", ["Pub"])), "Topic:a", "Pub", ip)


def test_a_permission_without_actions_is_refused():
    with pytest.raises(ConfigError, match=r"The actions is empty\."):
        entry("Topic:a", [])


@pytest.mark.parametrize("policy", ["Custom", "custom", "CUSTOM", "Default", "default"])
def test_a_policy_type_is_found_in_any_case(policy):
    rules = acl(entry("Topic:a", ["Pub"]), default=[entry("Topic:b", ["Sub"])])
    assert rules.table(policy) is (rules.custom if policy.lower() == "custom" else rules.default)


def test_an_unknown_policy_type_is_refused():
    with pytest.raises(ConfigError, match="'other' is not a policy type: Custom or Default is expected"):
        acl().table("other")


@pytest.mark.parametrize(
    ("pattern", "single", "covered"),
    [("*", "Topic:a", True), ("Topic:*", "Topic:a", True), ("Topic:*", "Group:a", False), ("Topic:a*", "Topic:a", True),
     ("Topic:a*", "Group:a", False), ("Topic:a", "Topic:a", True), ("Topic:a", "Topic:ab", False),
     ("Topic:a", "Group:a", False), ("Topic:a", "Topic:*", False), ("topic:a", "TOPIC:a", True)],
)  # fmt: skip
def test_a_pattern_covers_resources_of_its_kind(pattern, single, covered):
    assert Resource.parse(pattern).covers(Resource.parse(single)) is covered


def test_specific_resources_come_first():
    ranked = ["Topic:abc", "Topic:ab", "Topic:ab*", "Topic:a*", "Topic:*", "*"]
    assert sorted(map(Resource.parse, reversed(ranked)), key=lambda one: one.rank) == [*map(Resource.parse, ranked)]


def test_denying_wins_among_equal_resources():
    needed = RequiredPermission(topic("a"), (Action.PUB,))
    allow, deny = entry("Topic:a", ["Pub"]), entry("Topic:a", ["Pub"], allow=False)
    tables = Acl({Resource.parse("Topic:a"): allow, Resource.parse("Topic:x"): deny})
    assert "the decision is deny." in denial_reason(WHO, tables, [needed], "::1")


@pytest.mark.parametrize(("name", "resource"), [("t", "Topic:t"), ("%RETRY%g", "Group:g"), ("%DLQ%g", "Topic:%DLQ%g")])
def test_a_retry_topic_belongs_to_its_group(name, resource):
    assert str(topic(name)) == resource


@pytest.mark.parametrize("name", ["g", "%RETRY%g", "%DLQ%g"])
def test_a_group_is_named_by_its_topics_too(name):
    assert str(group(name)) == "Group:g"


def test_users_are_enabled_and_ordinary_unless_said():
    assert (WHO.is_super, WHO.enabled) == (False, True)
    assert repr(WHO) == "User('anna', is_super=False, enabled=True)"
