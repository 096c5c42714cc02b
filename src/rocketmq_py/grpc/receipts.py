"""Receipt handles, and their renewal for push consumers that work on a message for longer than it is invisible."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

import msgspec

from rocketmq_py.errors import BadHeader
from rocketmq_py.grpc.requests import Inner, Requests
from rocketmq_py.grpc.sessions import Session
from rocketmq_py.model import MessageExt
from rocketmq_py.protocol.bodies.pop import BatchAck, BatchAckRequest
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.headers.pop import AckMessage, ChangeInvisibleTime, ChangeInvisibleTimeResponse
from rocketmq_py.protocol.pop_handle import ExtraInfo, encode_bits, real_topic
from rocketmq_py.server.reply import Reply

_log = logging.getLogger(__name__)

MOST_DISTANCE = 1024
"""Messages nearer than this to the first one of their pop are acknowledged together."""
_WORDS = 9
_RENEW_BEFORE_MS = 10_000
_STEPS_MS = tuple(minutes * 60_000 for minutes in (1, 3, 5, 10, 30, 60))
_MAX_FAILURES = 3
_MAX_TOTAL_MS = 3 * 3_600_000
_BACK_SOON_MS = 1_000
_MOST_OF_A_TICK = 500
"""Receipts that are renewed in one tick, so that no turn of the event loop takes long; the others wait for the next."""


class Receipt(NamedTuple):
    """The handle of a received message, as its text has it.

    :ivar physical_offset: of the message in the commit log; -1 if the text does not say it.
    """

    info: ExtraInfo
    physical_offset: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a handle.

        :raises CallRefused: it is no handle.
        """
        words = text.split(" ")
        try:
            info = ExtraInfo.parse(" ".join(words[: _WORDS - 1]))
            physical = int(words[_WORDS - 1]) if len(words) >= _WORDS else -1
            if info.offset is None or physical < -1 or physical >= 1 << 63 or info.retry not in ("0", "1", "2"):
                raise ValueError(text)  # noqa: TRY301 - handled like the others
        except (BadHeader, ValueError):
            raise CallRefused(Code.INVALID_RECEIPT_HANDLE, "the receipt handle is not one that was received") from None
        return cls(info, physical)

    @classmethod
    def of(cls, info: ExtraInfo, message: MessageExt) -> Self:
        """Return the receipt of a popped message."""
        return cls(info._replace(offset=message.queue_offset), message.commit_log_offset)

    @property
    def text(self) -> str:
        """The text for clients."""
        return f"{self.info.encode()} {self.physical_offset}"

    @property
    def visible_at_ms(self) -> int:
        """When the message is visible to others again, in milliseconds since the epoch."""
        return self.info.pop_time + self.info.invisible_ms

    def ack(self, topic: str, group: str) -> Inner:
        """Return the request that acknowledges the message."""
        info = self.info
        header = AckMessage(
            consumer_group=group, topic=real_topic(topic, group, info.retry), queue_id=info.queue_id,
            extra_info=info.encode(), offset=info.offset or 0,
        )  # fmt: skip
        return Inner(RequestCode.ACK_MESSAGE, header, broker=info.broker_name)

    def change(self, topic: str, group: str, invisible_ms: int) -> Inner:
        """Return the request that changes how long the message stays invisible."""
        info = self.info
        header = ChangeInvisibleTime(
            consumer_group=group, topic=real_topic(topic, group, info.retry), queue_id=info.queue_id,
            extra_info=info.encode(), offset=info.offset or 0, invisible_time=invisible_ms,
        )  # fmt: skip
        return Inner(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header, broker=info.broker_name)

    def changed(self, reply: Reply) -> Receipt:
        """Return the receipt after a change, given the reply to it."""
        header = reply.header
        assert isinstance(header, ChangeInvisibleTimeResponse)
        info = self.info._replace(
            pop_time=header.pop_time, invisible_ms=header.invisible_time, revive_queue=header.revive_qid
        )
        if not info.is_order:
            info = info._replace(start_offset=info.offset or 0)  # the new check-point has this message only
        return Receipt(info, self.physical_offset)


