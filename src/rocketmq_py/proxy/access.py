"""Who may do what through the proxy.

The signature of a call proves its user to the proxy, not to a broker: requests of remoting are signed otherwise. So the
proxy checks calls, by the users and permissions that a broker of the cluster has, and signs its requests with a key of
its own. Apache's proxy does the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from rocketmq_py.core.access.permissions import Action
from rocketmq_py.core.access.record_topics import real_topic
from rocketmq_py.errors import BrokerError, CorruptRecord, RocketMQError
from rocketmq_py.grpc.access import check_signed, needed
from rocketmq_py.grpc.replies import guarded, refuse
from rocketmq_py.grpc.requests import Inner
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.headers.access import ListAcls, ListUsers
from rocketmq_py.protocol.headers.pull import ViewMessage
from rocketmq_py.proxy.facts import Facts
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.access.settings import AccessSettings
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.tasks import Background
from rocketmq_py.wire.record import decode_record

_log = logging.getLogger(__name__)

REFRESH_SECONDS = 10.0


class OpenAccess:
    """Admits all calls."""

    def check(
        self, call: Call, code: RequestCode, actions: tuple[Action, ...], *, topic: str = "", group: str = "",
        topics: Iterable[str] = (),
    ) -> None:  # fmt: skip
        pass

    def check_record(self, call: Call, inner: Inner, then: Callable[[], None]) -> None:
        del call, inner
        then()


class ClusterAccess(OpenAccess):
    """Checks calls by the users and permissions of the cluster.

    :param has_permissions: False admits every call with a right signature.
    """

    def __init__(self, facts: Facts, *, has_permissions: bool) -> None:
        self._facts = facts
        self._settings = AccessSettings(authentication_enabled=True, authorization_enabled=has_permissions)
        self._access: AuthDispatcher | None = None
        self._known: tuple[bytes, bytes] | None = None
        self._is_old = False
        self._work = Background()

    def check(
        self, call: Call, code: RequestCode, actions: tuple[Action, ...], *, topic: str = "", group: str = "",
        topics: Iterable[str] = (),
    ) -> None:  # fmt: skip
        if self._access is None:
            raise CallRefused(Code.UNAUTHORIZED, "the users of the cluster are not known yet; the log says why")
        check_signed(self._access, call, code, needed((topic, *topics), group, actions))

    def check_record(self, call: Call, inner: Inner, then: Callable[[], None]) -> None:
        """Check that the user of a call may use the topic of the record that its request names by an offset.

        Brokers cannot: the request is signed by the proxy, which may do everything.
        """
        self._work.start(self._check_record(call, inner, then))

    async def _check_record(self, call: Call, inner: Inner, then: Callable[[], None]) -> None:
        is_end = inner.code == RequestCode.END_TRANSACTION
        place = ViewMessage(offset=inner.header.commit_log_offset if is_end else inner.header.offset)
        try:
            record = decode_record(await self._facts.ask_master(inner.broker, RequestCode.VIEW_MESSAGE_BY_ID, place))
        except (BrokerError, CorruptRecord):
            text = f"broker {inner.broker} has no message at this place"
            refuse(call, CallRefused(Code.MESSAGE_NOT_FOUND, text))
            return
        except RocketMQError as e:
            text = f"broker {inner.broker} does not answer: {e}"
            refuse(call, CallRefused(Code.INTERNAL_SERVER_ERROR, text))
            return
        topic = real_topic(record.topic, lambda: record.properties)

        def admitted() -> None:
            self.check(call, inner.code, (Action.PUB if is_end else Action.SUB,), topic=topic)
            then()

        if call.is_open:
            guarded(admitted, partial(refuse, call))

    async def stop(self) -> None:
        """Give up checks that wait for a broker."""
        await self._work.stop()

    async def refresh(self) -> None:
        """Ask a broker for users and permissions; without an answer, the known ones stay. Called periodically."""
        try:
            users = await self._facts.ask_any(RequestCode.AUTH_LIST_USER, ListUsers())
            acls = await self._facts.ask_any(RequestCode.AUTH_LIST_ACL, ListAcls())
            self._take(users or b"[]", acls or b"[]")
        except (RocketMQError, msgspec.DecodeError) as e:
            if not self._is_old:
                what = "calls are refused" if self._access is None else "the known ones stay in force"
                _log.warning("users and permissions of the cluster cannot be read, %s: %s", what, e)
            self._is_old = True
        else:
            self._is_old = False

    def _take(self, users: bytes, acls: bytes) -> None:
        if self._known == (users, acls):
            return
        table = {"users": msgspec.json.decode(users), "acls": msgspec.json.decode(acls)}
        self._access = AuthDispatcher(self._settings, lambda: table, lambda _: None, "")
        self._known = users, acls
