"""Users and permissions in the JSON of requests."""

import pytest

from rocketmq_py.core.access.permissions import Acl, Action, Resource, User
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.access import EntryInfo, UserInfo
from rocketmq_py.server.access.conversion import acl_info, entry_of, info_of, user_of


def info(resource="Topic:t", actions=("Pub",), decision="Allow", ips=None):
    return EntryInfo(resource=resource, actions=list(actions), decision=decision, source_ips=ips)


def test_users_are_normal_and_enabled_unless_the_body_says_otherwise():
    cases = [
        (UserInfo(), User(name="", password="")),
        (UserInfo(username="ann", password="a"), User(name="ann", password="a")),
        (UserInfo(username="ann", user_type="Normal", user_status="enable"), User(name="ann", password="")),
        (UserInfo(user_type="SUPER", user_status="Disable"), User(name="", password="", is_super=True, enabled=False)),
    ]
    assert [user_of(info) for info, _ in cases] == [user for _, user in cases]


def test_users_are_told_with_their_kind_and_state():
    ann, root = User(name="ann", password="a", enabled=False), User(name="root", password="r", is_super=True)
    assert info_of(ann) == UserInfo(username="ann", password="a", user_type="Normal", user_status="disable")
    assert info_of(root) == UserInfo(username="root", password="r", user_type="Super", user_status="enable")


@pytest.mark.parametrize(
    ("decision", "allow"), [("Allow", True), ("ALLOW", True), ("allow", True), ("Deny", False), ("deny", False)]
)
def test_a_permission_allows_or_denies(decision, allow):
    assert entry_of(info(decision=decision)).allow is allow


@pytest.mark.parametrize("decision", ["", None, "maybe", "true"])
def test_another_decision_is_refused(decision):
    with pytest.raises(ConfigError, match=r"The decision is null or illegal\."):
        entry_of(info(decision=decision))


def test_actions_and_sources_are_converted():
    found = entry_of(info("Group:g*", ["pub", " SUB "], ips=["10.0.0.0/8"]))
    assert found.resource == Resource.parse("Group:g*")
    assert found.actions == (Action.PUB, Action.SUB)
    assert found.source_ips == ("10.0.0.0/8",)
    assert entry_of(info()).source_ips == ()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [({"actions": ["Fly"]}, "'Fly' is not an action"), ({"resource": "t"}, "'t' is not a resource"),
     ({"actions": []}, "The actions is empty")],
)  # fmt: skip
def test_a_wrong_permission_is_refused(wrong, why):
    with pytest.raises(ConfigError, match=why):
        entry_of(info(**wrong))


def test_permissions_are_told_by_policy_and_part_of_the_resource():
    a, b = (entry_of(info(f"Topic:{name}", ips=ips)) for name, ips in (("a", ["::1"]), ("b", None)))
    deny = entry_of(info("Group:a", decision="Deny"))
    acl = Acl({one.resource: one for one in (a, b)}, {deny.resource: deny})

    def told(part=""):
        found = acl_info("ann", acl, part)
        assert found.subject == "User:ann"
        return [
            (policy.policy_type, entry.resource, entry.decision, entry.source_ips)
            for policy in found.policies
            for entry in policy.entries
        ]

    custom = [("Custom", "Topic:a", "Allow", ["::1"]), ("Custom", "Topic:b", "Allow", None)]
    assert told() == [*custom, ("Default", "Group:a", "Deny", None)]
    assert told("Topic") == custom
    assert told(":b") == custom[1:]
    assert told("none") == []
