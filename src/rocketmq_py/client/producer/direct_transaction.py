"""The blocking transaction producer: the calling thread sends half messages, commits and rollbacks over its own
connections, and runs plain (not ``async def``) local transactions. The asyncio producer answers the brokers' checks.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable
from types import TracebackType
from typing import Any, Self, TypeVar

from rocketmq_py.client.hooks.tracing import trace_end
from rocketmq_py.client.producer.blocking import Producer
from rocketmq_py.client.producer.transaction import (
    TransactionBase,
    begun,
    end_frame,
    half_of,
    is_safe,
    not_safe,
    state_of,
)
from rocketmq_py.client.producer.transaction_producer import TransactionProducer as AioProducer, log_end_not_sent
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import Message, SendResult, TransactionSendResult, TransactionState
from rocketmq_py.protocol.sys_flag import TRANSACTION_PREPARED

_log = logging.getLogger(__name__)

T = TypeVar("T")

_END_SECONDS = 3.0
"""Timeout in seconds of sending a commit or rollback, connecting included."""


class DirectTransactionProducer(Producer):
    """A blocking producer that also sends messages in transactions."""

    _producer: AioProducer

    def _wrap(self, made: AioProducer) -> None:  # type: ignore[override]
        super()._wrap(made)
        self._producer = made

    def _blocking_send_in_transaction(self, message: Message, arg: Any, timeout: float | None) -> TransactionSendResult:
        listener = self._producer.require_listener()
        half = self.send_half(message, timeout)
        state, failure = TransactionState.ROLLBACK, None
        if is_safe(half):
            try:
                said = self._awaited(listener.execute_local_transaction(message, arg))
                state = state_of(said, "execute_local_transaction")
            except Exception as e:  # noqa: BLE001 - any failure: only a check can tell how the transaction ended
                _log.exception("the local transaction %s failed", half.msg_id)
                state, failure = TransactionState.UNKNOWN, e
        end_failure = self.send_end(half, state, message, failure)
        return TransactionSendResult(half, state, failure or end_failure)

    def transaction(self, message: Message, timeout: float | None = None) -> Transaction:
        """Return a context manager that sends a message in a transaction: ``with producer.transaction(message) as tx``.

        Entering the block sends the half message and raises the errors of :meth:`send_in_transaction`. Leaving it
        commits the transaction, or rolls it back if the block raised. To decide earlier, call ``tx.commit()``,
        ``tx.rollback()`` or ``tx.leave_open()``.
        """
        return Transaction(self, message, timeout)

    def send_half(self, message: Message, timeout: float | None = None) -> SendResult:
        """Send the half message and set the message's ids; returns the result of the send.

        If the broker has not yet answered a heartbeat of this client, send heartbeats, so that it can send checks.
        """
        half, producer = half_of(message, self.group), self._producer

        def send() -> SendResult:
            return self._send(producer.sender.delivery(half, None, timeout, sys_flag=TRANSACTION_PREPARED))

        result = send() if producer.hooks is None else producer.hooks.around([half], send)
        begun(message, result)
        if not producer.is_known_to(result.queue.broker_name):
            self._portal.run(producer.register_with_brokers())
        return result

    def send_end(
        self, half: SendResult, state: TransactionState, message: Message, why: Exception | None = None
    ) -> RocketMQError | None:
        """Send the commit or rollback of a transaction to its broker.

        :param why: the exception of the local transaction, which the broker logs.
        :returns: None, or the error if it could not be sent; the error is logged, not raised.
        """
        self._portal.check()
        if self._producer.tracer is not None:
            trace_end(self._producer.tracer, message, half.msg_id, half.queue.broker_name, state)
        assert self._direct is not None  # since start
        try:
            address = self._producer.require_address(half.queue.broker_name)
            header = self._producer.end_header(half, state)
            who = self._producer.sender.connections.credentials
            deadline = time.monotonic() + _END_SECONDS
            self._direct.oneway(address, lambda opaque: end_frame(header, opaque, who, why), deadline)
        except RocketMQError as e:
            log_end_not_sent(half, state, e)
            return e
        return None

    def address_of(self, broker_name: str) -> str | None:
        """The ``host:port`` of the master of a broker group; None if no cached route has one."""
        return self._producer.address_of(broker_name)

    def _awaited(self, said: T | Awaitable[T]) -> T:
        """Return what a listener's method returned; an awaitable is awaited in the portal's loop."""
        if not inspect.isawaitable(said):
            return said

        async def wait() -> T:
            return await said

        return self._portal.run(wait())


class Transaction(TransactionBase):
    """A transaction of the blocking producer; see :meth:`DirectTransactionProducer.transaction`."""

    def __init__(self, producer: DirectTransactionProducer, message: Message, timeout: float | None) -> None:
        super().__init__(message)
        self._producer = producer
        self._timeout = timeout

    def __enter__(self) -> Self:
        self._check_new()
        half = self._half = self._producer.send_half(self.message, self._timeout)
        if not is_safe(half):
            self.rollback()
            raise not_safe(half, self._producer.address_of(half.queue.broker_name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state is None:
            state = TransactionState.ROLLBACK if kind is not None else TransactionState.COMMIT
            self._end(state, error if isinstance(error, Exception) else None)

    def commit(self) -> None:
        """Commit: consumers see the message.

        :raises ClosedError: the transaction has already ended.
        """
        self._end(TransactionState.COMMIT)

    def rollback(self) -> None:
        """Roll back: no consumer sees the message.

        :raises ClosedError: the transaction has already ended.
        """
        self._end(TransactionState.ROLLBACK)

    def leave_open(self) -> None:
        """End the block without a commit or rollback: the broker checks the transaction later.

        :raises ClosedError: the transaction has already ended.
        """
        self._end(TransactionState.UNKNOWN)

    def _end(self, state: TransactionState, why: Exception | None = None) -> None:
        self.failure = self._producer.send_end(self._decide(state), state, self.message, why)
