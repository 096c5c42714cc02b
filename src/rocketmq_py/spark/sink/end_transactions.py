"""Telling brokers how transactions ended: each half message once, and asking for an answer.

Blocking. A broker that is told of a commit twice may deliver twice, so nothing is ever said again that may have been
heard; what is left is reported, and settled when the broker asks (``settling``). Brokers of this project end many with
one request; others answer that they do not know it, and are told one by one.
"""

from __future__ import annotations

import itertools
import logging
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rocketmq_py.errors import BrokerError, NetworkError, RocketMQError, SystemBusy
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.half_messages import encode_half_positions
from rocketmq_py.protocol.headers.transaction import EndTransaction, EndTransactions
from rocketmq_py.spark.remoting.connection import BlockingConnections
from rocketmq_py.spark.remoting.retry import Retry
from rocketmq_py.spark.sink.half_sender import AT_ONCE, HalfRange, Halves
from rocketmq_py.spark.sink.targets import SendSettings
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

_BATCHES_UNDER_WAY, _SINGLES_UNDER_WAY = 8, 256
"""Requests that tell of many transactions, or of one."""


class Chunk(NamedTuple):
    """Half messages a broker is told of at once."""

    order: MessageQueue | None
    places: Sequence[int]
    offsets: Sequence[int]

    def cut(self, size: int) -> Iterator[Chunk]:
        """The same in chunks of at most ``size``."""
        for at in range(0, len(self.places), size):
            yield Chunk(self.order, self.places[at : at + size], self.offsets[at : at + size])


class _Turns:
    """Whose turn it is: what has no order at once, of each queue one chunk after the other.

    :param size: the largest a chunk may be.
    """

    def __init__(self, chunks: Iterable[Chunk], size: int) -> None:
        self.ready: deque[Chunk] = deque()
        self._behind: dict[MessageQueue, deque[Chunk]] = {}
        for chunk in itertools.chain.from_iterable(chunk.cut(size) for chunk in chunks):
            if chunk.order in self._behind:
                self._behind[chunk.order].append(chunk)
            else:
                self.ready.append(chunk)
                if chunk.order is not None:
                    self._behind[chunk.order] = deque()

    def done(self, chunk: Chunk) -> None:
        """It has ended: the next of its queue may."""
        behind = None if chunk.order is None else self._behind[chunk.order]
        if behind:
            self.ready.append(behind.popleft())

    def left(self) -> list[Chunk]:
        """All that did not have their turn."""
        return [*self.ready, *itertools.chain.from_iterable(self._behind.values())]


class TransactionEnds:
    """Ends transactions of one producer group. Close it when done.

    :param masters: where the master of each broker is.
    """

    def __init__(self, settings: SendSettings, masters: Mapping[str, str]) -> None:
        self._settings = settings
        self._masters = masters
        self._connections = BlockingConnections(settings.timeout, settings.security)

    def end(self, halves: Halves, outcome: int) -> Halves:
        """Tell of all of them; returns those of which it is not known that their broker has ended them.

        :param outcome: ``TRANSACTION_COMMIT`` or ``TRANSACTION_ROLLBACK``.
        """
        by_broker: dict[str, list[Chunk]] = {}
        for (broker, order), pieces in halves.runs.items():
            told = (Chunk(order, piece.places, piece.offsets) for piece in pieces)
            by_broker.setdefault(broker, []).extend(told)
        open_ = Halves()
        for broker, chunks in by_broker.items():
            for order, places, offsets in self._end(broker, chunks, outcome):
                open_.add_piece(broker, order, HalfRange(places, offsets))
        return open_

    def _end(self, broker: str, chunks: list[Chunk], outcome: int) -> list[Chunk]:
        address = self._masters.get(broker)
        if address is None:
            _log.warning("broker %s has no master now: %d transactions stay open for now", broker, _count(chunks))
            return chunks
        return _Telling(self._settings, self._connections, broker, address, outcome).run(chunks)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


def _count(chunks: Iterable[Chunk]) -> int:
    return sum(len(chunk.places) for chunk in chunks)


