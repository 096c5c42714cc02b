"""Telling brokers how transactions ended: each half message once, and asking for an answer.

Blocking. A broker that is told of a commit twice may deliver twice, so nothing is ever said again that may have been
heard; what is left is reported, and settled when the broker asks (``settling``).
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Iterable, Mapping

from rocketmq_py.errors import BrokerError, NetworkError, RocketMQError, SystemBusy
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers import EndTransaction
from rocketmq_py.spark.connection import Connections
from rocketmq_py.spark.halves import Half
from rocketmq_py.spark.retry import Retry
from rocketmq_py.spark.targets import SendSettings
from rocketmq_py.wire.command import Command

_log = logging.getLogger(__name__)

_AT_ONCE = 256


class _Turns:
    """Whose turn it is: what has no order at once, of each queue one after the other."""

    def __init__(self, halves: Iterable[Half]) -> None:
        self.ready: deque[Half] = deque()
        self._behind: dict[MessageQueue, deque[Half]] = {}
        for half in halves:
            if half.order is None:
                self.ready.append(half)
            elif half.order in self._behind:
                self._behind[half.order].append(half)
            else:
                self._behind[half.order] = deque()
                self.ready.append(half)

    def done(self, half: Half) -> None:
        """It has ended: the next of its queue may."""
        behind = None if half.order is None else self._behind[half.order]
        if behind:
            self.ready.append(behind.popleft())

    def left(self) -> list[Half]:
        """All that did not have their turn."""
        return [*self.ready, *itertools.chain.from_iterable(self._behind.values())]


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
                open_ += self._end_at(address, members, outcome)
        return open_

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def _end_at(self, address: str, halves: list[Half], outcome: int) -> list[Half]:
        turns, under_way, open_ = _Turns(halves), dict[int, Half](), list[Half]()
        retry = Retry(self._settings.retries, f"ending transactions at {address}")
        while turns.ready or under_way:
            try:
                self._tell(address, turns, under_way, open_, outcome)
                answer = self._connections.to(address).receive()
                self._judge(address, answer, under_way.pop(answer.opaque), turns, open_, retry)
            except (NetworkError, SystemBusy) as e:
                self._connections.drop(address)
                open_ += under_way.values()
                under_way.clear()
                if not self._may_go_on(retry, e):
                    break
        open_ += turns.left()
        if open_:
            _log.warning("%d of %d transactions at %s stay open for now", len(open_), len(halves), address)
        return open_

    def _may_go_on(self, retry: Retry, error: RocketMQError) -> bool:
        try:
            retry.failed(error)
        except RocketMQError:
            _log.warning("transactions are not ended any further: %s", error)
            return False
        return True

    def _tell(self, address: str, turns: _Turns, under_way: dict[int, Half], open_: list[Half], outcome: int) -> None:
        """Tell of some more; those of which it is not known whether they were heard go to ``open_``."""
        room = _AT_ONCE - len(under_way)
        if not turns.ready or (under_way and room < _AT_ONCE // 2):
            return
        connection = self._connections.to(address)
        told = [turns.ready.popleft() for _ in range(min(room, len(turns.ready)))]
        try:
            opaques = connection.send([self._request(half, outcome) for half in told])
        except NetworkError:
            open_ += told
            raise
        under_way.update(zip(opaques, told, strict=True))

    def _judge(self, address: str, answer: Command, half: Half, turns: _Turns, open_: list[Half], retry: Retry) -> None:
        if answer.code == ResponseCode.SUCCESS:
            retry.succeeded()
            turns.done(half)
            return
        error = BrokerError.of(answer.code, answer.remark, address)
        if isinstance(error, SystemBusy):  # refused before anybody looked at it
            turns.ready.appendleft(half)
            retry.failed(error)
            return
        _log.warning("a transaction stays open for now, its end was refused: %s", error)
        open_.append(half)

    def _request(self, half: Half, outcome: int) -> tuple[RequestCode, dict[str, str], bytes]:
        header = EndTransaction(
            producer_group=self._settings.producer_group, tran_state_table_offset=half.table_offset,
            commit_log_offset=half.commit_log_offset, commit_or_rollback=outcome, msg_id="", bname=half.broker,
        )  # fmt: skip
        return RequestCode.END_TRANSACTION, header.to_ext(), b""
