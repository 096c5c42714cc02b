"""Headers of requests about users and permissions. ``access_key`` names the caller of a signed request."""

from __future__ import annotations

import msgspec

from rocketmq_py.protocol.headers.base import Header


class UserHeader(Header, kw_only=True):
    """Creates, changes, deletes or returns a user (request codes 3001 to 3004)."""

    username: str = ""
    access_key: str | None = msgspec.field(name="AccessKey", default=None)


class ListUsers(Header, kw_only=True):
    """Lists the users whose names contain ``filter``; None lists all (request code 3005)."""

    filter: str | None = None


class SubjectHeader(Header, kw_only=True):
    """Creates, changes or returns the permissions of a subject ``User:NAME`` (request codes 3006, 3007, 3009)."""

    subject: str


class DeleteAcl(SubjectHeader, kw_only=True):
    """Deletes permissions of a subject: those on ``resource``, or all if it is None (request code 3008)."""

    policy_type: str | None = None
    resource: str | None = None


class ListAcls(Header, kw_only=True):
    """Lists the permissions whose subject and resource contain the filters; None matches all (request code 3010)."""

    subject_filter: str | None = None
    resource_filter: str | None = None
