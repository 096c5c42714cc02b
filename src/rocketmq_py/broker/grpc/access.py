"""Authentication and permissions of calls: the same users and permissions as for remoting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from rocketmq_py.broker.record_permissions import RecordPermissions
from rocketmq_py.core.access.permissions import Action
from rocketmq_py.grpc.access import check_signed, needed
from rocketmq_py.grpc.replies import refuse
from rocketmq_py.grpc.requests import Inner
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.store.fs.residency import NotInMemory, Residency
from rocketmq_py.tasks import Background
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.grpc import GrpcStatus

_log = logging.getLogger(__name__)


class CallAccess:
    """Checks the signatures of calls and what their users may do.

    :param records: knows the permissions needed for the stored messages to which a request refers.
    """

    def __init__(self, access: AuthDispatcher, records: RecordPermissions) -> None:
        self._access = access
        self._records = records
        self._loading = Background()

    def check(
        self, call: Call, code: RequestCode, actions: tuple[Action, ...], *, topic: str = "", group: str = "",
        topics: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Check a call that needs one of ``actions`` for each of the topics and for the group.

        :param code: the request of remoting that does the same.
        :raises CallRefused: UNAUTHORIZED.
        """
        if not self._access.enabled:
            return
        check_signed(self._access, call, code, needed((topic, *topics), group, actions))

    def check_record(self, call: Call, inner: Inner, then: Callable[[], None]) -> None:
        """Check the stored message to which a request refers, then call ``then``.

        That is done later if the message has to be read from disk; a refusal is then the answer of the call.

        :raises CallRefused: UNAUTHORIZED.
        """
        if not self._access.enabled:
            then()
            return
        command = Command(inner.code, ext=inner.header.to_ext())
        try:
            self._check_loaded(call, command, self._records.store.new_residency())
        except NotInMemory:
            self._loading.start(self._check_later(call, command, then))
        else:
            then()

    async def _check_later(self, call: Call, command: Command, then: Callable[[], None]) -> None:
        try:
            await self._records.store.loader.run(partial(self._check_loaded, call, command))
            if call.is_open:
                then()
        except CallRefused as e:
            refuse(call, e)
        except Exception:  # noqa: BLE001 - the client waits for an answer
            _log.exception("a message to which a call refers cannot be read")
            call.end(GrpcStatus.INTERNAL, "the message cannot be read; the log of the server says why")

    def _check_loaded(self, call: Call, command: Command, residency: Residency | None) -> None:
        wanted = self._records.required(command, residency)
        check_signed(self._access, call, RequestCode(command.code), wanted)
