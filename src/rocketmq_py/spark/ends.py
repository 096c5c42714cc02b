"""Telling brokers how transactions ended: each half message once, and asking for an answer.

Blocking. A broker that is told of a commit twice may deliver twice, so nothing is ever said again that may have been
heard; what is left is reported, and settled when the broker asks (``settling``). Brokers of this project end many with
one request; others answer that they do not know it, and are told one by one.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Iterable, Mapping

from rocketmq_py.core.transactions import encode_places
from rocketmq_py.errors import BrokerError, NetworkError, RocketMQError, SystemBusy
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers import EndTransaction, EndTransactions
from rocketmq_py.spark.connection import Connections
from rocketmq_py.spark.halves import Half
from rocketmq_py.spark.retry import Retry
from rocketmq_py.spark.targets import SendSettings
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

_AT_ONCE = 512
"""Transactions a broker is told of in one request, if it takes that."""
_UNDER_WAY = 256
"""Requests."""

Chunk = list[Half]


class _Turns:
    """Whose turn it is: what has no order at once, of each queue one chunk after the other.

    :param size: of a chunk.
    """

    def __init__(self, halves: Iterable[Half], size: int) -> None:
        self.ready: deque[Chunk] = deque()
        self._behind: dict[MessageQueue, deque[Chunk]] = {}
        runs: dict[MessageQueue | None, Chunk] = {}
        for half in halves:
            runs.setdefault(half.order, []).append(half)
        for order, run in runs.items():
            chunks = deque(run[at : at + size] for at in range(0, len(run), size))
            if order is None:
                self.ready += chunks
            else:
                self.ready.append(chunks.popleft())
                self._behind[order] = chunks

    def done(self, chunk: Chunk) -> None:
        """It has ended: the next of its queue may."""
        order = chunk[0].order
        behind = None if order is None else self._behind[order]
        if behind:
            self.ready.append(behind.popleft())

    def left(self) -> list[Half]:
        """All that did not have their turn."""
        return _all([*self.ready, *itertools.chain.from_iterable(self._behind.values())])


def _all(chunks: Iterable[Chunk]) -> list[Half]:
    return [*itertools.chain.from_iterable(chunks)]


class Ends:
    """Ends transactions of one producer group. Close it when done.

    :param masters: where the master of each broker is.
    """

    def __init__(self, settings: SendSettings, masters: Mapping[str, str]) -> None:
        self._settings = settings
        self._masters = masters
        self._connections = Connections(settings.timeout, settings.security)

    def end(self, halves: Iterable[Half], outcome: int) -> list[Half]:
        """Tell of all of them; returns those of which it is not known that their broker has ended them.

        :param outcome: ``TRANSACTION_COMMIT`` or ``TRANSACTION_ROLLBACK``.
        """
        open_: list[Half] = []
        by_broker: dict[str, list[Half]] = {}
        for half in halves:
            by_broker.setdefault(half.broker, []).append(half)
        for broker, members in by_broker.items():
            address = self._masters.get(broker)
            if address is None:
                _log.warning("broker %s has no master now: %d transactions stay open for now", broker, len(members))
                open_ += members
            else:
                open_ += _Telling(self._settings, self._connections, address, outcome).run(members)
        return open_

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()


class _Telling:
    """Tells one broker: in batches, unless it answers that it ends transactions one by one only."""

    def __init__(self, settings: SendSettings, connections: Connections, address: str, outcome: int) -> None:
        self._group = settings.producer_group
        self._connections = connections
        self._address = address
        self._outcome = outcome
        self._retry = Retry(settings.retries, f"ending transactions at {address}")
        self._in_batches = True
        self._turns = _Turns([], _AT_ONCE)
        self._under_way: dict[int, Chunk] = {}
        self._open: list[Half] = []

    def run(self, halves: list[Half]) -> list[Half]:
        """Those of which it is not known that they have ended."""
        self._turns = _Turns(halves, _AT_ONCE)
        while self._turns.ready or self._under_way:
            try:
                self._tell()
                answer = self._connections.to(self._address).receive()
                self._judge(answer, self._under_way.pop(answer.opaque))
            except (NetworkError, SystemBusy) as e:
                self._connections.drop(self._address)
                self._open += _all(self._under_way.values())
                self._under_way.clear()
                if not self._may_go_on(e):
                    break
        self._open += self._turns.left()
        if self._open:
            _log.warning("%d of %d transactions at %s stay open for now", len(self._open), len(halves), self._address)
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
        ready, room = self._turns.ready, _UNDER_WAY - len(self._under_way)
        if not ready or (self._under_way and room < _UNDER_WAY // 2):
            return
        connection = self._connections.to(self._address)
        told = [ready.popleft() for _ in range(min(room, len(ready)))]
        try:
            opaques = connection.send([self._request(chunk) for chunk in told])
        except NetworkError:
            self._open += _all(told)
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
        _log.warning("%d transactions stay open for now, their end was refused: %s", len(chunk), error)
        self._open += chunk

    def _ended(self, chunk: Chunk, ended: bytes) -> None:
        """What a broker says of each; of an order that has a gap, nothing that comes later is ended."""
        left = [half for half, is_ended in zip(chunk, ended.ljust(len(chunk), b"\0"), strict=False) if not is_ended]
        if left:
            _log.warning("%s could not end %d transactions, see its log", self._address, len(left))
            self._open += left
        if not left or chunk[0].order is None:
            self._turns.done(chunk)

    def _go_on_one_by_one(self, chunk: Chunk) -> None:
        """The broker knows no batches: it has looked at none of those under way."""
        self._in_batches = False
        self._turns = _Turns([*chunk, *_all(self._under_way.values()), *self._turns.left()], 1)
        self._under_way.clear()
        self._connections.drop(self._address)

    def _request(self, chunk: Chunk) -> tuple[RequestCode, dict[str, str], bytes]:
        first = chunk[0]
        if self._in_batches:
            header = EndTransactions(
                producer_group=self._group, commit_or_rollback=self._outcome, in_order=first.order is not None,
                bname=first.broker,
            )  # fmt: skip
            body = encode_places((half.commit_log_offset, half.table_offset) for half in chunk)
            return RequestCode.END_TRANSACTIONS, header.to_ext(), body
        single = EndTransaction(
            producer_group=self._group, tran_state_table_offset=first.table_offset, bname=first.broker, msg_id="",
            commit_log_offset=first.commit_log_offset, commit_or_rollback=self._outcome,
        )  # fmt: skip
        return RequestCode.END_TRANSACTION, single.to_ext(), b""
