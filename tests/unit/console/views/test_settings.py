"""Settings of brokers as rows; users and permissions."""

from __future__ import annotations

import pytest

from rocketmq_py.console.views import settings as view
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo, UserInfo


def test_a_setting_has_a_row_for_each_of_its_values() -> None:
    configs = {"b/0": {"port": "1", "same": "x"}, "a/0": {"same": "x", "port": "2"}, "c/0": {"same": "x", "port": "1"}}
    assert view.rows(configs) == [
        {"key": "port", "value": "2", "brokers": ["a/0"], "differs": True},
        {"key": "port", "value": "1", "brokers": ["b/0", "c/0"], "differs": True},
        {"key": "same", "value": "x", "brokers": ["a/0", "b/0", "c/0"], "differs": False},
    ]


def test_a_setting_that_a_broker_does_not_have_differs_and_is_unknown_there() -> None:
    assert view.rows({"a/0": {"k": "1"}, "b/0": {}}) == [
        {"key": "k", "value": "1", "brokers": ["a/0"], "differs": True},
        {"key": "k", "value": None, "brokers": ["b/0"], "differs": True},
    ]


@pytest.mark.parametrize(
    "key",
    ["aclSecretKey", "tls.server.keyPassword", "passwd", "innerClientAuthenticationCredentials", "authToken",
     "accessKey", "metricsGrpcExporterHeader", "initAuthenticationUser"],
)  # fmt: skip
def test_secrets_are_hidden_and_empty_ones_are_seen_to_be_empty(key: str) -> None:
    assert view.rows({"a/0": {key: "hush"}})[0]["value"] == "******"
    assert view.rows({"a/0": {key: ""}})[0]["value"] == ""
    first, second = view.rows({"a/0": {key: "hush"}, "b/0": {key: "other"}})
    assert (first["value"], second["value"], first["differs"]) == ("******", "******", True)


def test_users_are_listed_without_their_passwords() -> None:
    users = [
        UserInfo(username="zoe", password="hush", user_type="Normal", user_status="enable"),
        UserInfo(username="amy", user_type="Super"),
    ]
    assert view.user_rows(users) == [
        {"user": "amy", "type": "Super", "status": None}, {"user": "zoe", "type": "Normal", "status": "enable"}
    ]  # fmt: skip


def test_each_permission_is_a_row() -> None:
    entries = [
        EntryInfo(resource="Topic:t", actions=["Pub", "Sub"], source_ips=["10.0.0.1"], decision="Allow"),
        EntryInfo(resource="Group:*", decision="Deny"),
    ]
    acls = [
        AclInfo(subject="User:zoe"),
        AclInfo(subject="User:bob", policies=[PolicyInfo(policy_type="Custom", entries=entries)]),
    ]
    common = {"subject": "User:bob", "policy": "Custom"}
    assert view.rule_rows(acls) == [
        common | {"resource": "Topic:t", "actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.1"], "decision": "Allow"},
        common | {"resource": "Group:*", "actions": [], "sourceIps": [], "decision": "Deny"},
    ]
