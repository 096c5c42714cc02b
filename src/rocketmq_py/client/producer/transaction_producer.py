"""The asyncio transaction producer: messages that consumers see only if a local transaction commits.

First the half message is sent, then the local transaction runs, then a commit or rollback is sent. Brokers check
transactions whose commit or rollback they have not received. ``transaction`` makes the requests.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.hooks.tracing import trace_end
from rocketmq_py.client.producer import transaction_checks
from rocketmq_py.client.producer.options import ProducerOptions
from rocketmq_py.client.producer.producer import Producer
from rocketmq_py.client.producer.transaction import (
    Check,
    TransactionBase,
    TransactionListener,
    answer_header,
    begun,
    check_of,
    end_frame,
    end_header,
    half_of,
    is_safe,
    not_safe,
    state_of,
)
from rocketmq_py.client.producer.transaction_checks import CheckPool, CheckRequest
from rocketmq_py.errors import ConfigError, NoRouteError, RocketMQError
from rocketmq_py.model import Message, SendResult, TransactionSendResult, TransactionState
from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.protocol.namespaces import with_namespace, without_namespace
from rocketmq_py.protocol.sys_flag import TRANSACTION_PREPARED

_log = logging.getLogger(__name__)


class TransactionProducer(Producer):
    """A producer that also sends messages in transactions.

    The broker stores such a message (the half message) and hides it from consumers while the local transaction runs.
    Then the producer sends a commit or rollback. If that does not arrive, because the producer crashed or the network
    failed, the broker asks the producers of the group for the outcome: it sends a check, repeatedly.

    :param listener: runs local transactions (for :meth:`send_in_transaction`) and answers checks of brokers.
    :param check: answers checks of brokers: takes the message, returns a state. Use it instead of a listener if you
        only use :meth:`transaction`.
    :param topics: topics whose brokers can send checks as soon as the producer has started. By default only brokers of
        topics that it has sent to can do so. Name the topics of transactions that a crash may leave open.
    :param check_threads: maximum number of checks that run at the same time (Java's checkThreadPoolMaxSize).
    :param check_request_hold_max: maximum number of waiting checks; brokers repeat those that are dropped beyond it.
    :param instance: as of :class:`~rocketmq_py.aio.Producer`.
    :raises ConfigError: neither a listener nor a check, both of them, or an illegal option.

    All other options are those of :class:`~rocketmq_py.aio.Producer`.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        listener: TransactionListener | None = None,
        check: Check | None = None,
        topics: Iterable[str] = (),
        check_threads: int = 1,
        check_request_hold_max: int = 2000,
        instance: ClientInstance | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(group, namesrv, instance=instance, topics=topics, **options)
        self.listener = listener
        self._checks = CheckPool(check_of(listener, check), self._answer, check_threads, check_request_hold_max)

    # -- life

    def _serve(self, instance: ClientInstance) -> None:
        transaction_checks.serve(instance)

    async def close(self) -> None:
        """Wait for running checks and sends, unregister from brokers, and close connections unless they belong to a
        shared ``instance``. May be called more than once.
        """
        await self._checks.close()
        await super().close()

    # -- in transactions

    async def send_in_transaction(
        self, message: Message, arg: Any = None, timeout: float | None = None
    ) -> TransactionSendResult:
        """Send a half message, run the listener's local transaction, and send the commit or rollback to the broker.

        A plain ``execute_local_transaction`` runs in a thread of the loop's default executor; in the blocking producer
        it runs in the calling thread. If it raises, the exception is logged and becomes the ``failure`` of the result,
        and the state is UNKNOWN: the broker checks later.

        :param arg: passed to the listener's ``execute_local_transaction``.
        :param timeout: seconds for storing the half message, instead of ``send_timeout``.
        :raises MessageIllegal: the message is illegal, or has a delay.

        Other errors as of :meth:`send`; the local transaction did not run then.
        """
        listener = self.require_listener()
        half = await self.send_half(message, timeout)
        state, failure = TransactionState.ROLLBACK, None
        if is_safe(half):
            try:
                state = state_of(await _execute(listener, message, arg), "execute_local_transaction")
            except Exception as e:  # noqa: BLE001 - any failure: only a check can tell how the transaction ended
                _log.exception("the local transaction %s failed", half.msg_id)
                state, failure = TransactionState.UNKNOWN, e
        end_failure = await self.send_end(half, state, message, failure)
        return TransactionSendResult(half, state, failure or end_failure)

    def transaction(self, message: Message, timeout: float | None = None) -> Transaction:
        """Return a context manager for a transaction: ``async with producer.transaction(message) as tx``.

        Entering the block sends the half message and raises the errors of :meth:`send_in_transaction`. Leaving it
        commits the transaction, or rolls it back if the block raised. To decide earlier, await ``tx.commit()``,
        ``tx.rollback()`` or ``tx.leave_open()``.
        """
        return Transaction(self, message, timeout)

    # -- parts that the blocking class uses, too

    def require_listener(self) -> TransactionListener:
        """Return the listener.

        :raises ConfigError: the producer was made without a listener.
        """
        if self.listener is None:
            raise ConfigError("send_in_transaction needs a listener to run the local transaction; or use transaction()")
        return self.listener

    async def send_half(self, message: Message, timeout: float | None = None) -> SendResult:
        """Send the half message and set the message's ids; returns the result of the send.

        If the broker has not yet answered a heartbeat of this client, send heartbeats, so that it can send checks.
        """
        half = half_of(message, self.group)

        def send() -> asyncio.Future[SendResult]:
            return self.sender.start_send(self.sender.delivery(half, None, timeout, sys_flag=TRANSACTION_PREPARED))

        result = await (self.hooks.follow([half], send) if self.hooks is not None else send())
        begun(message, result)
        if not self.is_known_to(result.queue.broker_name):
            await self.register_with_brokers()
        return result

    def is_known_to(self, broker_name: str) -> bool:
        """True if the master of a broker group has answered a heartbeat of this client, so that it can send checks."""
        address = self.address_of(broker_name)
        assert self._instance is not None
        return address is not None and self._instance.broker_version(address) is not None

    def address_of(self, broker_name: str) -> str | None:
        """The ``host:port`` of the master of a broker group; None if no cached route has one."""
        assert self._instance is not None
        return self._instance.routes.master(broker_name)

    def require_address(self, broker_name: str) -> str:
        """The ``host:port`` of the master of a broker group.

        :raises NoRouteError: no cached route has one.
        """
        address = self.address_of(broker_name)
        if address is None:
            raise NoRouteError(f"broker {broker_name} has no master known to the name servers")
        return address

    async def register_with_brokers(self) -> None:
        """Send a heartbeat to all brokers of the client's topics."""
        assert self._instance is not None
        await self._instance.heartbeat_all()

    async def send_end(
        self, half: SendResult, state: TransactionState, message: Message, why: Exception | None = None
    ) -> RocketMQError | None:
        """Send the commit or rollback of a transaction to its broker.

        :param why: the exception of the local transaction, which the broker logs.
        :returns: None, or the error if it could not be sent; the error is logged, not raised.
        """
        if self.tracer is not None:
            trace_end(self.tracer, message, half.msg_id, half.queue.broker_name, state)
        try:
            address = self.require_address(half.queue.broker_name)
            connection = await self.sender.connections.get(address)
            header = self.end_header(half, state)
            connection.write(end_frame(header, connection.number(), self.sender.connections.credentials, why))
        except RocketMQError as e:
            log_end_not_sent(half, state, e)
            return e
        return None

    def end_header(self, half: SendResult, state: TransactionState) -> EndTransaction:
        """The END_TRANSACTION header that commits or rolls back a transaction, by ``state``."""
        return end_header(self.group, half, with_namespace(self._namespace, half.queue.topic), state)

    # -- checks of brokers

    def check_requested(self, check: CheckRequest) -> None:
        """Run the check function for a broker's check in the background, and send its answer."""
        check.message.topic = without_namespace(self._namespace, check.message.topic)
        self._checks.submit(check)

    async def _answer(self, check: CheckRequest, state: TransactionState, why: Exception | None) -> None:
        message, broker = check.message, check.header.bname or ""
        if self.tracer is not None:
            trace_end(self.tracer, message, message.msg_id, broker, state, from_check=True)
        header = answer_header(self.group, check.header, message, state)
        connection = await self.sender.connections.get(check.address)
        connection.write(end_frame(header, connection.number(), self.sender.connections.credentials, why))

    def __repr__(self) -> str:
        return f"Transaction{super().__repr__()}"


class Transaction(TransactionBase):
    """A transaction of the asyncio producer; see :meth:`TransactionProducer.transaction`."""

    def __init__(self, producer: TransactionProducer, message: Message, timeout: float | None) -> None:
        super().__init__(message)
        self._producer = producer
        self._timeout = timeout

    async def __aenter__(self) -> Self:
        self._check_new()
        half = self._half = await self._producer.send_half(self.message, self._timeout)
        if not is_safe(half):
            await self.rollback()
            raise not_safe(half, self._producer.address_of(half.queue.broker_name))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state is None:
            failed = TransactionState.ROLLBACK if kind is not None else TransactionState.COMMIT
            await self._end(failed, error if isinstance(error, Exception) else None)

    async def commit(self) -> None:
        """Commit: consumers see the message.

        :raises ClosedError: the transaction has already ended.
        """
        await self._end(TransactionState.COMMIT)

    async def rollback(self) -> None:
        """Roll back: no consumer sees the message.

        :raises ClosedError: the transaction has already ended.
        """
        await self._end(TransactionState.ROLLBACK)

    async def leave_open(self) -> None:
        """End the block without a commit or rollback: the broker checks the transaction later.

        :raises ClosedError: the transaction has already ended.
        """
        await self._end(TransactionState.UNKNOWN)

    async def _end(self, state: TransactionState, why: Exception | None = None) -> None:
        self.failure = await self._producer.send_end(self._decide(state), state, self.message, why)


def log_end_not_sent(half: SendResult, state: TransactionState, why: Exception) -> None:
    """Log that the commit or rollback of a transaction could not be sent."""
    _log.warning(
        "the %s of transaction %s could not be sent to broker %s, which checks it later: %s",
        state.name, half.msg_id, half.queue.broker_name, why,
    )  # fmt: skip


async def _execute(listener: TransactionListener, message: Message, arg: Any) -> object:
    execute = listener.execute_local_transaction
    if inspect.iscoroutinefunction(execute):
        return await execute(message, arg)
    said = await asyncio.to_thread(execute, message, arg)
    return await said if inspect.isawaitable(said) else said
