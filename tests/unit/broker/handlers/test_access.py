"""Requests about users and permissions: who may change what, and what is answered."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from rocketmq_py.broker.handlers.access import AccessHandlers
from rocketmq_py.core.access.permissions import User
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo, UserInfo
from rocketmq_py.protocol.headers.access import DeleteAcl, ListAcls, ListUsers, SubjectHeader, UserHeader
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.access.table import AccessTable
from rocketmq_py.wire import fastjson
from tests.unit.server.access.saved_entries import SavedEntries

ONLY_SUPER = "can only be (create|update) by super user"


class Desk:
    """Handlers over a table with the users root, who may do everything, and ann."""

    def __init__(self) -> None:
        self.saved = SavedEntries()
        self.table = AccessTable(AccessSettings(), lambda: None, self.saved.save)
        self.table.create_user(User(name="root", password="r", is_super=True))
        self.table.create_user(User(name="ann", password="a"))
        self.handlers = AccessHandlers(self.table)

    def ask(self, name: str, header: Any, body: bytes = b"", code: int = 3001) -> Reply:
        handler: Callable[..., Any] = getattr(self.handlers, name)
        outcome = handler(Peer(), Request(header=header, code=code), body)
        reply: Reply = asyncio.run(outcome) if inspect.iscoroutine(outcome) else outcome
        return reply


@pytest.fixture
def desk() -> Desk:
    return Desk()


def user(**fields: Any) -> bytes:
    return UserInfo(**fields).encode()


def by(asker: str | None, name: str) -> UserHeader:
    return UserHeader(username=name, access_key=asker)


NEW = {"username": "new", "password": "n"}


@pytest.mark.parametrize("asker", [None, "ann", "root"])
def test_a_user_is_created_under_the_name_of_the_header(desk: Desk, asker: str | None) -> None:
    assert desk.ask("create_user", by(asker, "other"), user(**NEW)).code == 0
    made = desk.table.user("other")
    assert made is not None
    assert (made.name, made.password, made.is_super, made.enabled) == ("other", "n", False, True)
    assert desk.table.user("new") is None


@pytest.mark.parametrize(
    ("asker", "allowed"), [(None, True), ("", True), ("root", True), ("ann", False), ("stranger", False)]
)
def test_only_super_users_create_super_users(desk: Desk, asker: str | None, allowed: bool) -> None:
    body = user(**NEW, user_type="Super")
    if allowed:
        desk.ask("create_user", by(asker, "new"), body)
        made = desk.table.user("new")
        assert made is not None
        assert made.is_super
    else:
        with pytest.raises(BrokerError, match="The super user can only be create by super user") as refused:
            desk.ask("create_user", by(asker, "new"), body)
        assert refused.value.code == 1
        assert desk.table.user("new") is None


@pytest.mark.parametrize("method", ["create_user", "update_user", "user"])
def test_a_name_is_needed(desk: Desk, method: str) -> None:
    with pytest.raises(BrokerError, match="The username is blank") as refused:
        desk.ask(method, by("root", ""), user(**NEW))
    assert refused.value.code == 29


@pytest.mark.parametrize(
    ("given", "password", "is_super", "enabled"),
    [
        ({"password": "p"}, "p", False, True),
        ({"user_status": "disable"}, "a", False, False),
        ({"user_status": "enable"}, "a", False, True),
        ({"user_type": "Super"}, "a", True, True),
        ({"user_type": "Normal"}, "a", False, True),
        ({}, "a", False, True),
    ],
)
def test_an_update_changes_what_it_names(
    desk: Desk, given: dict[str, str], password: str, is_super: bool, enabled: bool
) -> None:
    assert desk.ask("update_user", by("root", "ann"), user(**given)).code == 0
    found = desk.table.user("ann")
    assert found is not None
    assert (found.password, found.is_super, found.enabled) == (password, is_super, enabled)
    other = desk.table.user("root")
    assert other is not None
    assert (other.password, other.is_super, other.enabled) == ("r", True, True)


@pytest.mark.parametrize(
    ("name", "given"), [("root", {"password": "x"}), ("root", {"user_type": "Normal"}), ("ann", {"user_type": "Super"})]
)
def test_only_super_users_change_or_make_super_users(desk: Desk, name: str, given: dict[str, str]) -> None:
    before = desk.saved.times
    with pytest.raises(BrokerError, match=ONLY_SUPER):
        desk.ask("update_user", by("ann", name), user(**given))
    assert desk.saved.times == before
    desk.ask("update_user", by("root", name), user(**given))
    assert desk.saved.times == before + 1


def test_ordinary_users_are_changed_by_others(desk: Desk) -> None:
    desk.ask("create_user", by("root", "bob"), user(**NEW))
    desk.ask("update_user", by("ann", "bob"), user(password="x"))
    bob = desk.table.user("bob")
    assert bob is not None
    assert bob.password == "x"


def test_a_user_that_is_not_there_is_not_changed(desk: Desk) -> None:
    with pytest.raises(BrokerError, match="The user is not exist") as refused:
        desk.ask("update_user", by("root", "nobody"), user(password="x"))
    assert refused.value.code == 16


@pytest.mark.parametrize(
    ("asker", "name", "allowed"),
    [("ann", "root", False), ("root", "root", True), (None, "root", True), ("root", "ann", True), ("ann", "ann", True),
     ("ann", "nobody", True)],
)  # fmt: skip
def test_only_super_users_delete_super_users(desk: Desk, asker: str | None, name: str, allowed: bool) -> None:
    if allowed:
        assert desk.ask("delete_user", by(asker, name)).code == 0
        assert desk.table.user(name) is None
    else:
        with pytest.raises(BrokerError, match=ONLY_SUPER):
            desk.ask("delete_user", by(asker, name))
        assert desk.table.user(name) is not None


def test_a_user_is_returned(desk: Desk) -> None:
    found = UserInfo.decode(desk.ask("user", by(None, "root")).body)
    assert (found.username, found.user_type, found.user_status) == ("root", "Super", "enable")
    assert desk.ask("user", by(None, "nobody")).body == b""


@pytest.mark.parametrize(("part", "names"), [(None, ["ann", "root"]), ("", ["ann", "root"]), ("oo", ["root"])])
def test_users_are_listed(desk: Desk, part: str | None, names: list[str]) -> None:
    listed = fastjson.loads(desk.ask("users", ListUsers(filter=part)).body)
    assert [one["username"] for one in listed] == names
    assert {"username", "userType", "userStatus"} <= listed[0].keys()
    assert desk.ask("users", ListUsers(filter="nix")).body == b""


def permission(resource: str, action: str = "Pub", kind: str = "Custom") -> bytes:
    entry = EntryInfo(resource=resource, actions=[action], decision="Allow")
    return AclInfo(policies=[PolicyInfo(policy_type=kind, entries=[entry])]).encode()


ANN = "User:ann"


def resources(desk: Desk, subject: str = ANN) -> list[str | None]:
    body = desk.ask("acl", SubjectHeader(subject=subject)).body
    return [entry.resource for policy in AclInfo.decode(body).policies for entry in policy.entries] if body else []


def test_permissions_are_added_listed_and_deleted(desk: Desk) -> None:
    assert resources(desk) == []
    for resource in ("Topic:t", "Topic:u"):
        assert desk.ask("put_acl", SubjectHeader(subject=ANN), permission(resource), 3006).code == 0
    desk.ask("put_acl", SubjectHeader(subject="User:root"), permission("Group:g"), 3006)
    assert resources(desk) == ["Topic:t", "Topic:u"]
    assert desk.ask("delete_acl", DeleteAcl(subject=ANN, resource="Topic:t")).code == 0
    assert resources(desk) == ["Topic:u"]
    assert desk.ask("delete_acl", DeleteAcl(subject=ANN)).code == 0
    assert (resources(desk), resources(desk, "User:root")) == ([], ["Group:g"])


def test_default_permissions_are_deleted_by_their_type(desk: Desk) -> None:
    for kind in ("Custom", "Default"):
        desk.ask("put_acl", SubjectHeader(subject=ANN), permission("Topic:t", kind=kind), 3006)
    desk.ask("delete_acl", DeleteAcl(subject=ANN, policy_type="Default", resource="Topic:t"))
    [policy] = AclInfo.decode(desk.ask("acl", SubjectHeader(subject=ANN)).body).policies
    assert policy.policy_type == "Custom"


@pytest.mark.parametrize(
    ("subject", "resource", "found"),
    [(None, None, [ANN, "User:root"]), ("ann", None, [ANN]), (None, "Group", ["User:root"]), ("ann", "Group", [])],
)
def test_permissions_are_listed_by_subject_and_resource(
    desk: Desk, subject: str | None, resource: str | None, found: list[str]
) -> None:
    desk.ask("put_acl", SubjectHeader(subject=ANN), permission("Topic:t"), 3006)
    desk.ask("put_acl", SubjectHeader(subject="User:root"), permission("Group:g"), 3006)
    body = desk.ask("acls", ListAcls(subject_filter=subject, resource_filter=resource)).body
    assert [one["subject"] for one in (fastjson.loads(body) if body else [])] == found


@pytest.mark.parametrize("subject", ["User:nobody", "Role:ann", "ann"])
def test_permissions_need_a_user(desk: Desk, subject: str) -> None:
    for method, header, body in (
        ("put_acl", SubjectHeader(subject=subject), permission("Topic:t")),
        ("acl", SubjectHeader(subject=subject), b""),
        ("delete_acl", DeleteAcl(subject=subject), b""),
    ):
        with pytest.raises(BrokerError, match=f"The subject of {subject} is not exist"):
            desk.ask(method, header, body, 3006)


@pytest.mark.parametrize(
    ("name", "header", "body"),
    [
        ("create_user", by(None, "new"), user(**NEW)),
        ("update_user", by(None, "ann"), user(username="ann", password="b")),
        ("delete_user", by(None, "ann"), b""),
        ("put_acl", SubjectHeader(subject="User:ann"), permission("Topic:t")),
        ("delete_acl", DeleteAcl(subject="User:ann"), b""),
    ],
)
def test_a_change_is_answered_when_it_is_on_disk(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str, header: Any, body: bytes
) -> None:
    desk.ask("put_acl", SubjectHeader(subject="User:ann"), permission("Topic:t"), 3006)

    async def saved() -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(desk.table, "saved", saved)
    with pytest.raises(OSError, match="the disk is full"):
        desk.ask(name, header, body, 3006 if name == "put_acl" else 3001)