class _Telling:
    """Tells one broker: in batches, unless it answers that it ends transactions one by one only."""

    def __init__(
        self, settings: SendSettings, connections: BlockingConnections, broker: str, address: str, outcome: int
    ) -> None:
        self._group = settings.producer_group
        self._connections = connections
        self._broker = broker
        self._address = address
        self._outcome = outcome
        self._retry = Retry(settings.retries, f"ending transactions at {address}")
        self._in_batches = True
        self._turns = _Turns([], AT_ONCE)
        self._under_way: dict[int, Chunk] = {}
        self._open: list[Chunk] = []

    def run(self, chunks: list[Chunk]) -> list[Chunk]:
        """Those of which it is not known that they have ended."""
        self._turns = _Turns(chunks, AT_ONCE)
        while self._turns.ready or self._under_way:
            try:
                self._tell()
                answer = self._connections.to(self._address).receive()
                self._judge(answer, self._under_way.pop(answer.opaque))
            except (NetworkError, SystemBusy) as e:
                self._connections.drop(self._address)
                self._open += self._under_way.values()
                self._under_way.clear()
                if not self._may_go_on(e):
                    break
        self._open += self._turns.left()
        if self._open:
            left, total = _count(self._open), _count(chunks)
            _log.warning("%d of %d transactions at %s stay open for now", left, total, self._address)
        return self._open

    def _may_go_on(self, error: RocketMQError) -> bool:
        try:
            self._retry.failed(error)
        except RocketMQError:
            _log.warning("transactions are not ended any further: %s", error)
            return False
        return True

    def _tell(self) -> None:
        """Tell of some more; those of which it is not known whether they were heard stay open."""
        most = _BATCHES_UNDER_WAY if self._in_batches else _SINGLES_UNDER_WAY
        ready, room = self._turns.ready, most - len(self._under_way)
        if not ready or (self._under_way and room < most // 2):
            return
        connection = self._connections.to(self._address)
        told = [ready.popleft() for _ in range(min(room, len(ready)))]
        try:
            opaques = connection.send([self._request(chunk) for chunk in told])
        except NetworkError:
            self._open += told
            raise
        self._under_way.update(zip(opaques, told, strict=True))

    def _judge(self, answer: Command, chunk: Chunk) -> None:
        if answer.code == ResponseCode.SUCCESS:
            self._retry.succeeded()
            self._ended(chunk, answer.body if self._in_batches else b"\x01")
            return
        if self._in_batches and answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._go_on_one_by_one(chunk)
            return
        error = BrokerError.of(answer.code, answer.remark, self._address)
        if isinstance(error, SystemBusy):  # refused before anybody looked at it
            self._turns.ready.appendleft(chunk)
            self._retry.failed(error)
            return
        _log.warning("%d transactions stay open for now, their end was refused: %s", len(chunk.places), error)
        self._open.append(chunk)

    def _ended(self, chunk: Chunk, ended: bytes) -> None:
        """What a broker says of each; of an order that has a gap, nothing that comes later is ended."""
        said = ended.ljust(len(chunk.places), b"\0")
        left = [i for i in range(len(chunk.places)) if not said[i]]
        if left:
            _log.warning("%s could not end %d transactions, see its log", self._address, len(left))
            places, offsets = array("q", [chunk.places[i] for i in left]), array("q", [chunk.offsets[i] for i in left])
            self._open.append(Chunk(chunk.order, places, offsets))
        if not left or chunk.order is None:
            self._turns.done(chunk)

    def _go_on_one_by_one(self, chunk: Chunk) -> None:
        """The broker knows no batches: it has looked at none of those under way."""
        self._in_batches = False
        self._turns = _Turns([chunk, *self._under_way.values(), *self._turns.left()], 1)
        self._under_way.clear()
        self._connections.drop(self._address)

    def _request(self, chunk: Chunk) -> tuple[RequestCode, dict[str, str], bytes]:
        if self._in_batches:
            header = EndTransactions(
                producer_group=self._group, commit_or_rollback=self._outcome, in_order=chunk.order is not None,
                bname=self._broker,
            )  # fmt: skip
            return RequestCode.END_TRANSACTIONS, header.to_ext(), encode_half_positions(chunk.places, chunk.offsets)
        single = EndTransaction(
            producer_group=self._group, tran_state_table_offset=chunk.offsets[0], bname=self._broker, msg_id="",
            commit_log_offset=chunk.places[0], commit_or_rollback=self._outcome,
        )  # fmt: skip
        return RequestCode.END_TRANSACTION, single.to_ext(), b""
