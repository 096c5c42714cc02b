"""Conversion between users and permissions and the JSON bodies that describe them."""

from __future__ import annotations

from rocketmq_py.core.access.permissions import Acl, AclEntry, Action, Resource, User
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo, UserInfo


def user_of(info: UserInfo) -> User:
    """Return the user that a request or file describes."""
    return User(
        name=info.username or "", password=info.password or "", is_super=(info.user_type or "").lower() == "super",
        enabled=(info.user_status or "enable").lower() != "disable",
    )  # fmt: skip


def info_of(user: User) -> UserInfo:
    """Return the JSON body that describes a user, with the password in plain text."""
    return UserInfo(
        username=user.name, password=user.password, user_type="Super" if user.is_super else "Normal",
        user_status="enable" if user.enabled else "disable",
    )  # fmt: skip


def entry_of(info: EntryInfo) -> AclEntry:
    """Return the permission that a body describes.

    :raises ConfigError: the decision, an action or the resource is invalid.
    """
    decisions = {"allow": True, "deny": False}
    allow = decisions.get((info.decision or "").lower())
    if allow is None:
        raise ConfigError("The decision is null or illegal.")
    actions = tuple(_action(word) for word in info.actions or ())
    return AclEntry(Resource.parse(info.resource or ""), actions, allow, tuple(info.source_ips or ()))


def _action(word: str) -> Action:
    found = next((action for action in Action if action.value.lower() == word.strip().lower()), None)
    if found is None:
        raise ConfigError(f"{word!r} is not an action: {', '.join(action.value for action in Action)} are expected")
    return found


def acl_info(name: str, acl: Acl, part: str = "") -> AclInfo:
    """Return the JSON body that describes a user's permissions for the resources whose text contains ``part``.

    It works on copies of the tables, so that another thread may change them.
    """
    policies = []
    for kind, table in (("Custom", acl.custom), ("Default", acl.default)):
        entries = [
            EntryInfo(
                resource=str(entry.resource), actions=[action.value for action in entry.actions],
                source_ips=list(entry.source_ips) or None, decision="Allow" if entry.allow else "Deny",
            )
            for entry in list(table.values())
            if part in str(entry.resource)
        ]  # fmt: skip
        if entries:
            policies.append(PolicyInfo(policy_type=kind, entries=entries))
    return AclInfo(subject=f"User:{name}", policies=policies)
