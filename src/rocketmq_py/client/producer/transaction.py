"""Shared by the asyncio and the blocking transaction producer: half messages, END_TRANSACTION requests, results of
listeners. Header fields as in Java's DefaultMQProducerImpl.endTransaction.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from rocketmq_py.errors import BrokerError, ClosedError, ConfigError, MessageIllegal
from rocketmq_py.model import Message, MessageExt, SendResult, SendStatus, TransactionState
from rocketmq_py.properties import Property
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.transaction import CheckTransactionState, EndTransaction
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK
from rocketmq_py.wire.command import ONEWAY_FLAG, Command, encode_command
from rocketmq_py.wire.ids import parse_offset_msg_id
from rocketmq_py.wire.signing import Credentials

_log = logging.getLogger(__name__)

_OUTCOMES = {
    TransactionState.COMMIT: TRANSACTION_COMMIT,
    TransactionState.ROLLBACK: TRANSACTION_ROLLBACK,
    TransactionState.UNKNOWN: TRANSACTION_NOT,
}
_DELAYS = {Property.DELAY_LEVEL, Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS}


class TransactionListener(Protocol):
    """Runs local transactions and answers the brokers' checks. Its methods may be plain or ``async def``."""

    def execute_local_transaction(
        self, message: Message, arg: Any
    ) -> TransactionState | Awaitable[TransactionState | None] | None:
        """Run the local transaction of ``message``, whose half message is stored.

        Store ``message.transaction_id`` in the same database transaction, so that a later check can find its outcome.
        An exception or None means UNKNOWN: the broker checks later.
        """
        ...

    def check_local_transaction(
        self, message: MessageExt
    ) -> TransactionState | Awaitable[TransactionState | None] | None:
        """Return the outcome of a transaction whose commit or rollback the broker has not received.

        Another producer of the group may have begun it and crashed, so look ``message.transaction_id`` up in the
        database, not in memory. After UNKNOWN the broker repeats the check. Several calls for the same transaction are
        possible, also at the same time.
        """
        ...


Check = Callable[[MessageExt], TransactionState | Awaitable[TransactionState | None] | None]
"""A function like :meth:`TransactionListener.check_local_transaction`."""


def check_of(listener: TransactionListener | None, check: Check | None) -> Check:
    """Return the function that answers checks: ``check``, or the listener's.

    :raises ConfigError: neither or both are given.
    """
    if listener is not None and check is not None:
        raise ConfigError("give a listener or a check, not both: only one of them can answer checks of brokers")
    if listener is not None:
        return listener.check_local_transaction
    if check is None:
        raise ConfigError(
            "a transaction producer needs a listener or a check: after a crash brokers ask the producers of the group "
            "how a transaction ended, and would never get an answer"
        )
    return check


def half_of(message: Message, group: str) -> Message:
    """Make the half message of a message: a copy with the properties of a prepared transaction of ``group``.

    :raises MessageIllegal: the message has a delay, which transactions do not support.
    """
    properties = message.properties
    if not _DELAYS.isdisjoint(properties) and any(properties.get(name, "0") != "0" for name in _DELAYS):
        raise MessageIllegal(f"{message!r} cannot be sent in a transaction: it has a delay")
    half = Message(message.topic, message.body, flag=message.flag)
    half.properties = {**properties, Property.TRANSACTION_PREPARED: "true", Property.PRODUCER_GROUP: group}
    return half


def begun(message: Message, result: SendResult) -> None:
    """Copy the unique key of the stored half message to the message, as its unique key and transaction id."""
    message.properties[Property.UNIQUE_KEY] = result.msg_id
    message.transaction_id = result.msg_id


def state_of(returned: object, who: str) -> TransactionState:
    """Return ``returned`` if it is a TransactionState, else UNKNOWN; anything else than None is logged.

    :param who: the listener's method, for the log.
    """
    if isinstance(returned, TransactionState):
        return returned
    if returned is not None:
        _log.error("%s returned %r instead of a TransactionState; the broker checks later", who, returned)
    return TransactionState.UNKNOWN


