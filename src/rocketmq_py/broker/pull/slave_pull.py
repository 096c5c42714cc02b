"""The pull path of a slave: pulls are refused unless ``slaveReadEnable`` is on.

The rules by which a slave's answers differ from a master's are in ``core.broker.slave_read``.
"""

from __future__ import annotations

from typing import Any

from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.pull.pull import Admitted, PullService, answer_fields
from rocketmq_py.core.broker.slave_read import slave_answer
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply
from rocketmq_py.server.requests.failures import rejected
from rocketmq_py.store import GetResult, GetStatus
from rocketmq_py.store.fs.residency import Residency

_INSIDE = (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING)


class SlavePullService(PullService):
    """Answers pulls of a slave.

    :param role: has the master's address.
    :param parts: the arguments of :class:`PullService`.
    """

    def __init__(self, role: Role, *parts: Any) -> None:
        super().__init__(*parts)
        self._role = role

    def pull(
        self, peer: Peer, request: Request, *, may_hold: bool = True, residency: Residency | None = None
    ) -> Reply | Hold:
        """Answer as a master does; refuse with SYSTEM_BUSY while ``slaveReadEnable`` is off.

        Parameters are those of :meth:`PullService.pull`.
        """
        if not self._config.slave_read_enable:
            return rejected()
        return super().pull(peer, request, may_hold=may_hold, residency=residency)

    def _reply(self, header: PullMessage, admitted: Admitted, found: GetResult) -> Reply:
        """Build the answer as a master does, but leave an offset outside the queue as it is: the slave may lag.

        With ``offsetCheckInSlave`` such an offset is corrected as by a master.
        """
        reply = super()._reply(header, admitted, found)
        group, corrects = admitted.group, self._config.offset_check_in_slave
        code, broker_id = slave_answer(
            reply.code, self._suggested_broker(group, found.suggest_slave), group.broker_id, corrects=corrects,
            has_master=self._role.master.address is not None,
        )  # fmt: skip
        stays = not corrects and found.status not in _INSIDE
        next_offset = header.queue_offset if stays else found.next_offset
        ext = answer_fields(broker_id, next_offset, found.min_offset, found.max_offset, admitted, found.damaged)
        return Reply(code, reply.remark, ext=ext, body=reply.body)
