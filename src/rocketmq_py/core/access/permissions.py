"""Who may do what: users, permissions on topics, groups and clusters, and how they decide, as in Apache RocketMQ 5.

Knows the rules. What a request needs is said by ``core.access.required_permissions``; who signed it has been found
out before.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from enum import Enum
from typing import NamedTuple

import msgspec

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import DLQ_PREFIX, RETRY_PREFIX


class Action(Enum):
    """What may be allowed; ALL stands for the others."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Kind(Enum):
    """What a permission is about."""

    ANY = "Any"
    CLUSTER = "Cluster"
    TOPIC = "Topic"
    GROUP = "Group"


class Resource(NamedTuple):
    """What a permission is about, as in ``Topic:orders``, ``Group:shop-*``, ``Cluster:*`` or ``*``.

    :param name: the name, or what it begins with; None for every one.
    """

    kind: Kind
    name: str | None = None
    prefix: bool = False

    @classmethod
    def parse(cls, text: str) -> Resource:
        """The resource of its text.

        :raises ConfigError: it is none.
        """
        if text == "*":
            return cls(Kind.ANY)
        kind, separator, name = text.partition(":")
        known = next((one for one in Kind if one.value.lower() == kind.lower() and one is not Kind.ANY), None)
        if known is None or not separator or not name:
            raise ConfigError(f"{text!r} is no resource: Topic:NAME, Group:NAME, Cluster:NAME or * is expected")
        if name == "*":
            return cls(known)
        return cls(known, name[:-1], prefix=True) if name.endswith("*") else cls(known, name)

    def __str__(self) -> str:
        if self.kind is Kind.ANY:
            return "*"
        return f"{self.kind.value}:{self.name or ''}{'*' if self.prefix or self.name is None else ''}"

    def covers(self, other: Resource) -> bool:
        """Whether a permission about this is one about a single other one."""
        if self.kind is Kind.ANY or (self.kind is other.kind and self.name is None):
            return True
        if self.kind is not other.kind or self.name is None or other.name is None:
            return False
        return other.name.startswith(self.name) if self.prefix else other.name == self.name

    @property
    def rank(self) -> tuple[bool, bool, bool, int]:
        """Orders resources that cover the same one, the closest first: a name, a long prefix, a short one, all."""
        return self.kind is Kind.ANY, self.name is None, self.prefix, -len(self.name or "")


def topic(name: str) -> Resource:
    """A topic; a group's own topic of retries is the group's business."""
    return group(name) if name.startswith(RETRY_PREFIX) else Resource(Kind.TOPIC, name)


def group(name: str) -> Resource:
    """A consumer group, also when its topic of retries or dead letters is given."""
    return Resource(Kind.GROUP, name.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX))


class RequiredPermission(NamedTuple):
    """What a request needs: one of ``actions`` on a resource."""

    resource: Resource
    actions: tuple[Action, ...]


class AclEntry(msgspec.Struct, frozen=True):
    """One permission, or one refusal.

    :param source_ips: addresses and networks it holds for; none means all.
    """

    resource: Resource
    actions: tuple[Action, ...]
    allow: bool
    source_ips: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.actions:
            raise ConfigError("The actions is empty.")
        for text in self.source_ips:
            try:
                ipaddress.ip_network(text, strict=False)
            except ValueError as e:
                raise ConfigError(f"The source ip is invalid: {text!r} is no address and no network") from e

    def matches(self, need: RequiredPermission, ip: str) -> bool:
        """Whether it decides about a need of a request from an address."""
        if not self.resource.covers(need.resource):
            return False
        if Action.ALL not in self.actions and not any(action in self.actions for action in need.actions):
            return False
        return not self.source_ips or any(_contains(text, ip) for text in self.source_ips)


def _contains(network: str, ip: str) -> bool:
    try:
        return ipaddress.ip_address(ip) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


class User(msgspec.Struct, kw_only=True):
    """Who may sign requests. ``is_super`` may do everything."""

    name: str
    password: str
    is_super: bool = False
    enabled: bool = True

    def __repr__(self) -> str:
        return f"User({self.name!r}, is_super={self.is_super}, enabled={self.enabled})"


class Acl(msgspec.Struct):
    """The permissions of one user: those given, and those that hold where none of these says anything."""

    custom: dict[Resource, AclEntry] = msgspec.field(default_factory=dict)
    default: dict[Resource, AclEntry] = msgspec.field(default_factory=dict)

    def table(self, policy: str) -> dict[Resource, AclEntry]:
        """The permissions of a policy type, ``Custom`` or ``Default``.

        :raises ConfigError: there is no such type.
        """
        tables = {"custom": self.custom, "default": self.default}
        found = tables.get(policy.lower())
        if found is None:
            raise ConfigError(f"{policy!r} is no policy type: Custom or Default is expected")
        return found


def denial_reason(user: User, acl: Acl | None, needs: Iterable[RequiredPermission], ip: str) -> str | None:
    """Why a user may not make a request, naming the permission that is missing; None when it may be made."""
    if user.is_super:
        return None
    for need in needs:
        entry = _deciding(acl, need, ip)
        if entry is None or not entry.allow:
            why = "no matched policies." if entry is None else "the decision is deny."
            wanted = " or ".join(action.value for action in need.actions)
            return f"User:{user.name} has no permission to access {need.resource} from {ip} ({wanted} is needed), {why}"
    return None


def _deciding(acl: Acl | None, need: RequiredPermission, ip: str) -> AclEntry | None:
    for table in (acl.custom, acl.default) if acl is not None else ():
        found = _closest(table.values(), need, ip)
        if found is not None:
            return found
    return None


def _closest(entries: Collection[AclEntry], need: RequiredPermission, ip: str) -> AclEntry | None:
    matching = [entry for entry in entries if entry.matches(need, ip)]
    return min(matching, key=lambda entry: (*entry.resource.rank, entry.allow), default=None)
