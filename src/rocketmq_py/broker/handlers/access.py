"""Requests that list and change users and permissions."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import msgspec

from rocketmq_py.broker.body_limits import checked
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.access import AclInfo, UserInfo
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.access import DeleteAcl, ListAcls, ListUsers, SubjectHeader, UserHeader
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.server.access.conversion import info_of, user_of
from rocketmq_py.server.access.table import AccessTable
from rocketmq_py.server.sliced_work import in_slices
from rocketmq_py.wire import fastjson


class AccessHandlers:
    """Handlers of the request codes 3001 to 3010. Changes are answered when they are on disk."""

    def __init__(self, access: AccessTable) -> None:
        self._access = access

    @handles(Code.AUTH_CREATE_USER)
    async def create_user(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Create a user; only a super user may create super users."""
        del peer
        header: UserHeader = request.header
        user = user_of(UserInfo.decode(checked(request.code, body)))
        user.name = _name(header)
        if user.is_super:
            self._super_only(header, "The super user can only be create by super user")
        self._access.create_user(user)
        await self._access.saved()
        return Reply()

    @handles(Code.AUTH_UPDATE_USER)
    async def update_user(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Change the password, type or status of a user."""
        del peer
        header: UserHeader = request.header
        info = UserInfo.decode(checked(request.code, body))
        given = user_of(info)
        old = self._access.user(_name(header))
        if given.is_super or (old is not None and old.is_super):
            self._super_only(header, "The super user can only be update by super user")
        self._access.update_user(
            header.username, info.password, given.is_super if info.user_type else None,
            given.enabled if info.user_status else None,
        )  # fmt: skip
        await self._access.saved()
        return Reply()

    @handles(Code.AUTH_DELETE_USER)
    async def delete_user(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Delete a user and its permissions."""
        del peer, body
        header: UserHeader = request.header
        old = self._access.user(header.username)
        if old is not None and old.is_super:  # with the remark of an update, as in Java
            self._super_only(header, "The super user can only be update by super user")
        self._access.delete_user(header.username)
        await self._access.saved()
        return Reply()

    @handles(Code.AUTH_GET_USER)
    def user(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return one user; without a body if it does not exist."""
        del peer, body
        found = self._access.user(_name(request.header))
        return Reply(body=info_of(found).encode() if found is not None else b"")

    @handles(Code.AUTH_LIST_USER)
    async def users(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """List all users."""
        del peer, body
        header: ListUsers = request.header
        users = self._access.users(header.filter or "")
        return Reply(body=await in_slices(_all(map(info_of, users))))

    @handles(Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL)
    async def put_acl(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Create or replace permissions of a user."""
        del peer
        header: SubjectHeader = request.header
        info = AclInfo.decode(checked(request.code, body))
        await in_slices(self._access.put_acl(header.subject, info))
        await self._access.saved()
        return Reply()

    @handles(Code.AUTH_DELETE_ACL)
    async def delete_acl(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Delete permissions of a user."""
        del peer, body
        header: DeleteAcl = request.header
        self._access.delete_acl(header.subject, header.policy_type, header.resource)
        await self._access.saved()
        return Reply()

    @handles(Code.AUTH_GET_ACL)
    def acl(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the permissions of a user; without a body if it has none."""
        del peer, body
        header: SubjectHeader = request.header
        found = self._access.acl(header.subject)
        return Reply(body=found.encode() if found is not None else b"")

    @handles(Code.AUTH_LIST_ACL)
    async def acls(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """List the permissions of all users."""
        del peer, body
        header: ListAcls = request.header
        acls = self._access.acls(header.subject_filter or "", header.resource_filter or "")
        return Reply(body=await in_slices(_all(acls)))

    def _super_only(self, header: UserHeader, why: str) -> None:
        """Refuse the request of a user that is not a super user.

        A request without a user passes, because access control is off then.

        :param why: the remark of the refusal.
        :raises BrokerError: SYSTEM_ERROR.
        """
        asker = self._access.user(header.access_key) if header.access_key else None
        if header.access_key and (asker is None or not asker.is_super):
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, why)


def _name(header: UserHeader) -> str:
    if not header.username:
        raise BrokerError.of(ResponseCode.INVALID_PARAMETER, "The username is blank")
    return header.username


def _all(infos: Iterable[UserInfo | AclInfo | None]) -> Generator[None, None, bytes]:
    """Encode a list in steps: its items, without None. An empty list has no body."""
    parts = []
    for info in infos:
        if info is not None:
            parts.append(fastjson.dumps(msgspec.json.decode(info.encode())))
        yield
    return b"[%s]" % b",".join(parts) if parts else b""