def not_safe(result: SendResult, address: str | None) -> BrokerError:
    """Make the error for a half message that the broker stored but did not flush or replicate in time.

    :param address: of the broker; None if unknown.
    """
    why = f"the half message {result.msg_id} was not flushed or replicated in time and was rolled back"
    return BrokerError.of(result.status.value, why, address)


def is_safe(result: SendResult) -> bool:
    """True if the half message is stored, flushed and replicated (SEND_OK): the local transaction may run."""
    return result.status is SendStatus.SEND_OK


# -- END_TRANSACTION: commit or rollback


def end_frame(
    header: EndTransaction, opaque: int, credentials: Credentials | None, why: Exception | None = None
) -> bytes:
    """Encode the one-way END_TRANSACTION request.

    :param credentials: sign the request with these; None leaves it unsigned.
    :param why: the exception of the local transaction, which the broker logs.
    """
    remark = None if why is None else f"{type(why).__name__}: {why}"
    ext = header.to_ext() if credentials is None else credentials.signed(header.to_ext(), b"")
    return encode_command(Command(RequestCode.END_TRANSACTION, opaque, ONEWAY_FLAG, remark, ext))


def end_header(group: str, result: SendResult, topic: str, state: TransactionState) -> EndTransaction:
    """The END_TRANSACTION header with which a producer commits or rolls back its own transaction.

    :param result: of sending the half message.
    :param topic: with the namespace prefix.
    """
    return EndTransaction(
        topic=topic, producer_group=group, tran_state_table_offset=result.queue_offset,
        commit_log_offset=parse_offset_msg_id(result.offset_msg_id)[2], commit_or_rollback=_OUTCOMES[state],
        msg_id=result.msg_id, transaction_id=result.transaction_id, bname=result.queue.broker_name,
    )  # fmt: skip


def answer_header(
    group: str, check: CheckTransactionState, message: MessageExt, state: TransactionState
) -> EndTransaction:
    """The END_TRANSACTION header that answers a broker's check with ``state``."""
    return EndTransaction(
        topic=check.topic, producer_group=group, tran_state_table_offset=check.tran_state_table_offset,
        commit_log_offset=check.commit_log_offset, commit_or_rollback=_OUTCOMES[state],
        from_transaction_check=True, msg_id=message.msg_id, transaction_id=check.transaction_id,
        bname=check.bname,
    )  # fmt: skip


class TransactionBase:
    """A transaction in a ``with`` block.

    :ivar message: the message; consumers see it after the commit.
    :ivar state: COMMIT, ROLLBACK or UNKNOWN once it has ended; None before.
    :ivar failure: why the commit or rollback could not be sent; the broker checks later. None if it was sent.
    """

    def __init__(self, message: Message) -> None:
        self.message = message
        self.state: TransactionState | None = None
        self.failure: Exception | None = None
        self._half: SendResult | None = None

    @property
    def half(self) -> SendResult:
        """The result of sending the half message.

        :raises ClosedError: the transaction has not begun: use it in a ``with`` statement.
        """
        if self._half is None:
            raise ClosedError("this transaction has not begun: use it in a with statement")
        return self._half

    @property
    def transaction_id(self) -> str:
        """The id to store with the local transaction, so that a later check can find its outcome.

        :raises ClosedError: the transaction has not begun.
        """
        return self.half.msg_id

    def _check_new(self) -> None:
        if self._half is not None:
            raise ClosedError(f"transaction {self._half.msg_id} has already begun; make another for another message")

    def _decide(self, state: TransactionState) -> SendResult:
        """Set the final state of the transaction; returns the result of sending the half message.

        :raises ClosedError: the transaction has already ended.
        """
        half = self.half
        if self.state is not None:
            raise ClosedError(f"transaction {half.msg_id} has already ended: {self.state.name}")
        self.state = state
        return half
