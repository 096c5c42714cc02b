"""Users, permissions on topics, groups and clusters, and the decision about a request, as in Apache RocketMQ 5.

:mod:`~rocketmq_py.core.access.required_permissions` has the permissions that each request requires. Signatures are
verified elsewhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import DLQ_PREFIX, RETRY_PREFIX

_FEW_ENTRIES = 64
"""Size of a table up to which testing every entry is faster than looking up all prefixes of a name."""


class Action(Enum):
    """An action that a permission allows or denies; ALL stands for every action."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Kind(Enum):
    """Type of a resource."""

    ANY = "Any"
    CLUSTER = "Cluster"
    TOPIC = "Topic"
    GROUP = "Group"


class Resource(NamedTuple):
    """A resource, or a pattern of resources, of a permission: ``Topic:orders``, ``Group:shop-*``, ``Cluster:*``, ``*``.

    :param name: a name, or the beginning of names; None for every name.
    :param prefix: True if ``name`` is the beginning of names.
    """

    kind: Kind
    name: str | None = None
    prefix: bool = False

    @classmethod
    def parse(cls, text: str) -> Resource:
        """Parse the text form of a resource, such as ``Topic:orders``.

        :raises ConfigError: the text is not a resource.
        """
        if text == "*":
            return cls(Kind.ANY)
        kind, separator, name = text.partition(":")
        known = next((one for one in Kind if one.value.lower() == kind.lower() and one is not Kind.ANY), None)
        if known is None or not separator or not name:
            raise ConfigError(f"{text!r} is not a resource: Topic:NAME, Group:NAME, Cluster:NAME or * is expected")
        if name == "*":
            return cls(known)
        return cls(known, name[:-1], prefix=True) if name.endswith("*") else cls(known, name)

    def __str__(self) -> str:
        if self.kind is Kind.ANY:
            return "*"
        return f"{self.kind.value}:{self.name or ''}{'*' if self.prefix or self.name is None else ''}"

    def covers(self, other: Resource) -> bool:
        """Return True if this resource or pattern includes the single resource ``other``."""
        if self.kind is Kind.ANY or (self.kind is other.kind and self.name is None):
            return True
        if self.kind is not other.kind or self.name is None or other.name is None:
            return False
        return other.name.startswith(self.name) if self.prefix else other.name == self.name

    @property
    def rank(self) -> tuple[bool, bool, bool, int]:
        """Sort key that puts more specific resources first: a full name, then longer before shorter prefixes, then all
        names of a kind, then ``*``.
        """
        return self.kind is Kind.ANY, self.name is None, self.prefix, -len(self.name or "")


def topic(name: str) -> Resource:
    """Return the resource of a topic; for a retry topic, that of its consumer group."""
    return group(name) if name.startswith(RETRY_PREFIX) else Resource(Kind.TOPIC, name)


def group(name: str) -> Resource:
    """Return the resource of a consumer group.

    :param name: name of the group, or of its retry or dead-letter topic.
    """
    return Resource(Kind.GROUP, name.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX))


class RequiredPermission(NamedTuple):
    """A permission that a request requires: its user must be allowed at least one of ``actions`` on ``resource``."""

    resource: Resource
    actions: tuple[Action, ...]


class AclEntry(msgspec.Struct, frozen=True):
    """A permission that allows or denies actions on a resource.

    :param allow: True allows, False denies.
    :param source_ips: IP addresses and networks of clients to which it applies; empty means all.
    :raises ConfigError: ``actions`` is empty, or a source is neither an address nor a network.
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
                raise ConfigError(f"The source ip is invalid: {text!r} is neither an address nor a network") from e

    def matches(self, need: RequiredPermission, ip: str) -> bool:
        """Return True if this entry applies to a required permission of a request from address ``ip``."""
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
    """A user who signs requests with ``password``. A user with ``is_super`` may do everything."""

    name: str
    password: str
    is_super: bool = False
    enabled: bool = True

    def __repr__(self) -> str:
        return f"User({self.name!r}, is_super={self.is_super}, enabled={self.enabled})"


class Acl(msgspec.Struct):
    """The permissions of one user by resource; ``default`` applies where no entry of ``custom`` matches."""

    custom: dict[Resource, AclEntry] = msgspec.field(default_factory=dict)
    default: dict[Resource, AclEntry] = msgspec.field(default_factory=dict)

    def table(self, policy: str) -> dict[Resource, AclEntry]:
        """Return the attribute ``custom`` or ``default``: the permissions by resource.

        :param policy: its name, ``Custom`` or ``Default``, in upper or lower case.
        :raises ConfigError: ``policy`` is neither of them.
        """
        tables = {"custom": self.custom, "default": self.default}
        found = tables.get(policy.lower())
        if found is None:
            raise ConfigError(f"{policy!r} is not a policy type: Custom or Default is expected")
        return found


def denial_reason(user: User, acl: Acl | None, needs: Iterable[RequiredPermission], ip: str) -> str | None:
    """Return why a user may not make a request, with the missing permission; None if the request is allowed.

    :param acl: the user's permissions; None for none.
    :param needs: the permissions that the request requires.
    :param ip: address of the client.
    """
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
        found = _closest(_candidates(table, need.resource), need, ip)
        if found is not None:
            return found
    return None


def _candidates(table: Mapping[Resource, AclEntry], wanted: Resource) -> Collection[AclEntry]:
    """Return the entries of a table that may cover a resource.

    In a large table, they are looked up by each prefix of the name instead of testing every entry.
    """
    if len(table) <= _FEW_ENTRIES:
        return table.values()
    name = wanted.name or ""
    keys = [Resource(Kind.ANY), Resource(wanted.kind), wanted]
    keys += [Resource(wanted.kind, name[:length], prefix=True) for length in range(1, len(name) + 1)]
    return [table[key] for key in keys if key in table]


def _closest(entries: Collection[AclEntry], need: RequiredPermission, ip: str) -> AclEntry | None:
    matching = [entry for entry in entries if entry.matches(need, ip)]
    return min(matching, key=lambda entry: (*entry.resource.rank, entry.allow), default=None)
