"""Plain acknowledgements: the messages of a pop that calls of one read acknowledge are acknowledged by one request.

The accelerator reads the calls and encodes their answers. What is checked is the same for all messages of a pop, so it
is checked once. Calls with anything unusual are handled one by one, which also makes every error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from rocketmq_py.accelerator import Accelerator, CallAck
from rocketmq_py.broker.grpc.calls_of_read import CallsOfRead, Waiting
from rocketmq_py.broker.grpc.local_requests import LocalRequests
from rocketmq_py.core.access.permissions import Action
from rocketmq_py.errors import BadHeader, BrokerError
from rocketmq_py.grpc.cluster import Parts
from rocketmq_py.grpc.receipts import MOST_DISTANCE, Receipt, RenewedReceipts, acks_of
from rocketmq_py.grpc.replies import common_status, status_of
from rocketmq_py.grpc.requests import Inner
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.definition import Status
from rocketmq_py.protocol.grpc.refusal import OK, CallRefused
from rocketmq_py.protocol.grpc.service import StatusResponse
from rocketmq_py.protocol.names import topic_fault
from rocketmq_py.protocol.pop_handle import ORDER_REVIVE_QUEUE, ExtraInfo
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.reply import Reply

_SUB = (Action.SUB,)
_OK = OK.encode()


class _Acking(msgspec.Struct, gc=False):
    """A call whose messages are acknowledged.

    :ivar left: pops whose messages are not acknowledged yet.
    :ivar statuses: of the entries; None while all are OK.
    """

    call: Call
    ack: CallAck
    left: int
    statuses: list[Status] | None = None


class _Part(NamedTuple):
    """The messages of one pop that a call acknowledges: queue offsets, and numbers of the entries."""

    acking: _Acking
    offsets: list[int]
    numbers: list[int]


class _Place(NamedTuple):
    """A pop of which messages are acknowledged, by group and topic as the calls name them."""

    group: str
    topic: str
    pop: tuple[int, int, int, int, str, str, int]


class PlainAcks(CallsOfRead):
    """Collects the acknowledgements of a read, and handles them when it ends.

    :param parts: those of a broker, which knows whether the message of an ack exists.
    :param alone: handles one request.
    """

    def __init__(
        self, parts: Parts, requests: LocalRequests, receipts: RenewedReceipts, alone: Callable[[Call, bytes], None],
        accelerator: Accelerator,
    ) -> None:  # fmt: skip
        super().__init__(alone, "acknowledgements")
        assert parts.check_ack is not None
        self._requests = requests
        self._access = parts.access
        self._receipts = receipts
        self._check_ack = parts.check_ack
        self._clock = parts.clock
        self._accelerator = accelerator

    def _handle(self, waiting: list[Waiting]) -> None:
        together: dict[_Place, list[_Part]] = {}
        for call, data in waiting:
            ack = self._accelerator.call_ack(data, MOST_DISTANCE, ORDER_REVIVE_QUEUE)
            if ack is None or not self._is_usual(call, ack):
                self._alone(call, data)
                continue
            try:
                self._access.check(call, RequestCode.ACK_MESSAGE, _SUB, topic=ack.topic, group=ack.group)
            except CallRefused as e:
                call.answer(StatusResponse(status=e.status()).encode())
                continue
            acking = _Acking(call, ack, len(ack.pops))
            for pop, offsets, numbers in ack.pops:
                together.setdefault(_Place(ack.group, ack.topic, pop), []).append(_Part(acking, offsets, numbers))
        for place, parts in together.items():
            self._acknowledge_pop(place, parts)

    # -- what is usual

    def _is_usual(self, call: Call, ack: CallAck) -> bool:
        """Return whether all messages of a call can be acknowledged: in nearly every call."""
        if topic_fault(ack.topic) is not None or topic_fault(ack.group) is not None:
            return False
        now = self._clock()
        for pop, offsets, _ in ack.pops:
            info = ExtraInfo(*pop)
            if not self._requests.is_here(info.broker_name) or info.pop_time + info.invisible_ms < now:
                return False
            try:  # if the first and the last one exist, then all between them
                for offset in {min(offsets), max(offsets)}:
                    self._check_ack(call.peer, _ack_of(info, offset, ack.topic, ack.group).header)
            except (BadHeader, BrokerError):
                return False
        return not len(self._receipts) or not self._receipts.were_renewed(ack.handles())

    # -- acknowledging

    def _acknowledge_pop(self, place: _Place, parts: list[_Part]) -> None:
        info = ExtraInfo(*place.pop)
        offsets = [offset for part in parts for offset in part.offsets]
        if len(offsets) == 1:
            inner = _ack_of(info, offsets[0], place.topic, place.group)
        else:
            inner = acks_of(info, offsets, place.topic, place.group)
        singles = sum(len(part.offsets) == 1 for part in parts)
        counted = {RequestCode.ACK_MESSAGE: singles, RequestCode.BATCH_ACK_MESSAGE: len(parts) - singles}
        peer = parts[0].acking.call.peer
        self._requests.run_counted(peer, inner, counted, lambda reply: self._acknowledged(parts, reply))

    def _acknowledged(self, parts: Sequence[_Part], reply: Reply) -> None:
        status = status_of(reply)
        for acking, _, numbers in parts:
            if status is not OK:
                if acking.statuses is None:
                    acking.statuses = [OK] * len(acking.ack.handles())
                for number in numbers:
                    acking.statuses[number] = status
            elif len(self._receipts):
                handles = acking.ack.handles()
                for number in numbers:
                    self._receipts.remove(handles[number])
            acking.left -= 1
            if not acking.left:
                _answer(acking)


def _answer(acking: _Acking) -> None:
    statuses = acking.statuses
    if statuses is None:
        acking.call.answer(acking.ack.answer(_OK, None))
    else:
        each = [status.encode() for status in statuses]
        acking.call.answer(acking.ack.answer(common_status(statuses).encode(), each))


def _ack_of(info: ExtraInfo, offset: int, topic: str, group: str) -> Inner:
    """Return the request that acknowledges one message of a pop."""
    return Receipt(info._replace(offset=offset), -1).ack(topic, group)
