"""``rocketmq access``: what is listed, nothing is deleted without the question, and what is said arrives."""

from __future__ import annotations

import json

import pytest

from rocketmq_py.cli import access
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo, UserInfo

ANN = UserInfo(username="ann", password="geheim", user_type="Super", user_status="enable")
BOB = UserInfo(username="bob", user_type="Normal", user_status="disable")
ACL = AclInfo(
    subject="User:ann",
    policies=[
        PolicyInfo(policy_type="Custom", entries=[
            EntryInfo(resource="Topic:t", actions=["Pub", "Sub"], source_ips=["10.0.0.0/8"], decision="Allow"),
            EntryInfo(resource="Group:g", decision="Deny"),
        ]),
        PolicyInfo(policy_type="Default", entries=[EntryInfo(resource="*", actions=["All"], decision="Allow")]),
    ],
)  # fmt: skip


@pytest.fixture
def guarded(admin):
    admin.user_table = {"ann": ANN, "bob": BOB}
    admin.acl_table = {"ann": ACL}
    return admin


# -- users


def test_users_are_listed_without_passwords(guarded, run):
    result = run("access user ls -o json")
    assert json.loads(result.stdout) == [
        {"user": "ann", "type": "Super", "status": "enable"}, {"user": "bob", "type": "Normal", "status": "disable"}
    ]  # fmt: skip
    assert run("access user ls bo").output.splitlines() == ["user  type    status", "bob   Normal  disable"]


@pytest.mark.parametrize(("option", "is_super"), [("", False), ("--super", True)])
def test_a_user_is_created_with_the_password_of_the_environment(admin, run, monkeypatch, option, is_super):
    monkeypatch.setenv("ROCKETMQ_USER_PASSWORD", "pw")
    assert run(f"access user create eve {option}").exit_code == 0
    assert admin.changes == [("create_user", "eve", "pw", is_super)]


def test_without_a_terminal_a_password_comes_from_the_environment_only(admin, run, monkeypatch):
    monkeypatch.setenv("ROCKETMQ_USER_PASSWORD", "")
    refused = run("access user create eve")
    assert refused.exit_code == 2
    assert "there is no terminal to ask for a password: set" in refused.output
    assert admin.changes == []


def test_at_a_terminal_a_password_is_asked_for_twice(admin, monkeypatch, capsys):
    monkeypatch.delenv("ROCKETMQ_USER_PASSWORD", raising=False)
    monkeypatch.setattr(access.sys.stdin, "isatty", lambda: True, raising=False)
    typed = iter(["pw", "pv", "pw", "pw"])
    monkeypatch.setattr("click.termui.hidden_prompt_func", lambda _: next(typed))
    assert access._password("eve") == "pw"
    assert next(typed, None) is None
    assert "do not match" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("", (None, None, None)),
        ("--password", ("pw", None, None)),
        ("--type super", (None, True, None)),
        ("--type normal", (None, False, None)),
        ("--status enable", (None, None, True)),
        ("--status disable", (None, None, False)),
        ("--password --type super --status disable", ("pw", True, False)),
    ],
)
def test_an_update_tells_what_the_options_say(admin, run, monkeypatch, options, told):
    monkeypatch.setenv("ROCKETMQ_USER_PASSWORD", "pw")
    assert run(f"access user update ann {options}").exit_code == 0
    assert admin.changes == [("update_user", "ann", *told)]


# -- permissions


def test_permissions_are_listed(guarded, run):
    rows = json.loads(run("access acl ls -o json").stdout)
    assert rows == [
        {"user": "ann", "decision": "Allow", "actions": ["Pub", "Sub"], "resource": "Topic:t",
         "from": ["10.0.0.0/8"], "kind": "Custom"},
        {"user": "ann", "decision": "Deny", "actions": [], "resource": "Group:g", "from": [], "kind": "Custom"},
        {"user": "ann", "decision": "Allow", "actions": ["All"], "resource": "*", "from": [], "kind": "Default"},
    ]  # fmt: skip
    assert guarded.changes == [("acls", "", "")]
    assert access.acl_rows(AclInfo()) == []


def test_permissions_of_one_user_and_resource_are_listed(guarded, run):
    lines = run("access acl ls an --resource Topic").output.splitlines()
    assert lines[0].split() == ["user", "decision", "actions", "resource", "from", "kind"]
    assert lines[1].split() == ["ann", "Allow", "Pub,", "Sub", "Topic:t", "10.0.0.0/8", "Custom"]
    assert guarded.changes == [("acls", "an", "Topic")]


@pytest.mark.parametrize(("verb", "allow"), [("allow", True), ("deny", False)])
@pytest.mark.parametrize(
    ("sources", "addresses"), [("", ()), ("--from 10.0.0.1 --from 10.1.0.0/16", ("10.0.0.1", "10.1.0.0/16"))]
)
def test_permissions_arrive_as_they_were_said(admin, run, verb, allow, sources, addresses):
    assert run(f"access acl {verb} ann Pub,Sub Topic:t Group:g {sources}").exit_code == 0
    assert admin.changes == [("set_acl", "ann", ("Topic:t", "Group:g"), ["Pub", "Sub"], allow, addresses)]


def test_a_permission_needs_a_resource(admin, run):
    assert run("access acl allow ann Pub").exit_code == 2
    assert admin.changes == []


# -- deletions


DELETIONS = pytest.mark.parametrize(
    ("words", "told", "question"),
    [
        ("user delete ann", ("delete_user", "ann"), "Delete user ann and its permissions?"),
        ("acl delete ann", ("delete_acl", "ann", None), "Delete the permissions of ann?"),
        ("acl delete ann Topic:t", ("delete_acl", "ann", "Topic:t"), "Delete the permissions of ann for Topic:t?"),
    ],
)


@DELETIONS
def test_nothing_is_deleted_without_the_question(guarded, run, words, told, question):
    refused = run(f"access {words}")
    assert refused.exit_code == 2
    assert question in " ".join(refused.output.replace("│", " ").split())
    assert guarded.changes == []
    assert run(f"access {words} --yes").exit_code == 0
    assert guarded.changes == [told]


@DELETIONS
@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("reply", "deletes"), [("y", True), ("n", False)])
def test_the_answer_decides(guarded, run, words, told, question, reply, deletes):
    result = run(f"access {words}", input=f"{reply}\n")
    assert result.exit_code == (0 if deletes else 1)
    assert question in result.output
    assert guarded.changes == ([told] if deletes else [])


@DELETIONS
def test_who_is_not_there_is_not_deleted(admin, run, words, told, question):
    del told, question
    refused = run(f"access {words} --yes")
    assert refused.exit_code == 3
    assert ("there is no user 'ann'" if "user" in words else "user 'ann' has no permissions") in refused.output
    assert admin.changes == []
