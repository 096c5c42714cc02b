"""The permission file of version 4: what it becomes, and that mistakes are told with their lines."""

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
    (first, second), unsigned = read_plain_acl(FILE.splitlines())
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
        ("    secretKey\t: x", "line 7: .* is not understood"),
        ("    secretkey: x", "line 7: unknown key 'secretkey'"),
        ("    admin: maybe", "line 7: admin is true or false"),
        ("    accessKey: again", "line 7: accessKey is there twice"),
        ("    defaultTopicPerm: WRITE", "line 7: 'WRITE' is not a permission"),
        ("    topicPerms: topicA=PUB", "line 7: a list is expected below topicPerms"),
        ("    - topicA=PUB", "line 7: .* below topicPerms or groupPerms is expected"),
        ("    # nothing", "line 6: the account that begins here has no secretKey"),
    ],
)
def test_an_error_names_its_line(wrong, complaint):
    lines = FILE.splitlines()
    lines[6] = wrong
    with pytest.raises(ConfigError, match=complaint):
        read_plain_acl(lines)


def test_an_invalid_permission_file_is_refused():
    with pytest.raises(ConfigError, match="line 1: globalWhiteRemoteAddresses or accounts is expected"):
        read_plain_acl(["users:"])
    with pytest.raises(ConfigError, match="line 2: an account is expected"):
        read_plain_acl(["accounts:", "  accessKey: x"])
