"""What the asyncio and the blocking transaction producer share: half messages, END_TRANSACTION requests, results of
listeners. Fields as of DefaultMQProducerImpl.endTransaction.
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
    """Runs local transactions and later answers how they ended. Methods may be plain or ``async def``."""

    def execute_local_transaction(
        self, message: Message, arg: Any
    ) -> TransactionState | Awaitable[TransactionState | None] | None:
        """Run the local transaction of ``message``, whose half message is stored.

        Store ``message.transaction_id`` with it, so that the check finds it. An exception or None means UNKNOWN.
        """
        ...

    def check_local_transaction(
        self, message: MessageExt
    ) -> TransactionState | Awaitable[TransactionState | None] | None:
        """Return how a transaction ended that a producer of this group began and whose end the broker did not receive.

        That producer may have crashed: look where local transactions are recorded. After UNKNOWN the broker repeats the
        check. May be called more than once for a transaction, also at the same time.
        """
        ...


Check = Callable[[MessageExt], TransactionState | Awaitable[TransactionState | None] | None]
"""The part of a :class:`TransactionListener` that answers checks."""


def check_of(listener: TransactionListener | None, check: Check | None) -> Check:
    """The function that answers checks.

    :raises ConfigError: there is none, or there are two.
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
    """The half message of a message; the message itself is not changed.

    :raises MessageIllegal: the message has a delay, which transactions do not support.
    """
    properties = message.properties
    if not _DELAYS.isdisjoint(properties) and any(properties.get(name, "0") != "0" for name in _DELAYS):
        raise MessageIllegal(f"{message!r} cannot be sent in a transaction: it has a delay")
    half = Message(message.topic, message.body, flag=message.flag)
    half.properties = {**properties, Property.TRANSACTION_PREPARED: "true", Property.PRODUCER_GROUP: group}
    return half


def begun(message: Message, result: SendResult) -> None:
    """Set the ids of a message whose half message is stored."""
    message.properties[Property.UNIQUE_KEY] = result.msg_id
    message.transaction_id = result.msg_id


def state_of(returned: object, who: str) -> TransactionState:
    """The state that a listener returned; UNKNOWN if it returned something else."""
    if isinstance(returned, TransactionState):
        return returned
    if returned is not None:
        _log.error("%s returned %r instead of a TransactionState; the broker checks later", who, returned)
    return TransactionState.UNKNOWN


def not_safe(result: SendResult, address: str | None) -> BrokerError:
    """The error for a half message that is stored, but not flushed or replicated as the broker is configured to."""
    why = f"the half message {result.msg_id} was not flushed or replicated in time and was rolled back"
    return BrokerError.of(result.status.value, why, address)


def is_safe(result: SendResult) -> bool:
    """True if the half message is stored safely, so that the local transaction may run."""
    return result.status is SendStatus.SEND_OK


# -- the end


def end_frame(
    header: EndTransaction, opaque: int, credentials: Credentials | None, why: Exception | None = None
) -> bytes:
    """The one-way request that ends a transaction.

    :param credentials: sign it; None leaves it unsigned.
    :param why: the failure of the local transaction, for the broker's log.
    """
    remark = None if why is None else f"{type(why).__name__}: {why}"
    ext = header.to_ext() if credentials is None else credentials.signed(header.to_ext(), b"")
    return encode_command(Command(RequestCode.END_TRANSACTION, opaque, ONEWAY_FLAG, remark, ext))


def end_header(group: str, result: SendResult, topic: str, state: TransactionState) -> EndTransaction:
    """The header that ends a transaction of this producer.

    :param topic: as brokers know it, with its namespace.
    """
    return EndTransaction(
        topic=topic, producer_group=group, tran_state_table_offset=result.queue_offset,
        commit_log_offset=parse_offset_msg_id(result.offset_msg_id)[2], commit_or_rollback=_OUTCOMES[state],
        msg_id=result.msg_id, transaction_id=result.transaction_id, bname=result.queue.broker_name,
    )  # fmt: skip


def answer_header(
    group: str, check: CheckTransactionState, message: MessageExt, state: TransactionState
) -> EndTransaction:
    """The header that answers a check."""
    return EndTransaction(
        topic=check.topic, producer_group=group, tran_state_table_offset=check.tran_state_table_offset,
        commit_log_offset=check.commit_log_offset, commit_or_rollback=_OUTCOMES[state],
        from_transaction_check=True, msg_id=message.msg_id, transaction_id=check.transaction_id,
        bname=check.bname,
    )  # fmt: skip


class TransactionBase:
    """A transaction in a ``with`` block.

    :ivar message: the message; consumers see it after the commit.
    :ivar state: how it ended; None while it is open.
    :ivar failure: why its end could not be sent; the broker checks later.
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
        """The id to store with the local transaction, so that the check finds it."""
        return self.half.msg_id

    def _check_new(self) -> None:
        if self._half is not None:
            raise ClosedError(f"transaction {self._half.msg_id} has already begun; make another for another message")

    def _decide(self, state: TransactionState) -> SendResult:
        """Set the state in which the transaction ends; returns the half message.

        :raises ClosedError: the transaction has already ended.
        """
        half = self.half
        if self.state is not None:
            raise ClosedError(f"transaction {half.msg_id} has already ended: {self.state.name}")
        self.state = state
        return half
