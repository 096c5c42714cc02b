"""Headers of requests about users and permissions. ``access_key`` names the caller of a signed request."""

from __future__ import annotations

import msgspec

from rocketmq_py.protocol.headers.base import Header


class UserHeader(Header, kw_only=True):
    """One user (3001 to 3004)."""

    username: str = ""
    access_key: str | None = msgspec.field(name="AccessKey", default=None)


class ListUsers(Header, kw_only=True):
    """Users whose names contain ``filter`` (3005)."""

    filter: str | None = None


class SubjectHeader(Header, kw_only=True):
    """The permissions of a subject, ``User:NAME`` (3006, 3007, 3009)."""

    subject: str


class DeleteAcl(SubjectHeader, kw_only=True):
    """Permissions to remove, all of them without a resource (3008)."""

    policy_type: str | None = None
    resource: str | None = None


class ListAcls(Header, kw_only=True):
    """Permissions whose subject and resource contain the filters (3010)."""

    subject_filter: str | None = None
    resource_filter: str | None = None
