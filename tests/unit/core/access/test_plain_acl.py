"""The permission file of version 4: conversion, and errors with line numbers."""

import sys

import pytest

from rocketmq_py.core.access.permissions import Action, RequiredPermission, Resource, denial_reason, group, topic
from rocketmq_py.core.access.plain_acl import read_plain_acl
from rocketmq_py.errors import ConfigError

FILE = """\
# as Apache RocketMQ 4 ships it
globalWhiteRemoteAddresses:
  - 10.10.103.*

accounts:
  - accessKey: RocketMQ
    secretKey: "12345678"
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB   # only that
    groupPerms:
      - groupA=DENY
  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    admin: true
"""


def test_accounts_become_users_and_permissions():
    (first, second), unsigned = read_plain_acl(FILE)
    assert (first.user.name, first.user.password, first.user.is_super) == ("RocketMQ", "12345678", False)
    assert (second.user.name, second.user.is_super) == ("rocketmq2", True)
    assert unsigned == ["10.10.103.*", "192.168.1.*"]

    def may(resource: Resource, action: Action) -> bool:
        return denial_reason(first.user, first.acl, [RequiredPermission(resource, (action,))], "::1") is None

    assert [may(topic(name), Action.PUB) for name in ("topicA", "topicB", "topicC", "other")] == [
        False,
        True,
        False,
        False,
    ]
    assert [may(topic(name), Action.SUB) for name in ("topicA", "topicB", "topicC", "other")] == [
        False,
        True,
        True,
        False,
    ]
    assert [may(group(name), Action.SUB) for name in ("groupA", "other")] == [False, True]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("    secretKey\t: x", "line 7: found character .* that cannot start any token"),
        ("    secretkey: x", "line 7: unknown key 'secretkey'"),
        ("    admin: maybe", "line 7: admin is true or false"),
        ("    accessKey: again", "line 7: accessKey is there twice"),
        ("    defaultTopicPerm: WRITE", "line 7: 'WRITE' is not a permission"),
        ("    topicPerms: topicA=PUB", "line 7: a list is expected below topicPerms"),
        ("    - topicA=PUB", "line 7: expected <block end>, but found '-'"),
        ("    topicPerms: [=PUB]", "line 7: .* below topicPerms or groupPerms is expected"),
        ("    secretKey: {}", "line 7: a text is expected"),
        ("    # nothing", "line 6: the account that begins here has no secretKey"),
    ],
)
def test_an_error_names_its_line(wrong, complaint):
    lines = FILE.splitlines()
    lines[6] = wrong
    with pytest.raises(ConfigError, match=complaint):
        read_plain_acl("\n".join(lines))


def test_an_invalid_permission_file_is_refused():
    with pytest.raises(ConfigError, match="line 1: globalWhiteRemoteAddresses or accounts is expected"):
        read_plain_acl("users:")
    with pytest.raises(ConfigError, match="line 2: an account is expected"):
        read_plain_acl("accounts:\n  accessKey: x")


LAUGHS = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (LAUGHS, "line 1: anchors, aliases and tags are not supported"),
        ("accounts: *a", "line 1: anchors"),
        ("accounts:\n- !!python/object/apply:os.system [id]", "line 2: anchors"),
        ("accounts: " + "[" * 100_000, "line 1: more than 4 nested"),
        ("- " * 100_000, "line 1: more than 4 nested"),
        ("#" * (1 << 20) + "\n", "line 1: the file has more than 1048576 characters"),
        ("accounts:\n- accessKey: \x00", "line 1: .*special characters are not allowed"),
        ("accounts:\n---\nusers:", "line 2: but found another document"),
        ("? {a: b}\n: c", "line 1: globalWhiteRemoteAddresses or accounts is expected"),
        ("accounts: [", "line 1: expected the node content"),
    ],
)
def test_a_hostile_file_is_refused(text, complaint):
    with pytest.raises(ConfigError, match=complaint):
        read_plain_acl(text)


@pytest.mark.parametrize("text", ["", "# nothing", "---\naccounts:\n", "accounts: []\nglobalWhiteRemoteAddresses: ~"])
def test_a_file_without_accounts(text):
    assert read_plain_acl(text) == ([], [])


def test_values_are_text_as_in_java():
    ((user, acl),), unsigned = read_plain_acl(
        "accounts: [{accessKey: 0o17, secretKey: 012345678, admin: 'true', topicPerms: , whiteRemoteAddress: null}]"
    )
    assert (user.name, user.password, user.is_super) == ("0o17", "012345678", True)
    assert (acl.custom, unsigned) == ({}, [])


def test_without_pyyaml_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match=r"rocketmq-py\[yaml\]"):
        read_plain_acl(FILE)
