"""Requests that list and change users and permissions: codes 3001 to 3010, and what each changes in the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.handlers.access import AccessHandlers
from rocketmq_py.core.access.permissions import User
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.access.table import AccessTable
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import InProcess, broker
from tests.unit.server.access.saved_entries import SavedEntries

CREATE_USER, UPDATE_USER, DELETE_USER, GET_USER, LIST_USER = 3001, 3002, 3003, 3004, 3005
CREATE_ACL, UPDATE_ACL, DELETE_ACL, GET_ACL, LIST_ACL = 3006, 3007, 3008, 3009, 3010
INVALID_PARAMETER, NO_PERMISSION, SYSTEM_ERROR = 29, 16, 1


class Office:
    """A broker with the users ``root`` (super), ``amy`` and ``bob``, and what it has saved."""

    def __init__(self, root: Path) -> None:
        self.saved = SavedEntries()
        self.table = AccessTable(AccessSettings(), lambda: None, self.saved.save)
        for name in ("root", "amy", "bob"):
            self.table.create_user(User(name=name, password=f"{name}-1", is_super=name == "root"))
        self.saved.times = 0
        self.running = InProcess(root, handlers=[AccessHandlers(self.table)])
        self._client = self.running.connect()

    def ask(self, code: int, body: dict[str, Any] | None = None, **fields: str) -> Command:
        data = b"" if body is None else fastjson.dumps(body)
        return self._client.read([Command(code, 1, ext=fields, body=data)])[0]

    def refused(self, code: int, body: dict[str, Any] | None = None, **fields: str) -> tuple[int, str | None]:
        """The answer's code and remark; nothing was changed."""
        answer = self.ask(code, body, **fields)
        assert self.saved.times == 0
        return answer.code, answer.remark

    def password(self, name: str) -> str | None:
        user = self.table.user(name)
        return None if user is None else user.password


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    found = Office(tmp_path)
    yield found
    found.running.services.close()


def user(**more: str) -> dict[str, str]:
    return {"password": "secret", **more}


def permission(resource: str = "Topic:t", decision: str = "Allow") -> dict[str, Any]:
    entry = {"resource": resource, "actions": ["Pub"], "sourceIps": ["10.0.0.1"], "decision": decision}
    return {"subject": "User:ignored", "policies": [{"policyType": "Custom", "entries": [entry]}]}


# -- users


def test_a_user_is_created_with_the_name_of_the_header_and_saved(office: Office) -> None:
    answer = office.ask(CREATE_USER, user(username="other", userType="Normal"), username="cat", AccessKey="amy")
    assert (answer.code, answer.remark, answer.body) == (0, None, b"")
    assert office.table.user("other") is None
    cat = office.table.user("cat")
    assert cat is not None
    assert (cat.password, cat.is_super, cat.enabled) == ("secret", False, True)
    assert [one["username"] for one in office.saved.content["users"]] == ["amy", "bob", "cat", "root"]


def test_a_user_may_be_created_disabled(office: Office) -> None:
    assert office.ask(CREATE_USER, user(userStatus="disable"), username="cat").code == 0
    cat = office.table.user("cat")
    assert cat is not None
    assert not cat.enabled


@pytest.mark.parametrize("code", [CREATE_USER, UPDATE_USER, GET_USER])
def test_a_request_without_a_name_is_refused(office: Office, code: int) -> None:
    assert office.refused(code, user()) == (INVALID_PARAMETER, "The username is blank")
    assert office.refused(code, user(), username="") == (INVALID_PARAMETER, "The username is blank")


def test_a_name_that_exists_is_refused(office: Office) -> None:
    assert office.refused(CREATE_USER, user(), username="amy") == (NO_PERMISSION, "The user is existed")
    assert office.password("amy") == "amy-1"


@pytest.mark.parametrize("asker", ["amy", "nobody"])
def test_only_a_super_user_creates_super_users(office: Office, asker: str) -> None:
    asked = {"username": "cat", "AccessKey": asker}
    expected = (SYSTEM_ERROR, "The super user can only be create by super user")
    assert office.refused(CREATE_USER, user(userType="Super"), **asked) == expected
    assert office.table.user("cat") is None


