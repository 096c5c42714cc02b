"""JSON bodies of requests about users and permissions."""

from __future__ import annotations

import msgspec

from rocketmq_py.protocol.bodies.base import Body


class UserInfo(Body, kw_only=True):
    """A user, in requests and responses (request codes 3001, 3002, 3004, 3005)."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None

    def __repr__(self) -> str:
        return f"UserInfo({self.username!r}, {self.user_type}, {self.user_status})"


class EntryInfo(Body, kw_only=True):
    """The actions that a subject may, or may not, do on one resource; ``decision`` is Allow or Deny."""

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body, kw_only=True):
    """The permissions of one policy type, Custom or Default."""

    policy_type: str | None = None
    entries: list[EntryInfo] = msgspec.field(default_factory=list)


class AclInfo(Body, kw_only=True):
    """The permissions of a subject ``User:NAME`` (request codes 3006, 3007, 3009, 3010)."""

    subject: str | None = None
    policies: list[PolicyInfo] = msgspec.field(default_factory=list)
