"""Administration of users and permissions, with the requests of mqadmin's createUser, updateAcl and so on.

Every broker has its own list, slaves included: changes go to all brokers of a cluster, queries to one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rocketmq_py.client.admin.transactions import TransactionAdmin
from rocketmq_py.core.access.permissions import Action, Resource
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo, UserInfo
from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.access import DeleteAcl, ListAcls, ListUsers, SubjectHeader, UserHeader
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.wire import fastjson

B = TypeVar("B", bound=Body)

_CUSTOM = "Custom"


class AccessAdmin(TransactionAdmin):
    """The part of :class:`~rocketmq_py.client.admin.admin.Admin` about access control."""

    # -- users

    async def users(self, name: str = "", *, cluster: str | None = None) -> list[UserInfo]:
        """The users whose names contain ``name``, from the first broker of the cluster, or of all."""
        answer = await self._ask(await self._one(cluster), RequestCode.AUTH_LIST_USER, ListUsers(filter=name))
        return _each(answer.body, UserInfo)

    async def user(self, name: str, *, cluster: str | None = None) -> UserInfo | None:
        """A user, from the first broker of the cluster, or of all; None if there is none."""
        answer = await self._ask(await self._one(cluster), RequestCode.AUTH_GET_USER, UserHeader(username=name))
        return UserInfo.decode(answer.body) if answer.body else None

    async def create_user(
        self, name: str, password: str, *, is_super: bool = False, cluster: str | None = None
    ) -> None:
        """Add a user to every broker of a cluster, or of all.

        :param is_super: allowed everything; only a super user can create one.
        :raises BrokerError: a broker has a user of this name, or refuses; other brokers may have added it.
        """
        info = UserInfo(username=name, password=password, user_type=_type(is_super))
        await self._change(cluster, RequestCode.AUTH_CREATE_USER, UserHeader(username=name), info)

    async def update_user(
        self, name: str, *, password: str | None = None, is_super: bool | None = None, enabled: bool | None = None,
        cluster: str | None = None,
    ) -> None:  # fmt: skip
        """Change a user; parameters that are None stay as they are.

        :param enabled: False blocks the user.
        :raises ConfigError: all parameters are None. :raises BrokerError: a broker has no such user, or refuses.
        """
        if password is None and is_super is None and enabled is None:
            raise ConfigError(f"no change given for user {name!r}: give password, is_super or enabled")
        info = UserInfo(
            username=name, password=password, user_type=None if is_super is None else _type(is_super),
            user_status=None if enabled is None else ("enable" if enabled else "disable"),
        )  # fmt: skip
        await self._change(cluster, RequestCode.AUTH_UPDATE_USER, UserHeader(username=name), info)

    async def delete_user(self, name: str, *, cluster: str | None = None) -> None:
        """Remove a user and its permissions; does nothing if there is no such user."""
        await self._change(cluster, RequestCode.AUTH_DELETE_USER, UserHeader(username=name))

    # -- permissions

    async def acls(self, user: str = "", resource: str = "", *, cluster: str | None = None) -> list[AclInfo]:
        """The permissions of users and for resources whose names contain these texts, from one broker."""
        header = ListAcls(subject_filter=user, resource_filter=resource)
        answer = await self._ask(await self._one(cluster), RequestCode.AUTH_LIST_ACL, header)
        return _each(answer.body, AclInfo)

    async def acl(self, user: str, *, cluster: str | None = None) -> AclInfo | None:
        """The permissions of a user, from one broker; None if it has none."""
        header = SubjectHeader(subject=_subject(user))
        answer = await self._ask(await self._one(cluster), RequestCode.AUTH_GET_ACL, header)
        return AclInfo.decode(answer.body) if answer.body else None

    async def set_acl(
        self, user: str, resources: Sequence[str], actions: Sequence[str], *, allow: bool = True,
        source_ips: Sequence[str] = (), cluster: str | None = None,
    ) -> None:  # fmt: skip
        """Allow or deny a user actions on resources; replaces its permissions for the same resources.

        :param resources: ``Topic:NAME``, ``Group:NAME``, ``Cluster:NAME``, each also as ``NAME*`` or ``*``; or ``*``.
        :param actions: of Pub, Sub, Create, Update, Delete, Get, List and All.
        :param source_ips: addresses and networks that the permission applies to; none means all.
        :raises ConfigError: an illegal resource or action.
        :raises BrokerError: a broker has no such user, or refuses.
        """
        if not resources or not actions:
            raise ConfigError("a permission needs a resource and an action")
        wanted = [_action(word) for word in actions]
        entries = [
            EntryInfo(
                resource=str(Resource.parse(text)), actions=wanted, source_ips=list(source_ips) or None,
                decision="Allow" if allow else "Deny",
            )
            for text in resources
        ]  # fmt: skip
        info = AclInfo(subject=_subject(user), policies=[PolicyInfo(policy_type=_CUSTOM, entries=entries)])
        await self._change(cluster, RequestCode.AUTH_UPDATE_ACL, SubjectHeader(subject=_subject(user)), info)

    async def delete_acl(self, user: str, resource: str | None = None, *, cluster: str | None = None) -> None:
        """Remove the permissions of a user for a resource, or all of them.

        :raises BrokerError: a broker has no such user, or refuses.
        """
        header = DeleteAcl(subject=_subject(user), policy_type=_CUSTOM if resource else None, resource=resource)
        await self._change(cluster, RequestCode.AUTH_DELETE_ACL, header)

    # -- choice of brokers

    async def _change(
        self, cluster: str | None, code: RequestCode, header: Header, info: UserInfo | AclInfo | None = None
    ) -> None:
        body = info.encode() if info is not None else b""
        await self._ask_all(await self._masters_and_slaves(cluster), code, header, body)

    async def _one(self, cluster: str | None) -> str:
        return (await self._masters(cluster))[0]


def _type(is_super: bool) -> str:
    return "Super" if is_super else "Normal"


def _subject(user: str) -> str:
    return f"User:{user}"


def _action(word: str) -> str:
    for action in Action:
        if action.value.lower() == word.strip().lower():
            return action.value
    raise ConfigError(f"{word!r} is not an action; use one of {', '.join(action.value for action in Action)}")


def _each(body: bytes, kind: type[B]) -> list[B]:
    return [kind.convert(one) for one in fastjson.loads(body)] if body else []