@pytest.mark.parametrize("signed", [{"AccessKey": "root"}, {}])
def test_a_super_user_or_an_unsigned_request_creates_super_users(office: Office, signed: dict[str, str]) -> None:
    assert office.ask(CREATE_USER, user(userType="Super"), username="cat", **signed).code == 0
    cat = office.table.user("cat")
    assert cat is not None
    assert cat.is_super


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"password": "new"}, ("new", False, True)),
        ({"userStatus": "disable"}, ("amy-1", False, False)),
        ({"userType": "Normal", "userStatus": "enable"}, ("amy-1", False, True)),
        ({"userType": "Super"}, ("amy-1", True, True)),
        ({}, ("amy-1", False, True)),
    ],
)
def test_an_update_changes_what_it_names_only(
    office: Office, body: dict[str, str], expected: tuple[str, bool, bool]
) -> None:
    assert office.ask(UPDATE_USER, body, username="amy", AccessKey="root").code == 0
    amy = office.table.user("amy")
    assert amy is not None
    assert (amy.password, amy.is_super, amy.enabled) == expected
    assert office.password("bob") == "bob-1"
    assert office.saved.times


def test_an_update_keeps_what_it_does_not_name(office: Office) -> None:
    """A super user that is disabled stays both when only its password changes."""
    assert office.ask(UPDATE_USER, {"userStatus": "disable"}, username="root", AccessKey="root").code == 0
    assert office.ask(UPDATE_USER, {"password": "new"}, username="root").code == 0
    root = office.table.user("root")
    assert root is not None
    assert (root.password, root.is_super, root.enabled) == ("new", True, False)
    assert office.ask(UPDATE_USER, {"userType": "Normal"}, username="root").code == 0
    root = office.table.user("root")
    assert root is not None
    assert (root.is_super, root.enabled) == (False, False)


@pytest.mark.parametrize(
    ("name", "body"), [("root", {"password": "mine"}), ("amy", {"userType": "Super"}), ("root", {"userType": "Normal"})]
)
def test_only_a_super_user_changes_super_users_or_makes_one(office: Office, name: str, body: dict[str, str]) -> None:
    expected = (SYSTEM_ERROR, "The super user can only be update by super user")
    assert office.refused(UPDATE_USER, body, username=name, AccessKey="amy") == expected
    assert office.password(name) == f"{name}-1"


def test_a_user_that_is_unknown_cannot_be_updated(office: Office) -> None:
    assert office.refused(UPDATE_USER, user(), username="cat") == (NO_PERMISSION, "The user is not exist")


def test_a_user_is_deleted_with_its_permissions(office: Office) -> None:
    for name in ("amy", "bob"):
        assert office.ask(CREATE_ACL, permission(), subject=f"User:{name}").code == 0
    assert office.ask(DELETE_USER, username="amy", AccessKey="bob").code == 0
    assert [one.name for one in office.table.users()] == ["bob", "root"]
    assert [info.subject for info in office.table.acls() if info] == ["User:bob"]
    assert [one["username"] for one in office.saved.content["users"]] == ["bob", "root"]


def test_only_a_super_user_deletes_a_super_user(office: Office) -> None:
    """With the remark of an update, as Java's broker."""
    expected = (SYSTEM_ERROR, "The super user can only be update by super user")
    assert office.refused(DELETE_USER, username="root", AccessKey="amy") == expected
    assert office.table.user("root") is not None
    assert office.ask(DELETE_USER, username="root", AccessKey="root").code == 0
    assert office.table.user("root") is None


def test_deleting_an_unknown_user_changes_nothing(office: Office) -> None:
    assert office.ask(DELETE_USER, username="cat", AccessKey="amy").code == 0
    assert len(office.table.users()) == 3


def test_one_user_is_returned_or_an_empty_body(office: Office) -> None:
    found = fastjson.loads(office.ask(GET_USER, username="root").body)
    assert found == {"username": "root", "password": "root-1", "userType": "Super", "userStatus": "enable"}
    answer = office.ask(GET_USER, username="cat")
    assert (answer.code, answer.body) == (0, b"")


@pytest.mark.parametrize(("filters", "names"), [({}, ["amy", "bob", "root"]), ({"filter": "o"}, ["bob", "root"])])
def test_users_are_listed_by_a_part_of_their_name(office: Office, filters: dict[str, str], names: list[str]) -> None:
    found = fastjson.loads(office.ask(LIST_USER, **filters).body)
    assert [one["username"] for one in found] == names
    assert {one["userType"] for one in found} <= {"Super", "Normal"}


