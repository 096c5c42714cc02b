"""Users and permissions: what is deleted is gone, and everything that changes is saved."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketmq_py.core.access.permissions import Acl, User
from rocketmq_py.core.access.plain_acl import Account, PlainAcl
from rocketmq_py.errors import BrokerError, ConfigError
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.access.table import AccessTable, EntryKey
from rocketmq_py.wire.signing import Credentials
from tests.unit.server.access.saved_entries import SavedEntries


class Saved:
    """A table with what it saved last."""

    def __init__(self, settings: AccessSettings | None = None, before: Any = None) -> None:
        self._saved = SavedEntries()
        self.table = AccessTable(settings or AccessSettings(), lambda: before, self._saved.save)

    @property
    def content(self) -> Any:
        return self._saved.content

    @property
    def times(self) -> int:
        return self._saved.times

    def again(self) -> AccessTable:
        """The table of the next start."""
        return AccessTable(AccessSettings(), lambda: self.content, lambda _: None)


@pytest.fixture
def saved() -> Saved:
    found = Saved()
    found.table.create_user(User(name="ann", password="a"))
    found.table.create_user(User(name="bob", password="b"))
    return found


def permissions(*resources: str, kind: str = "Custom") -> AclInfo:
    entries = [EntryInfo(resource=resource, actions=["Pub"], decision="Allow") for resource in resources]
    return AclInfo(policies=[PolicyInfo(policy_type=kind, entries=entries)])


def resources(table: AccessTable, name: str) -> list[str]:
    found = table.acl(f"User:{name}")
    return [] if found is None else [str(entry.resource) for policy in found.policies for entry in policy.entries]


def put(table: AccessTable, subject: str, info: AclInfo) -> None:
    for _ in table.put_acl(subject, info):
        pass


def test_a_new_user_does_not_have_the_permissions_of_a_deleted_one_of_its_name(saved: Saved) -> None:
    put(saved.table, "User:ann", permissions("Topic:t"))
    put(saved.table, "User:bob", permissions("Topic:t"))
    saved.table.delete_user("ann")
    assert saved.table.acl_of("ann") is None
    saved.table.create_user(User(name="ann", password="new"))
    for table in (saved.table, saved.again()):
        assert resources(table, "ann") == []
        assert resources(table, "bob") == ["Topic:t"]


def test_a_deleted_user_is_gone_at_the_next_start_too(saved: Saved) -> None:
    saved.table.delete_user("ann")
    saved.table.delete_user("nobody")
    for table in (saved.table, saved.again()):
        assert [user.name for user in table.users()] == ["bob"]


def test_every_change_is_saved(saved: Saved) -> None:
    changes = (
        lambda: saved.table.update_user("ann", "new", True, False),
        lambda: put(saved.table, "User:ann", permissions("Topic:t", "Group:g")),
        lambda: saved.table.delete_acl("User:ann", None, "Topic:t"),
        lambda: saved.table.delete_acl("User:ann", None, None),
        lambda: saved.table.delete_user("ann"),
    )
    for number, change in enumerate(changes, start=saved.times + 1):
        change()
        assert saved.times == number


def test_only_what_has_changed_is_saved_but_everything_the_first_time(saved: Saved) -> None:
    put(saved.table, "User:ann", permissions("Topic:t"))
    changes: list[list[EntryKey]] = []
    table = AccessTable(AccessSettings(), lambda: saved.content, lambda some: changes.append(list(some)))
    table.update_user("bob", "new", None, None)
    table.update_user("bob", "newer", None, None)
    table.delete_user("ann")
    everything = [("users", "bob"), ("users", "ann"), ("acls", "ann")]
    assert changes == [everything, [("users", "bob")], [("users", "ann"), ("acls", "ann")]]


def test_what_a_change_does_not_name_stays(saved: Saved) -> None:
    saved.table.update_user("ann", None, True, None)
    saved.table.update_user("ann", None, None, False)
    saved.table.update_user("ann", "new", None, None)
    user = saved.again().user("ann")
    assert user is not None
    assert (user.password, user.is_super, user.enabled) == ("new", True, False)
    saved.table.update_user("ann", None, False, True)
    assert (user := saved.again().user("ann")) is not None
    assert (user.is_super, user.enabled) == (False, True)


def test_permissions_are_deleted_for_one_resource_or_for_all(saved: Saved) -> None:
    put(saved.table, "User:ann", permissions("Topic:t", "Group:g"))
    put(saved.table, "User:ann", permissions("Topic:u", kind="Default"))
    saved.table.delete_acl("User:ann", "Default", "Topic:t")
    assert resources(saved.table, "ann") == ["Topic:t", "Group:g", "Topic:u"], "it stands in the other table"
    saved.table.delete_acl("User:ann", None, "Topic:t")
    saved.table.delete_acl("User:ann", "Custom", "Group:g")
    assert resources(saved.table, "ann") == ["Topic:u"]
    saved.table.delete_acl("User:ann", "Default", "Topic:u")
    assert saved.table.acl("User:ann") is None, "the last is gone, and so is the entry"
    put(saved.table, "User:ann", permissions("Topic:t", "Group:g"))
    saved.table.delete_acl("User:ann", None, None)
    assert saved.table.acl("User:ann") is None


def test_a_permission_that_cannot_exist_is_not_deleted(saved: Saved) -> None:
    put(saved.table, "User:ann", permissions("Topic:t"))
    times = saved.times
    for policy, resource, why in ((None, "nonsense", "is not a resource"), ("Odd", "Topic:t", "'Odd' is not a policy")):
        with pytest.raises(BrokerError, match=why) as caught:
            saved.table.delete_acl("User:ann", policy, resource)
        assert caught.value.code == 16
    assert (resources(saved.table, "ann"), saved.times) == (["Topic:t"], times)
    assert (acl := saved.table.acl_of("ann")) is not None
    assert list(map(str, acl.custom)) == ["Topic:t"]


@pytest.mark.parametrize(("unsigned", "lines"), [([], 0), (["10.0.0.1", "10.0.0.2"], 1)])
def test_addresses_that_need_no_signature_in_the_permission_file_are_a_warning(
    unsigned: list[str], lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    Saved(AccessSettings(plain=PlainAcl([], unsigned)))
    assert [message.endswith("no effect here: 10.0.0.1, 10.0.0.2") for message in caplog.messages] == [True] * lines


def test_a_permission_replaces_one_for_the_same_resource_only(saved: Saved) -> None:
    put(saved.table, "User:ann", permissions("Topic:t", "Topic:u"))
    denied = EntryInfo(resource="Topic:t", actions=["Sub"], decision="Deny")
    put(saved.table, "User:ann", AclInfo(policies=[PolicyInfo(entries=[denied])]))
    found = saved.again().acl("User:ann")
    assert found is not None
    assert [(e.resource, e.actions, e.decision) for e in found.policies[0].entries] == [
        ("Topic:t", ["Sub"], "Deny"),
        ("Topic:u", ["Pub"], "Allow"),
    ]


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (AclInfo(), "The policies is empty"),
        (AclInfo(policies=[*permissions("Topic:t").policies, PolicyInfo()]), "The policies is empty"),
        (permissions("Topic:t", "nonsense"), "nonsense"),
    ],
)
def test_invalid_permissions_change_nothing(saved: Saved, info: AclInfo, why: str) -> None:
    times = saved.times
    with pytest.raises(BrokerError, match=why):
        put(saved.table, "User:ann", info)
    assert (saved.table.acl("User:ann"), saved.times) == (None, times)


def test_who_or_what_does_not_exist_is_refused(saved: Saved) -> None:
    with pytest.raises(BrokerError, match="existed"):
        saved.table.create_user(User(name="ann", password="x"))
    for blank in (User(name=" ", password="x"), User(name="x", password=" ")):
        with pytest.raises(BrokerError, match="blank"):
            saved.table.create_user(blank)
    with pytest.raises(BrokerError, match="user is not exist"):
        saved.table.update_user("nobody", "x", None, None)
    for subject in ("User:nobody", "Group:ann", "ann"):
        for ask in (saved.table.acl, lambda name: put(saved.table, name, permissions("Topic:t"))):
            with pytest.raises(BrokerError, match="subject"):
                ask(subject)
    with pytest.raises(BrokerError, match="acl is not exist"):
        saved.table.delete_acl("User:ann", None, None)
    assert [user.password for user in saved.table.users()] == ["a", "b"]


def test_listings_are_narrowed_by_parts_of_names(saved: Saved) -> None:
    put(saved.table, "User:bob", permissions("Topic:t", "Group:g"))
    put(saved.table, "User:ann", permissions("Topic:u"))
    assert [user.name for user in saved.table.users("n")] == ["ann"]
    assert [info.subject for info in saved.table.acls() if info] == ["User:ann", "User:bob"]
    assert [info and info.subject for info in saved.table.acls("User:b")] == [None, "User:bob"]
    [_, found] = saved.table.acls(resource="Group")
    assert found is not None
    assert (found.subject, [entry.resource for entry in found.policies[0].entries]) == ("User:bob", ["Group:g"])


def test_users_of_the_permission_file_win_and_are_neither_changed_nor_saved(saved: Saved) -> None:
    theirs = PlainAcl([Account(User(name="ann", password="file"), Acl())], [])
    found = Saved(AccessSettings(plain=theirs), saved.content)
    assert (user := found.table.user("ann")) is not None
    assert user.password == "file"
    for change in (
        lambda: found.table.delete_user("ann"),
        lambda: found.table.update_user("ann", "x", None, None),
        lambda: put(found.table, "User:ann", permissions("Topic:t")),
        lambda: found.table.delete_acl("User:ann", None, None),
    ):
        with pytest.raises(BrokerError, match="permission file"):
            change()
    found.table.update_user("bob", "new", None, None)
    assert [user["username"] for user in found.content["users"]] == ["bob"]
    assert found.content["acls"] == []


async def test_a_change_may_be_waited_for_until_it_is_on_disk() -> None:
    loop = asyncio.get_running_loop()
    writes: list[asyncio.Future[None]] = []

    def save(_: object) -> asyncio.Future[None]:
        writes.append(loop.create_future())
        return writes[-1]

    access = AuthDispatcher(AccessSettings(), lambda: None, save, "c")
    await access.saved()
    access.table.create_user(User(name="ann", password="a"))
    first, second = (asyncio.ensure_future(wait()) for wait in (access.saved, access.table.saved))
    await asyncio.sleep(0)
    assert (first.done(), second.done()) == (False, False)
    first.cancel()
    await asyncio.wait([first])
    assert not writes[0].cancelled(), "others wait for it"
    writes[0].set_result(None)
    await second
    access.table.delete_user("ann")
    writes[1].set_exception(OSError("the disk is full"))
    with pytest.raises(OSError, match="the disk is full"):
        await access.saved()


def test_the_first_users_are_created_once() -> None:
    settings = AccessSettings(
        init_user=User(name="root", password="one", is_super=True), inner=Credentials("inner", "two")
    )
    first = Saved(settings)
    assert [(user.name, user.password, user.is_super) for user in first.table.users()] == [
        ("inner", "two", True),
        ("root", "one", True),
    ]
    assert first.times == 1
    first.table.update_user("root", "changed", None, None)
    later = Saved(settings, first.content)
    assert later.times == 0
    assert (root := later.table.user("root")) is not None
    assert root.password == "changed"
    same = AccessSettings(init_user=User(name="root", password="one"), inner=Credentials("root", "two"))
    assert (root := Saved(same).table.user("root")) is not None
    assert root.password == "one", "the named user, not the one of the credentials"


@pytest.mark.parametrize("content", [{"users": 3}, {"acls": [{"policies": [{"entries": [{"decision": "Maybe"}]}]}]}])
def test_an_invalid_saved_table_is_an_error(content: Any) -> None:
    with pytest.raises(ConfigError, match="saved users and permissions are invalid"):
        Saved(before=content)


def test_many_permissions_are_added_together_in_short_steps(saved: Saved) -> None:
    times = saved.times
    steps = saved.table.put_acl("User:ann", permissions(*[f"Topic:t{number}" for number in range(1000)]))
    for _ in range(1000):
        next(steps)
        assert saved.table.acl_of("ann") is None
    assert list(steps) == []
    assert (len(resources(saved.table, "ann")), saved.times) == (1000, times + 1)


def test_a_user_that_is_deleted_meanwhile_gets_no_permissions(saved: Saved) -> None:
    steps = saved.table.put_acl("User:ann", permissions("Topic:t", "Topic:u"))
    next(steps)
    saved.table.delete_user("ann")
    with pytest.raises(BrokerError, match="The subject of User:ann is not exist"):
        list(steps)
    assert saved.table.acl_of("ann") is None


def test_a_request_with_an_illegal_permission_adds_none(saved: Saved) -> None:
    with pytest.raises(BrokerError, match="is not a resource"):
        put(saved.table, "User:ann", permissions("Topic:t", "nonsense"))
    assert saved.table.acl_of("ann") is None
