"""Requests about users and permissions: changes go to all brokers, questions to one master."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketmq_py.aio import Admin
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.access import UserInfo
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.unit.client.admin.scripted_cluster import ScriptedCluster, body, with_admin

EVERYWHERE = ["a:1", "a:2", "b:1", "s:2", "z:1"]


def sent(cluster: ScriptedCluster, code: Code, where: list[str] = EVERYWHERE) -> dict[str, Any]:
    """The body that the same request brought to all these addresses, without members that are not set."""
    assert sorted(cluster.asked(code)) == where
    [one] = set(cluster.bodies(code))
    return {} if not one else json.loads(one)


@with_admin()
async def test_users_are_asked_of_one_master(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.answers[Code.AUTH_LIST_USER] = lambda *_: body(b'[{"username":"u","userType":"Super"}]')
    [user] = await admin.users()
    assert (user.username, user.user_type) == ("u", "Super")
    await admin.users("u", cluster="c2")
    assert cluster.asked(Code.AUTH_LIST_USER) == ["a:1", "z:1"]
    assert cluster.fields(Code.AUTH_LIST_USER) == [{"filter": ""}, {"filter": "u"}]
    cluster.answers[Code.AUTH_LIST_USER] = lambda *_: body(b"")
    assert await admin.users() == []


@with_admin()
async def test_a_user_that_is_not_there_is_none(admin: Admin, cluster: ScriptedCluster) -> None:
    assert await admin.user("u") is None
    cluster.answers[Code.AUTH_GET_USER] = lambda *_: body(UserInfo(username="u", user_status="enable"))
    found = await admin.user("u", cluster="c2")
    assert found == UserInfo(username="u", user_status="enable")
    assert cluster.asked(Code.AUTH_GET_USER) == ["a:1", "z:1"]
    assert cluster.fields(Code.AUTH_GET_USER) == [{"username": "u"}] * 2


@pytest.mark.parametrize(
    ("options", "kind"), [({}, "Normal"), ({"is_super": True}, "Super"), ({"is_super": False}, "Normal")]
)
@with_admin()
async def test_a_user_is_added_to_every_broker(
    admin: Admin, cluster: ScriptedCluster, options: dict[str, bool], kind: str
) -> None:
    await admin.create_user("u", "p", **options)
    assert sent(cluster, Code.AUTH_CREATE_USER) == {"username": "u", "password": "p", "userType": kind}
    assert cluster.fields(Code.AUTH_CREATE_USER)[0] == {"username": "u"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"password": "p"}, {"password": "p"}),
        ({"is_super": True}, {"userType": "Super"}),
        ({"is_super": False}, {"userType": "Normal"}),
        ({"enabled": True}, {"userStatus": "enable"}),
        ({"enabled": False}, {"userStatus": "disable"}),
    ],
)
@with_admin()
async def test_a_user_is_changed_on_every_broker(
    admin: Admin, cluster: ScriptedCluster, options: dict[str, Any], expected: dict[str, str]
) -> None:
    await admin.update_user("u", **options)
    assert sent(cluster, Code.AUTH_UPDATE_USER) == {"username": "u"} | expected
    assert cluster.fields(Code.AUTH_UPDATE_USER)[0] == {"username": "u"}
    with pytest.raises(ConfigError, match="no change given for user 'u'"):
        await admin.update_user("u")


@with_admin()
async def test_changes_go_to_the_brokers_of_one_cluster_if_asked(admin: Admin, cluster: ScriptedCluster) -> None:
    c1 = ["a:1", "a:2", "b:1", "s:2"]
    await admin.create_user("u", "p", cluster="c1")
    await admin.update_user("u", password="q", cluster="c1")
    await admin.delete_user("u", cluster="c1")
    await admin.set_acl("u", ["*"], ["All"], cluster="c1")
    await admin.delete_acl("u", cluster="c1")
    for code in (
        Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER, Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL,
    ):  # fmt: skip
        assert sorted(cluster.asked(code)) == c1, code.name


@with_admin()
async def test_a_user_is_deleted_from_every_broker(admin: Admin, cluster: ScriptedCluster) -> None:
    await admin.delete_user("u")
    assert sent(cluster, Code.AUTH_DELETE_USER) == {}
    assert cluster.fields(Code.AUTH_DELETE_USER) == [{"username": "u"}] * 5


@with_admin()
async def test_permissions_are_asked_of_one_master(admin: Admin, cluster: ScriptedCluster) -> None:
    acl = {"subject": "User:u", "policies": [{"policyType": "Custom", "entries": [{"resource": "Topic:t"}]}]}
    cluster.answers[Code.AUTH_LIST_ACL] = lambda *_: body(json.dumps([acl]).encode())
    [found] = await admin.acls()
    assert (found.subject, found.policies[0].entries[0].resource) == ("User:u", "Topic:t")
    await admin.acls("u", "Topic", cluster="c2")
    assert cluster.asked(Code.AUTH_LIST_ACL) == ["a:1", "z:1"]
    assert cluster.fields(Code.AUTH_LIST_ACL) == [
        {"subjectFilter": "", "resourceFilter": ""}, {"subjectFilter": "u", "resourceFilter": "Topic"},
    ]  # fmt: skip
    assert await admin.acl("u") is None
    cluster.answers[Code.AUTH_GET_ACL] = lambda *_: body(json.dumps(acl).encode())
    assert (await admin.acl("u", cluster="c2")) == found
    assert cluster.asked(Code.AUTH_GET_ACL) == ["a:1", "z:1"]
    assert cluster.fields(Code.AUTH_GET_ACL) == [{"subject": "User:u"}] * 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"decision": "Allow"}),
        ({"allow": False}, {"decision": "Deny"}),
        ({"source_ips": ["10.0.0.0/8"]}, {"decision": "Allow", "sourceIps": ["10.0.0.0/8"]}),
    ],
)
@with_admin()
async def test_permissions_are_set_on_every_broker(
    admin: Admin, cluster: ScriptedCluster, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    await admin.set_acl("u", ["Topic:t", "Group:g*"], [" pub", "SUB"], **options)
    entries = [{"resource": r, "actions": ["Pub", "Sub"]} | expected for r in ("Topic:t", "Group:g*")]
    assert sent(cluster, Code.AUTH_UPDATE_ACL) == {
        "subject": "User:u", "policies": [{"policyType": "Custom", "entries": entries}],
    }  # fmt: skip
    assert cluster.fields(Code.AUTH_UPDATE_ACL)[0] == {"subject": "User:u"}


@pytest.mark.parametrize(
    ("resources", "actions", "fault"),
    [
        ([], ["Pub"], "needs a resource and an action"),
        (["*"], [], "needs a resource and an action"),
        (["*"], ["Fly"], "'Fly' is not an action; use one of .*Pub, Sub"),
        (["Nothing:t"], ["Pub"], "Nothing:t"),
    ],
)
@with_admin()
async def test_illegal_permissions_are_refused(
    admin: Admin, cluster: ScriptedCluster, resources: list[str], actions: list[str], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        await admin.set_acl("u", resources, actions)
    assert cluster.network.requests == []


@pytest.mark.parametrize(
    ("resource", "more"), [(None, {}), ("Topic:t", {"policyType": "Custom", "resource": "Topic:t"})]
)
@with_admin()
async def test_permissions_are_deleted_from_every_broker(
    admin: Admin, cluster: ScriptedCluster, resource: str | None, more: dict[str, str]
) -> None:
    await admin.delete_acl("u", resource)
    assert sent(cluster, Code.AUTH_DELETE_ACL) == {}
    assert cluster.fields(Code.AUTH_DELETE_ACL) == [{"subject": "User:u"} | more] * 5
