"""The blocking transaction producer: the same names as the asyncio one.

A façade over it in the portal's loop. Half messages and ends travel as the blocking producer's sends do, over
connections of the calling thread; local transactions run in that thread, too. Brokers' questions are answered by the
asyncio producer's pool.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from rocketmq_py.client.hooks.tracing import trace_end
from rocketmq_py.client.producer.blocking import Producer
from rocketmq_py.client.producer.transaction import (
    Check,
    TransactionBase,
    TransactionListener,
    begun,
    end_frame,
    end_header,
    half_of,
    is_safe,
    not_safe,
    state_of,
)
from rocketmq_py.client.producer.transaction_producer import (
    ProducerOptions,
    TransactionProducer as AioProducer,
    log_untold,
)
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import Message, SendResult, TransactionSendResult, TransactionState
from rocketmq_py.protocol.sys_flag import TRANSACTION_PREPARED

_log = logging.getLogger(__name__)

T = TypeVar("T")

_END_SECONDS = 3.0
"""How long writing the end of a transaction may take, connecting included."""


class TransactionProducer(Producer):
    """A producer that also sends messages in transactions, from any number of threads.

    Such a message is stored, but seen by nobody, before the local transaction runs. Its end, commit or rollback, is
    told afterwards in a request nobody answers. A broker that does not hear of it, because the producer has crashed or
    the network failed, asks any producer of the group, again and again: so does the message end as the local
    transaction did.

    :param listener: runs local transactions (for :meth:`send_in_transaction`) and answers brokers.
    :param check: answers brokers, where :meth:`transaction` alone is used: takes the message, returns a state.
    :param topics: topics whose brokers may ask from the start on; without them only those that this producer has sent
        to. A producer that starts again after a crash names those of its transactions.
    :param check_threads: how many checks run at a time (checkThreadPoolMaxSize of Java's).
    :param check_request_hold_max: how many more wait; others are dropped, and asked again by their brokers.
    :raises ConfigError: neither a listener nor a check, or an option that can never work.

    All other options are those of :class:`~rocketmq_py.Producer`.
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
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._producer = AioProducer(
            group, namesrv, listener=listener, check=check, topics=topics, check_threads=check_threads,
            check_request_hold_max=check_request_hold_max, **options,
        )  # fmt: skip
        self._wrap(self._producer)

    def send_in_transaction(
        self, message: Message, arg: Any = None, timeout: float | None = None
    ) -> TransactionSendResult:
        """Send a half message, have the listener run the local transaction, tell the broker how it ended.

        A plain ``execute_local_transaction`` runs in the calling thread. What it raises is logged, is the ``failure``
        of the result, and makes the state UNKNOWN: the broker will ask.

        :param arg: passed on to the listener.
        :param timeout: seconds to store the half message, instead of ``send_timeout``.
        :raises MessageIllegal: no broker would take it, or it has a delay.
        Other errors as :meth:`send`: the local transaction did not run.
        """
        listener = self._producer.need_listener()
        half = self.send_half(message, timeout)
        state, failure = TransactionState.ROLLBACK, None
        if is_safe(half):
            try:
                said = self._awaited(listener.execute_local_transaction(message, arg))
                state = state_of(said, "execute_local_transaction")
            except Exception as e:  # noqa: BLE001 - whatever it is: only a check can tell what became of it
                _log.exception("the local transaction %s failed", half.msg_id)
                state, failure = TransactionState.UNKNOWN, e
        untold = self.tell(half, state, message, failure)
        return TransactionSendResult(half, state, failure or untold)

    def transaction(self, message: Message, timeout: float | None = None) -> Transaction:
        """A transaction: ``with producer.transaction(message) as tx``.

        The half message is stored at the beginning of the block. At its end the transaction is committed, or rolled
        back if the block raised; ``tx.commit()``, ``tx.rollback()`` and ``tx.leave_open()`` do so before. Entering
        raises as :meth:`send_in_transaction` does.
        """
        return Transaction(self, message, timeout)

    def send_half(self, message: Message, timeout: float | None = None) -> SendResult:
        """Send the half message, to a broker that knows whom to ask."""
        half, producer = half_of(message, self.group), self._producer

        def send() -> SendResult:
            return self._send(producer.sender.delivery(half, None, timeout, sys_flag=TRANSACTION_PREPARED))

        result = send() if producer.hooks is None else producer.hooks.around([half], send)
        begun(message, result)
        if not producer.is_known_to(result.queue.broker_name):
            self._portal.run(producer.introduce())
        return result

    def tell(
        self, half: SendResult, state: TransactionState, message: Message, why: Exception | None = None
    ) -> RocketMQError | None:
        """Tell the broker how a transaction ended; what kept it from hearing is logged and returned."""
        self._portal.check()
        if self._producer.tracer is not None:
            trace_end(self._producer.tracer, message, half.msg_id, half.queue.broker_name, state)
        assert self._direct is not None  # it has sent the half message
        try:
            address = self._producer.need_address(half.queue.broker_name)
            header = end_header(self.group, half, state)
            who = self._producer.sender.connections.credentials
            deadline = time.monotonic() + _END_SECONDS
            self._direct.oneway(address, lambda opaque: end_frame(header, opaque, who, why), deadline)
        except RocketMQError as e:
            log_untold(half, state, e)
            return e
        return None

    def address_of(self, broker_name: str) -> str | None:
        """Where the master of a broker is."""
        return self._producer.address_of(broker_name)

    def _awaited(self, said: T | Awaitable[T]) -> T:
        """What a listener's method returns, whether it is plain or ``async def``."""
        if not inspect.isawaitable(said):
            return said

        async def wait() -> T:
            return await said

        return self._portal.run(wait())


class Transaction(TransactionBase):
    """A transaction of the blocking producer; see :meth:`TransactionProducer.transaction`."""

    def __init__(self, producer: TransactionProducer, message: Message, timeout: float | None) -> None:
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
        """Have the message delivered.

        :raises ClosedError: the transaction has ended before.
        """
        self._end(TransactionState.COMMIT)

    def rollback(self) -> None:
        """Have the message forgotten. Raises as :meth:`commit`."""
        self._end(TransactionState.ROLLBACK)

    def leave_open(self) -> None:
        """Have the broker ask later. Raises as :meth:`commit`."""
        self._end(TransactionState.UNKNOWN)

    def _end(self, state: TransactionState, why: Exception | None = None) -> None:
        self.failure = self._producer.tell(self._decide(state), state, self.message, why)
