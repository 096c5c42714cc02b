"""The asyncio transaction producer: messages that consumers see only if a local transaction commits.

Knows the order of things: the half message, the local transaction, its end; and that brokers ask when they do not hear
of the end. What is said in which words is ``transaction``'s business.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.hooks.hooks import SendHook
from rocketmq_py.client.hooks.tracing import Trace, trace_end
from rocketmq_py.client.producer import transaction_checks
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
from rocketmq_py.client.producer.transaction_checks import CheckPool, Question
from rocketmq_py.core.producer.latency_fault import LatencyFaultTolerance
from rocketmq_py.errors import ConfigError, NoRouteError, RocketMQError
from rocketmq_py.model import Message, SendResult, TransactionSendResult, TransactionState
from rocketmq_py.protocol import names
from rocketmq_py.protocol.sys_flag import TRANSACTION_PREPARED
from rocketmq_py.tls import Tls
from rocketmq_py.wire.compression import CompressionType
from rocketmq_py.wire.signing import Credentials

_log = logging.getLogger(__name__)


class ProducerOptions(TypedDict, total=False):
    """Options of every producer; see :class:`rocketmq_py.Producer`."""

    send_timeout: float
    retries: int
    compress_over: int | None
    compression: CompressionType
    compression_level: int
    max_message_size: int
    default_queue_nums: int
    create_topic: str
    instance_name: str | None
    address_map: Mapping[str, str] | None
    tls: Tls
    credentials: Credentials | None
    hooks: Sequence[SendHook]
    trace: Trace
    send_latency_fault_enable: LatencyFaultTolerance | bool
    send_msg_max_timeout_per_request: float | None
    retry_another_broker_when_not_store_ok: bool


class TransactionProducer(Producer):
    """A producer that also sends messages in transactions.

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
    :param instance: as of :class:`~rocketmq_py.aio.Producer`, which tells all other options.
    :raises ConfigError: neither a listener nor a check, or an option that can never work.
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
        super().__init__(group, namesrv, instance=instance, **options)
        self.listener = listener
        self._checks = CheckPool(check_of(listener, check), self._answer, check_threads, check_request_hold_max)
        self._topics = set(map(names.check_topic, topics))

    # -- life

    async def start(self) -> None:
        """Make ready to send, and to be asked. May be called more than once, not after :meth:`close`."""
        is_first = self._sender is None
        await super().start()
        if is_first and self._instance is not None:
            transaction_checks.serve(self._instance)
            if self._topics:
                await self._instance.refresh_routes()
                await self._instance.heartbeat_all()

    async def close(self) -> None:
        """Answer the questions being worked on, then as :meth:`Producer.close`."""
        await self._checks.close()
        await super().close()

    def topics(self) -> set[str]:
        """Topics this producer has sent to, and those it may be asked about."""
        return super().topics() | self._topics

    # -- in transactions

    async def send_in_transaction(
        self, message: Message, arg: Any = None, timeout: float | None = None
    ) -> TransactionSendResult:
        """Send a half message, have the listener run the local transaction, tell the broker how it ended.

        A plain ``execute_local_transaction`` runs in a thread. What it raises is logged, is the ``failure`` of the
        result, and makes the state UNKNOWN: the broker will ask.

        :param arg: passed on to the listener.
        :param timeout: seconds to store the half message, instead of ``send_timeout``.
        :raises MessageIllegal: no broker would take it, or it has a delay.
        Other errors as :meth:`send`: the local transaction did not run.
        """
        listener = self.need_listener()
        half = await self.send_half(message, timeout)
        state, failure = TransactionState.ROLLBACK, None
        if is_safe(half):
            try:
                state = state_of(await _execute(listener, message, arg), "execute_local_transaction")
            except Exception as e:  # noqa: BLE001 - whatever it is: only a check can tell what became of it
                _log.exception("the local transaction %s failed", half.msg_id)
                state, failure = TransactionState.UNKNOWN, e
        untold = await self.tell(half, state, message, failure)
        return TransactionSendResult(half, state, failure or untold)

    def transaction(self, message: Message, timeout: float | None = None) -> Transaction:
        """A transaction: ``async with producer.transaction(message) as tx``.

        The half message is stored at the beginning of the block. At its end the transaction is committed, or rolled
        back if the block raised; ``await tx.commit()``, ``tx.rollback()`` and ``tx.leave_open()`` do so before.
        Entering raises as :meth:`send_in_transaction` does.
        """
        return Transaction(self, message, timeout)

    # -- the parts, for the blocking face

    def need_listener(self) -> TransactionListener:
        """The listener.

        :raises ConfigError: there is none.
        """
        if self.listener is None:
            raise ConfigError("send_in_transaction needs a listener to run the local transaction; or use transaction()")
        return self.listener

    async def send_half(self, message: Message, timeout: float | None = None) -> SendResult:
        """Send the half message, to a broker that knows whom to ask."""
        half = half_of(message, self.group)

        def send() -> asyncio.Future[SendResult]:
            return self._send(self.sender.delivery(half, None, timeout, sys_flag=TRANSACTION_PREPARED))

        result = await (self.hooks.follow([half], send) if self.hooks is not None else send())
        begun(message, result)
        if not self.is_known_to(result.queue.broker_name):
            await self.introduce()
        return result

    def is_known_to(self, broker_name: str) -> bool:
        """Whether a broker has heard of this producer, and can ask it."""
        address = self.address_of(broker_name)
        assert self._instance is not None
        return address is not None and self._instance.broker_version(address) is not None

    def address_of(self, broker_name: str) -> str | None:
        """Where the master of a broker is."""
        assert self._instance is not None
        return self._instance.routes.master(broker_name)

    def need_address(self, broker_name: str) -> str:
        """Where the master of a broker is.

        :raises NoRouteError: nobody knows.
        """
        address = self.address_of(broker_name)
        if address is None:
            raise NoRouteError(f"broker {broker_name} has no master known to the name servers")
        return address

    async def introduce(self) -> None:
        """Let all brokers know of this producer."""
        assert self._instance is not None
        await self._instance.heartbeat_all()

    async def tell(
        self, half: SendResult, state: TransactionState, message: Message, why: Exception | None = None
    ) -> RocketMQError | None:
        """Tell the broker how a transaction ended; what kept it from hearing is logged and returned."""
        if self.tracer is not None:
            trace_end(self.tracer, message, half.msg_id, half.queue.broker_name, state)
        try:
            address = self.need_address(half.queue.broker_name)
            connection = await self.sender.connections.get(address)
            header = end_header(self.group, half, state)
            connection.write(end_frame(header, connection.number(), self.sender.connections.credentials, why))
        except RocketMQError as e:
            log_untold(half, state, e)
            return e
        return None

    # -- asked by brokers

    def asked(self, question: Question) -> None:
        """A broker wants to know how a transaction ended."""
        self._checks.submit(question)

    async def _answer(self, question: Question, state: TransactionState, why: Exception | None) -> None:
        message, broker = question.message, question.header.bname or ""
        if self.tracer is not None:
            trace_end(self.tracer, message, message.msg_id, broker, state, from_check=True)
        header = answer_header(self.group, question.header, message, state)
        connection = await self.sender.connections.get(question.address)
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
        """Have the message delivered.

        :raises ClosedError: the transaction has ended before.
        """
        await self._end(TransactionState.COMMIT)

    async def rollback(self) -> None:
        """Have the message forgotten. Raises as :meth:`commit`."""
        await self._end(TransactionState.ROLLBACK)

    async def leave_open(self) -> None:
        """Have the broker ask later. Raises as :meth:`commit`."""
        await self._end(TransactionState.UNKNOWN)

    async def _end(self, state: TransactionState, why: Exception | None = None) -> None:
        self.failure = await self._producer.tell(self._decide(state), state, self.message, why)


def log_untold(half: SendResult, state: TransactionState, why: Exception) -> None:
    """A broker did not hear of an end."""
    _log.warning(
        "broker %s was not told of the %s of transaction %s, and will ask: %s",
        half.queue.broker_name, state.name, half.msg_id, why,
    )  # fmt: skip


async def _execute(listener: TransactionListener, message: Message, arg: Any) -> object:
    execute = listener.execute_local_transaction
    if inspect.iscoroutinefunction(execute):
        return await execute(message, arg)
    said = await asyncio.to_thread(execute, message, arg)
    return await said if inspect.isawaitable(said) else said