def test_an_empty_list_of_users_has_no_body(office: Office) -> None:
    answer = office.ask(LIST_USER, filter="zzz")
    assert (answer.code, answer.body) == (0, b"")


# -- permissions


@pytest.mark.parametrize("code", [CREATE_ACL, UPDATE_ACL])
def test_permissions_are_put_on_the_subject_of_the_header(office: Office, code: int) -> None:
    assert office.ask(code, permission(), subject="User:amy").code == 0
    assert office.ask(code, permission("Group:g", "Deny"), subject="User:amy").code == 0
    found = fastjson.loads(office.ask(GET_ACL, subject="User:amy").body)
    assert found["subject"] == "User:amy"
    [policy] = found["policies"]
    assert [(entry["resource"], entry["decision"]) for entry in policy["entries"]] == [
        ("Topic:t", "Allow"), ("Group:g", "Deny"),
    ]  # fmt: skip
    assert office.ask(GET_ACL, subject="User:bob").body == b""
    assert [one["subject"] for one in office.saved.content["acls"]] == ["User:amy"]


def test_permissions_of_an_unknown_subject_are_refused(office: Office) -> None:
    expected = (NO_PERMISSION, "The subject of User:cat is not exist.")
    assert office.refused(CREATE_ACL, permission(), subject="User:cat") == expected
    assert office.refused(GET_ACL, subject="User:cat") == expected
    assert office.refused(DELETE_ACL, subject="User:cat") == expected


def test_one_permission_or_all_of_a_user_are_deleted(office: Office) -> None:
    for name in ("amy", "bob"):
        for resource in ("Topic:t", "Topic:u"):
            office.ask(CREATE_ACL, permission(resource), subject=f"User:{name}")
    assert office.ask(DELETE_ACL, subject="User:amy", resource="Topic:t", policyType="Custom").code == 0
    found = fastjson.loads(office.ask(GET_ACL, subject="User:amy").body)
    assert [entry["resource"] for entry in found["policies"][0]["entries"]] == ["Topic:u"]
    assert office.ask(DELETE_ACL, subject="User:amy").code == 0
    assert office.ask(GET_ACL, subject="User:amy").body == b""
    found = fastjson.loads(office.ask(GET_ACL, subject="User:bob").body)
    assert len(found["policies"][0]["entries"]) == 2
    assert office.ask(DELETE_ACL, subject="User:amy").remark == "The acl is not exist."


def test_only_permissions_of_the_named_type_are_deleted(office: Office) -> None:
    office.ask(CREATE_ACL, permission(), subject="User:amy")
    assert office.ask(DELETE_ACL, subject="User:amy", resource="Topic:t", policyType="Default").code == 0
    assert office.ask(GET_ACL, subject="User:amy").body != b""


def test_permissions_are_listed_by_subject_and_resource(office: Office) -> None:
    office.ask(CREATE_ACL, permission("Topic:t"), subject="User:amy")
    office.ask(CREATE_ACL, permission("Group:g"), subject="User:bob")

    def listed(**filters: str) -> list[str]:
        body = office.ask(LIST_ACL, **filters).body
        return [one["subject"] for one in fastjson.loads(body)] if body else []

    assert listed() == ["User:amy", "User:bob"]
    assert listed(subjectFilter="amy") == ["User:amy"]
    assert listed(resourceFilter="Group:") == ["User:bob"]
    assert listed(subjectFilter="amy", resourceFilter="Group:") == []


# -- bodies


@pytest.mark.parametrize("code", [CREATE_USER, UPDATE_USER, CREATE_ACL, UPDATE_ACL])
def test_a_body_beyond_a_mebibyte_is_refused(office: Office, code: int) -> None:
    fields = {"username": "cat"} if code in (CREATE_USER, UPDATE_USER) else {"subject": "User:amy"}
    limit = 1024 * 1024
    answer = office.refused(code, {"password": "x" * limit}, **fields)
    assert answer[0] == INVALID_PARAMETER
    assert f"at most {limit} are possible" in (answer[1] or "")


def test_without_these_handlers_the_requests_are_unknown(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        assert running.connect().ask(LIST_USER).code == 3
