"""Authentication and authorization of requests.

It verifies signatures; ``core.access.permissions`` decides what a user may do.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterable
from typing import Any

from rocketmq_py.accelerator import SendRun
from rocketmq_py.core.access import permissions
from rocketmq_py.core.access.permissions import RequiredPermission, User
from rocketmq_py.core.access.required_permissions import required_permissions
from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.access.table import AccessTable, Save
from rocketmq_py.server.fault_log import FaultLog
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.reply import Reply
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.signing import ACCESS_KEY, SIGNATURE, Credentials, sign

log = logging.getLogger(__name__)

RecordPermissions = Callable[[Command], list[RequiredPermission]]
"""Returns the permissions that a user needs for the stored messages to which a request refers."""


class AuthDispatcher:
    """Authenticates and authorizes the requests of a server.

    :param load: returns the saved users and permissions; None if nothing was saved yet.
    :param save: saves users and permissions that have changed; as of :class:`AccessTable`.
    :param cluster: the name of the server's cluster.
    :raises ConfigError: the saved users and permissions are invalid.
    """

    def __init__(self, settings: AccessSettings, load: Callable[[], Any], save: Save, cluster: str) -> None:
        self._settings = settings
        self._cluster = cluster
        self._fault_log = FaultLog()
        self.table = AccessTable(settings, load, save)

    @property
    def enabled(self) -> bool:
        """True if requests must be signed (``authenticationEnabled``)."""
        return self._settings.authentication_enabled

    @property
    def inner(self) -> Credentials | None:
        """Credentials with which this server signs its own requests; None if it does not sign them."""
        return self._settings.inner

    async def saved(self) -> None:
        """Wait until all changes of users and permissions are on disk.

        :raises OSError: the disk is full or fails.
        """
        await self.table.saved()

    def admit(
        self,
        peer: Peer,
        request: Command,
        record_permissions: RecordPermissions = lambda _: [],
    ) -> Reply | None:
        """Authenticate and authorize a request; return a reply with NO_PERMISSION, or None if the request is admitted.

        :param record_permissions: returns the permissions needed for the stored messages to which a request refers.
        """
        try:
            why = self._refusal(peer, request, record_permissions)
        except (BadHeader, ValueError) as e:  # ValueError: text that cannot be encoded (a lone surrogate)
            why = f"its permissions cannot be determined: {e}"
        if why is None:
            return None
        if request.code == RequestCode.HEART_BEAT:
            self._fault_log.refused_heartbeat(peer, request.body, request.language, why)
        else:
            log.debug("request %d of %s is refused: %s", request.code, peer.address, why)
        return Reply(ResponseCode.NO_PERMISSION, why)

    def admit_run(self, peer: Peer, run: SendRun) -> SendRun:
        """Verify the signatures of a run of sends; check once per user and topic whether the user may send to it.

        Sends that did not pass have no kind in the returned run, so run handlers leave them out: they are handled one
        by one, and :meth:`admit` decides on each. Record permissions are not checked, because sends do not refer to
        stored messages.
        """
        settings, code = self._settings, RequestCode.SEND_MESSAGE_V2
        if code in settings.authentication_whitelist:
            return run.verified([])
        is_open = not settings.authorization_enabled or code in settings.authorization_whitelist
        return run.verified([self._key(peer, kind[0], kind[4], is_open=is_open) for kind in run.kinds()])

    def denial_of_signed(
        self, peer: Peer, code: int, name: str, signed: bytes, signature: str, wanted: Iterable[RequiredPermission]
    ) -> str | None:
        """Return why a call of gRPC is refused, None if it is admitted.

        :param code: the request of remoting that does the same; it may be on a whitelist.
        :param name: the user; empty if the call is not signed.
        :param signed: what the user has signed.
        :param signature: the HMAC-SHA1 of it in hexadecimal digits.
        :param wanted: the permissions that the call needs; they are looked up with authorization only.
        """
        settings = self._settings
        is_open = not settings.authorization_enabled or code in settings.authorization_whitelist
        may_be_unsigned = code in settings.authentication_whitelist
        if is_open and may_be_unsigned:
            return None
        user = self._user_of(name, signed, signature)
        if isinstance(user, str):
            return None if may_be_unsigned and not list(wanted) else user
        return None if is_open else self._denial(user, wanted, _ip(peer))

    def _user_of(self, name: str, signed: bytes, signature: str) -> User | str:
        if not name:
            return "username cannot be null."
        given = signature.lower().encode("utf-8", "replace")

        def is_right(secret: str) -> bool:
            return hmac.compare_digest(hmac.digest(secret.encode(), signed, "sha1").hex().encode(), given)

        return self._verified(name, is_right)

    def _key(self, peer: Peer, topic: str, name: str, *, is_open: bool) -> bytes | None:
        """Return the secret key with which to verify the sends of user ``name`` to ``topic``.

        None if the user may not send there, is unknown or disabled: then :meth:`admit` decides on each send.

        :param is_open: True if sends need no permission.
        """
        user = self.table.user(name)
        if user is None or not user.enabled:
            return None
        try:
            wanted = required_permissions(RequestCode.SEND_MESSAGE_V2, {"b": topic}, b"", self._cluster)
            if not is_open and self._denial(user, wanted, _ip(peer)) is not None:
                return None
            return user.password.encode()
        except (BadHeader, ValueError) as e:  # as in admit, which then decides on each of these sends
            log.debug("permissions of %s for %s cannot be determined: %s", name, topic, e)
            return None

    def _refusal(self, peer: Peer, request: Command, record_permissions: RecordPermissions) -> str | None:
        settings, code = self._settings, request.code
        is_open = not settings.authorization_enabled or code in settings.authorization_whitelist
        may_be_unsigned = code in settings.authentication_whitelist
        if is_open and may_be_unsigned:
            return None
        user = self._signed_by(request)
        if isinstance(user, str) and not may_be_unsigned:
            return user
        if is_open:
            return None
        wanted = required_permissions(code, request.ext, request.body, self._cluster)
        if isinstance(user, str):
            return user if wanted else None  # without a user there is no permission
        ip = _ip(peer)
        return self._denial(user, wanted, ip) or self._record_denial(user, request, record_permissions, ip)

    def _denial(self, user: User, wanted: Iterable[RequiredPermission], ip: str) -> str | None:
        return permissions.denial_reason(user, self.table.acl_of(user.name), wanted, ip)

    def _record_denial(
        self, user: User, request: Command, record_permissions: RecordPermissions, ip: str
    ) -> str | None:
        if user.is_super or self._denial(user, record_permissions(request), ip) is None:
            return None
        return f"User:{user.name} has no permission for the topic of the stored message"  # does not reveal the topic

    def _signed_by(self, request: Command) -> User | str:
        """Return the user that signed a request, or why the signature is invalid."""
        name = request.ext.get(ACCESS_KEY)
        if not name:
            return "the request is not signed: this server requires credentials (an access key and a secret key)"

        def is_right(secret: str) -> bool:
            expected = sign(request.ext, request.body, secret)
            return hmac.compare_digest(expected.encode(), request.ext.get(SIGNATURE, "").encode())

        return self._verified(name, is_right)

    def _verified(self, name: str, is_right: Callable[[str], bool]) -> User | str:
        """Return a user, or why it is not accepted; ``is_right`` compares the signature for the user's secret."""
        user = self.table.user(name)
        if user is None:
            return f"User:{name} is not found."
        if not user.enabled:
            return f"User:{name} is disabled."
        return user if is_right(user.password) else "check signature failed."


def _ip(peer: Peer) -> str:
    return peer.address.rpartition(":")[0].strip("[]")
