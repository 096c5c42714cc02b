"""End transactions at their brokers: commit or roll back half messages.

Blocking. A broker that receives a commit twice may deliver twice, so a request that may have arrived is never sent
again; such transactions are reported as open and completed by transaction checks (``check_back``). Brokers of this
project end many transactions with one request; others do not support this and get one request for each transaction.
"""

from __future__ import annotations

import itertools
import logging
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rocketmq_py.arrow.remoting.connection import BlockingConnections
from rocketmq_py.arrow.remoting.retry import new_retry
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BrokerError, NetworkError, RocketMQError, SystemBusy
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.half_messages import encode_half_positions
from rocketmq_py.protocol.headers.transaction import EndTransaction, EndTransactions
from rocketmq_py.spark.sink.half_sender import AT_ONCE, HalfMessages, HalfRange

_log = logging.getLogger(__name__)

_MAX_INFLIGHT_BATCHES, _MAX_INFLIGHT_SINGLES = 8, 256
"""Limits for the requests in flight: those that end many transactions each, and those that end one each."""


class EndBatch(NamedTuple):
    """Half messages that one request ends, by their offsets in the commit log and in the half topic's queue.

    :ivar order: the queue to which the messages must be delivered in this order; None if any order will do.
    """

    order: MessageQueue | None
    log_offsets: Sequence[int]
    half_offsets: Sequence[int]

    def cut(self, size: int) -> Iterator[EndBatch]:
        """Yield the half messages, in order, in batches of at most ``size``."""
        for at in range(0, len(self.log_offsets), size):
            yield EndBatch(self.order, self.log_offsets[at : at + size], self.half_offsets[at : at + size])


class _SendOrder:
    """Decides which batches may be sent now: of each ordered queue one at a time, and all others without waiting.

    :param size: upper limit for the half messages of one batch; larger ones are split.
    :ivar ready: the batches that may be sent now.
    """

    def __init__(self, batches: Iterable[EndBatch], size: int) -> None:
        self.ready: deque[EndBatch] = deque()
        self._behind: dict[MessageQueue, deque[EndBatch]] = {}
        for batch in itertools.chain.from_iterable(batch.cut(size) for batch in batches):
            if batch.order in self._behind:
                self._behind[batch.order].append(batch)
            else:
                self.ready.append(batch)
                if batch.order is not None:
                    self._behind[batch.order] = deque()

    def done(self, batch: EndBatch) -> None:
        """Make the next batch of the same ordered queue ready, after ``batch`` has ended."""
        behind = None if batch.order is None else self._behind[batch.order]
        if behind:
            self.ready.append(behind.popleft())

    def remaining(self) -> list[EndBatch]:
        """Return the batches that were not sent."""
        return [*self.ready, *itertools.chain.from_iterable(self._behind.values())]


class TransactionEnds:
    """Ends transactions of one producer group. Close it when done.

    :param masters: the address of the master of each broker, by broker name.
    """

    def __init__(self, settings: SendSettings, masters: Mapping[str, str]) -> None:
        self._settings = settings
        self._masters = masters
        self._connections = BlockingConnections(settings.timeout, settings.security)

    def end(self, halves: HalfMessages, outcome: int) -> HalfMessages:
        """End all transactions; return those that may still be open.

        :param outcome: ``TRANSACTION_COMMIT`` or ``TRANSACTION_ROLLBACK``.
        """
        by_broker: dict[str, list[EndBatch]] = {}
        for (broker, order), half_ranges in halves.ranges.items():
            sent = (EndBatch(order, half_range.log_offsets, half_range.half_offsets) for half_range in half_ranges)
            by_broker.setdefault(broker, []).extend(sent)
        open_ = HalfMessages()
        for broker, batches in by_broker.items():
            for order, log_offsets, half_offsets in self._end(broker, batches, outcome):
                open_.add_range(broker, order, HalfRange(log_offsets, half_offsets))
        return open_

    def _end(self, broker: str, batches: list[EndBatch], outcome: int) -> list[EndBatch]:
        address = self._masters.get(broker)
        if address is None:
            _log.warning("broker %s has no master now: %d transactions stay open for now", broker, _count(batches))
            return batches
        return _BrokerEnds(self._settings, self._connections, broker, address, outcome).run(batches)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


def _count(batches: Iterable[EndBatch]) -> int:
    return sum(len(batch.log_offsets) for batch in batches)