def acks_of(info: ExtraInfo, offsets: Iterable[int], topic: str, group: str) -> Inner:
    """Return the request that acknowledges several messages of a pop, given by their queue offsets."""
    bits = encode_bits(offset - info.start_offset for offset in offsets)
    together = BatchAck(
        consumer_group=group, topic=topic, retry=info.retry, start_offset=info.start_offset, queue_id=info.queue_id,
        revive_queue_id=info.revive_queue, pop_time=info.pop_time, invisible_time=info.invisible_ms, bits=bits,
    )  # fmt: skip
    body = BatchAckRequest(broker_name=info.broker_name, acks=[together]).encode()
    return Inner(RequestCode.BATCH_ACK_MESSAGE, None, body, info.broker_name)


class _Held(msgspec.Struct):
    session: Session
    group: str
    topic: str
    newest: Receipt
    until_ms: int
    renewals: int = 0
    failures: int = 0
    is_renewing: bool = False


def _log_failure(reply: Reply) -> None:
    if reply.code != ResponseCode.SUCCESS:
        _log.info("a message of a client that has gone is visible when its time is over: %s", reply.remark)


class RenewedReceipts:
    """The receipts that this broker renews, by the text of the handle that the client has.

    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(self, requests: Requests, clock: Callable[[], int]) -> None:
        self._requests = requests
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, session: Session, group: str, topic: str, handle: str, receipt: Receipt) -> None:
        """Renew a receipt from now on, until it is removed.

        :param handle: the text of the receipt.
        """
        self._held[handle] = _Held(session, group, topic, receipt, self._clock() + _MAX_TOTAL_MS)

    def newest(self, handle: str, client_id: str, group: str) -> Receipt | None:
        """Return the newest receipt of a message; None if it is not renewed for this client."""
        held = self._held.get(handle)
        if held is None or held.session.client_id != client_id or held.group != group:
            return None
        return held.newest

    def were_renewed(self, handles: Iterable[str]) -> bool:
        """Return whether one of these handles is no longer the newest of its message."""
        return any(held is not None and held.renewals > 0 for held in map(self._held.get, handles))

    def remove(self, handle: str) -> None:
        """Stop to renew a receipt."""
        self._held.pop(handle, None)

    def left(self, session: Session) -> None:
        """Make the messages of a client that has gone visible soon."""
        gone = [handle for handle, held in self._held.items() if held.session.client_id == session.client_id]
        for handle in gone:
            held = self._held.pop(handle)
            self.give_back(held.session, held.group, held.topic, held.newest)

    def all_left(self) -> None:
        """Make the messages of all clients visible soon."""
        held, self._held = self._held, {}
        for one in held.values():
            self.give_back(one.session, one.group, one.topic, one.newest)

    def give_back(self, session: Session, group: str, topic: str, receipt: Receipt) -> None:
        """Make a message visible soon, since its client does not work on it."""
        self._requests.run_alone(session.peer, receipt.change(topic, group, _BACK_SOON_MS), _log_failure)

    def tick(self) -> None:
        """Renew the receipts whose time ends soon; called every few seconds."""
        now = self._clock()
        due = [
            (handle, held)
            for handle, held in self._held.items()
            if held.newest.visible_at_ms - now <= _RENEW_BEFORE_MS and not held.is_renewing
        ]
        for handle, held in due[:_MOST_OF_A_TICK]:
            if held.until_ms < now or held.newest.visible_at_ms < now:
                del self._held[handle]
            else:
                self._renew(handle, held)
        if due:
            self._requests.finish_read()

    def _renew(self, handle: str, held: _Held) -> None:
        step = _STEPS_MS[min(held.renewals, len(_STEPS_MS) - 1)]
        held.is_renewing = True

        def done(reply: Reply) -> None:
            held.is_renewing = False
            if reply.code == ResponseCode.SUCCESS:
                held.newest = held.newest.changed(reply)
                held.renewals += 1
                held.failures = 0
                return
            held.failures += 1
            if held.failures >= _MAX_FAILURES or reply.code == ResponseCode.NO_MESSAGE:
                self._held.pop(handle, None)
                what = "the receipt of a message of %s is no longer renewed for %s: %s"
                _log.warning(what, held.topic, held.group, reply.remark)

        self._requests.run_alone(held.session.peer, held.newest.change(held.topic, held.group, step), done)
