"""Administration of users and permissions (ACL), with the requests of mqadmin's createUser, updateAcl and so on.

Every broker, slaves included, stores its own users and permissions: changes go to all brokers of a cluster, queries to
one of its masters.
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
    """Base of :class:`~rocketmq_py.client.admin.admin.Admin`: its methods for users and permissions."""

    # -- users

    async def users(self, name: str = "", *, cluster: str | None = None) -> list[UserInfo]:
        """Ask one broker for the users whose names contain ``name``.

        :param cluster: ask a broker of this cluster; None: of any.
        """
        answer = await self._ask(await self._one(cluster), RequestCode.AUTH_LIST_USER, ListUsers(filter=name))
        return _each(answer.body, UserInfo)

    async def user(self, name: str, *, cluster: str | None = None) -> UserInfo | None:
        """Ask one broker for a user; None if there is no such user.

        :param cluster: ask a broker of this cluster; None: of any.
        """
        answer = await self._ask(await self._one(cluster), RequestCode.AUTH_GET_USER, UserHeader(username=name))
        return UserInfo.decode(answer.body) if answer.body else None

    async def create_user(
        self, name: str, password: str, *, is_super: bool = False, cluster: str | None = None
    ) -> None:
        """Add a user to every broker.

        :param is_super: make a super user, who may do everything; only a super user can create one.
        :param cluster: only on brokers of this cluster.
        :raises BrokerError: a broker already has a user of this name, or refuses; other brokers may have added it.
        """
        info = UserInfo(username=name, password=password, user_type=_type(is_super))
        await self._change(cluster, RequestCode.AUTH_CREATE_USER, UserHeader(username=name), info)

    async def update_user(
        self, name: str, *, password: str | None = None, is_super: bool | None = None, enabled: bool | None = None,
        cluster: str | None = None,
    ) -> None:  # fmt: skip
        """Change a user on every broker; parameters that are None leave their setting unchanged.

        :param enabled: False blocks the user.
        :param cluster: only on brokers of this cluster.
        :raises ConfigError: no change is given.
        :raises BrokerError: a broker has no such user, or refuses.
        """
        if password is None and is_super is None and enabled is None:
            raise ConfigError(f"no change given for user {name!r}: give password, is_super or enabled")
        info = UserInfo(
            username=name, password=password, user_type=None if is_super is None else _type(is_super),
            user_status=None if enabled is None else ("enable" if enabled else "disable"),
        )  # fmt: skip
        await self._change(cluster, RequestCode.AUTH_UPDATE_USER, UserHeader(username=name), info)

    async def delete_user(self, name: str, *, cluster: str | None = None) -> None:
        """Remove a user and its permissions from every broker; does nothing if there is no such user.

        :param cluster: only from brokers of this cluster.
        """
        await self._change(cluster, RequestCode.AUTH_DELETE_USER, UserHeader(username=name))

    # -- permissions

    async def acls(self, user: str = "", resource: str = "", *, cluster: str | None = None) -> list[AclInfo]:
        """Ask one broker for the permissions of users whose names contain ``user``.

        :param resource: only permissions for resources whose names contain this text.
        :param cluster: ask a broker of this cluster; None: of any.
        """
        header = ListAcls(subject_filter=user, resource_filter=resource)
        answer = await self._ask(await self._one(cluster), RequestCode.AUTH_LIST_ACL, header)
        return _each(answer.body, AclInfo)

    async def acl(self, user: str, *, cluster: str | None = None) -> AclInfo | None:
        """Ask one broker for the permissions of a user; None if the user has none.

        :param cluster: ask a broker of this cluster; None: of any.
        """
        header = SubjectHeader(subject=_subject(user))
        answer = await self._ask(await self._one(cluster), RequestCode.AUTH_GET_ACL, header)
        return AclInfo.decode(answer.body) if answer.body else None

    async def set_acl(
        self, user: str, resources: Sequence[str], actions: Sequence[str], *, allow: bool = True,
        source_ips: Sequence[str] = (), cluster: str | None = None,
    ) -> None:  # fmt: skip
        """Allow or deny a user actions on resources, on every broker; replaces its permissions for these resources.

        :param resources: ``Topic:NAME``, ``Group:NAME`` or ``Cluster:NAME``, where NAME may end in ``*`` for a prefix
            or be ``*`` for all; or ``*`` for all resources.
        :param actions: some of Pub, Sub, Create, Update, Delete, Get, List and All.
        :param allow: False denies the actions.
        :param source_ips: client addresses and networks that the permission applies to; empty means all.
        :param cluster: only on brokers of this cluster.
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
        """Remove permissions of a user from every broker.

        :param resource: only the permission for this resource; None: all permissions of the user.
        :param cluster: only from brokers of this cluster.
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