class _BrokerEnds:
    """Ends transactions at one broker: in batches, or one by one if the broker does not support batches."""

    def __init__(
        self, settings: SendSettings, connections: BlockingConnections, broker: str, address: str, outcome: int
    ) -> None:
        self._group = settings.producer_group
        self._connections = connections
        self._broker = broker
        self._address = address
        self._outcome = outcome
        self._retry = new_retry(settings.retries, f"ending transactions at {address}")
        self._in_batches = True
        self._order: _SendOrder
        self._inflight: dict[int, EndBatch] = {}
        self._open: list[EndBatch] = []

    def run(self, batches: list[EndBatch]) -> list[EndBatch]:
        """End the transactions of all batches; return those that may still be open."""
        self._order = _SendOrder(batches, AT_ONCE)
        while self._order.ready or self._inflight:
            try:
                self._send_ready()
                answer = self._connections.to(self._address).receive()
                self._handle_answer(answer, self._inflight.pop(answer.opaque))
            except (NetworkError, SystemBusy) as e:
                self._connections.drop(self._address)
                self._open += self._inflight.values()
                self._inflight.clear()
                if not self._can_retry(e):
                    break
        self._open += self._order.remaining()
        if self._open:
            left, total = _count(self._open), _count(batches)
            _log.warning("%d of %d transactions at %s stay open for now", left, total, self._address)
        return self._open

    def _can_retry(self, error: RocketMQError) -> bool:
        try:
            self._retry.failed(error)
        except RocketMQError:
            _log.warning("transactions are not ended any further: %s", error)
            return False
        return True

    def _send_ready(self) -> None:
        """Send as many ready batches as the limit allows; if the connection breaks, their transactions may be open.

        :raises NetworkError: the connection breaks.
        """
        most = _MAX_INFLIGHT_BATCHES if self._in_batches else _MAX_INFLIGHT_SINGLES
        ready, room = self._order.ready, most - len(self._inflight)
        if not ready or (self._inflight and room < most // 2):
            return
        connection = self._connections.to(self._address)
        sent = [ready.popleft() for _ in range(min(room, len(ready)))]
        try:
            opaques = connection.send([self._request(batch) for batch in sent])
        except NetworkError:
            self._open += sent
            raise
        self._inflight.update(zip(opaques, sent, strict=True))

    def _handle_answer(self, answer: Reply, batch: EndBatch) -> None:
        if answer.code == ResponseCode.SUCCESS:
            self._retry.succeeded()
            self._note_ended(batch, answer.body if self._in_batches else b"\x01")
            return
        if self._in_batches and answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._switch_to_singles(batch)
            return
        error = BrokerError.of(answer.code, answer.remark, self._address)
        if isinstance(error, SystemBusy):  # refused before it was handled
            self._order.ready.appendleft(batch)
            self._retry.failed(error)
            return
        _log.warning("%d transactions stay open for now, their end was refused: %s", len(batch.log_offsets), error)
        self._open.append(batch)

    def _note_ended(self, batch: EndBatch, ended: bytes) -> None:
        """Handle the results of a batch; after a failure in an ordered queue, its later batches are not sent.

        :param ended: a byte for each half message, 0 if the broker could not end it.
        """
        results = ended.ljust(len(batch.log_offsets), b"\0")
        left = [i for i in range(len(batch.log_offsets)) if not results[i]]
        if left:
            _log.warning("%s could not end %d transactions, see its log", self._address, len(left))
            log_offsets, half_offsets = (
                array("q", [batch.log_offsets[i] for i in left]),
                array("q", [batch.half_offsets[i] for i in left]),
            )
            self._open.append(EndBatch(batch.order, log_offsets, half_offsets))
        if not left or batch.order is None:
            self._order.done(batch)

    def _switch_to_singles(self, batch: EndBatch) -> None:
        """Send one request per transaction from now on, since the broker does not support batches.

        Such a broker has not ended any batch in flight: ``batch`` and all others in flight are sent again.
        """
        self._in_batches = False
        self._order = _SendOrder([batch, *self._inflight.values(), *self._order.remaining()], 1)
        self._inflight.clear()
        self._connections.drop(self._address)

    def _request(self, batch: EndBatch) -> tuple[RequestCode, dict[str, str], bytes]:
        if self._in_batches:
            header = EndTransactions(
                producer_group=self._group, commit_or_rollback=self._outcome, in_order=batch.order is not None,
                bname=self._broker,
            )  # fmt: skip
            return (
                RequestCode.END_TRANSACTIONS,
                header.to_ext(),
                encode_half_positions(batch.log_offsets, batch.half_offsets),
            )
        single = EndTransaction(
            producer_group=self._group, tran_state_table_offset=batch.half_offsets[0], bname=self._broker, msg_id="",
            commit_log_offset=batch.log_offsets[0], commit_or_rollback=self._outcome,
        )  # fmt: skip
        return RequestCode.END_TRANSACTION, single.to_ext(), b""
