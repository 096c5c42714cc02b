"""What both faces of the transaction producer share: half messages, how a transaction is ended, what listeners say.

Knows the fields of END_TRANSACTION (DefaultMQProducerImpl.endTransaction). Refuses to know how requests travel.
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
    """Runs local transactions, and tells afterwards how they ended. Methods may be plain or ``async def``."""

    def execute_local_transaction(
        self, message: Message, arg: Any
    ) -> TransactionState | Awaitable[TransactionState | None] | None:
        """Do what the message tells of, once its half message is stored.

        ``message.transaction_id`` is what to keep with it. What is raised, and None, mean UNKNOWN.
        """
        ...

    def check_local_transaction(
        self, message: MessageExt
    ) -> TransactionState | Awaitable[TransactionState | None] | None:
        """How a transaction ended, which a producer of this group began and whose end the broker has not heard.

        That producer may have died: look where local transactions leave their traces. UNKNOWN makes the broker ask
        again. Called for the same transaction more than once, perhaps at the same time.
        """
        ...


Check = Callable[[MessageExt], TransactionState | Awaitable[TransactionState | None] | None]
"""The part of a :class:`TransactionListener` that brokers ask."""


def check_of(listener: TransactionListener | None, check: Check | None) -> Check:
    """Whom brokers ask.

    :raises ConfigError: nobody, or two.
    """
    if listener is not None and check is not None:
        raise ConfigError("give a listener or a check, not both: brokers ask one of them how a transaction ended")
    if listener is not None:
        return listener.check_local_transaction
    if check is None:
        raise ConfigError(
            "a transaction producer needs a listener, or a check: after a crash brokers ask the producers of the group "
            "how a transaction ended, and would never hear"
        )
    return check


def half_of(message: Message, group: str) -> Message:
    """The half message of a message, which stays as it is.

    :raises MessageIllegal: it is to be delivered later, which a transaction cannot promise.
    """
    properties = message.properties
    if not _DELAYS.isdisjoint(properties) and any(properties.get(name, "0") != "0" for name in _DELAYS):
        raise MessageIllegal(f"{message!r} cannot be sent in a transaction: it has a delay")
    half = Message(message.topic, message.body, flag=message.flag)
    half.properties = {**properties, Property.TRANSACTION_PREPARED: "true", Property.PRODUCER_GROUP: group}
    return half


def begun(message: Message, result: SendResult) -> None:
    """Give a message the id of the transaction that its half message has begun."""
    message.properties[Property.UNIQUE_KEY] = result.msg_id
    message.transaction_id = result.msg_id


def state_of(said: object, who: str) -> TransactionState:
    """What a listener's word means; nothing and nonsense mean UNKNOWN."""
    if isinstance(said, TransactionState):
        return said
    if said is not None:
        _log.error("%s returned %r, which is no TransactionState; the broker will ask later", who, said)
    return TransactionState.UNKNOWN


def not_safe(result: SendResult, address: str | None) -> BrokerError:
    """The error for a half message that is stored, but not as safely as the broker is set up for."""
    words = f"the half message {result.msg_id} is not flushed or replicated in time and was rolled back"
    return BrokerError.of(result.status.value, words, address)


def is_safe(result: SendResult) -> bool:
    """Whether the local transaction may run."""
    return result.status is SendStatus.SEND_OK


# -- the end


def end_frame(
    header: EndTransaction, opaque: int, credentials: Credentials | None, why: Exception | None = None
) -> bytes:
    """The one-way request that ends a transaction.

    :param credentials: what it is signed with.
    :param why: what went wrong, for the broker's log.
    """
    remark = None if why is None else f"{type(why).__name__}: {why}"
    ext = header.to_ext() if credentials is None else credentials.signed(header.to_ext(), b"")
    return encode_command(Command(RequestCode.END_TRANSACTION, opaque, ONEWAY_FLAG, remark, ext))


def end_header(group: str, result: SendResult, state: TransactionState) -> EndTransaction:
    """The end of a transaction its own producer knows of."""
    return EndTransaction(
        topic=result.queue.topic, producer_group=group, tran_state_table_offset=result.queue_offset,
        commit_log_offset=parse_offset_msg_id(result.offset_msg_id)[2], commit_or_rollback=_OUTCOMES[state],
        msg_id=result.msg_id, transaction_id=result.transaction_id, bname=result.queue.broker_name,
    )  # fmt: skip


def answer_header(
    group: str, question: CheckTransactionState, message: MessageExt, state: TransactionState
) -> EndTransaction:
    """The answer to a broker's question."""
    return EndTransaction(
        topic=question.topic, producer_group=group, tran_state_table_offset=question.tran_state_table_offset,
        commit_log_offset=question.commit_log_offset, commit_or_rollback=_OUTCOMES[state],
        from_transaction_check=True, msg_id=message.msg_id, transaction_id=question.transaction_id,
        bname=question.bname,
    )  # fmt: skip


class TransactionBase:
    """A transaction in a ``with`` block.

    :ivar message: the message; consumers see it after the commit.
    :ivar state: what the broker was told; None before.
    :ivar failure: why it could not be told: it will ask.
    """

    def __init__(self, message: Message) -> None:
        self.message = message
        self.state: TransactionState | None = None
        self.failure: Exception | None = None
        self._half: SendResult | None = None

    @property
    def half(self) -> SendResult:
        """Where the half message was stored.

        :raises ClosedError: the transaction has not begun: use it in a ``with`` statement.
        """
        if self._half is None:
            raise ClosedError("this transaction has not begun: use it in a with statement")
        return self._half

    @property
    def transaction_id(self) -> str:
        """What to keep with the local transaction, so that the check finds it."""
        return self.half.msg_id

    def _check_new(self) -> None:
        if self._half is not None:
            raise ClosedError(f"transaction {self._half.msg_id} has begun before; make another for another message")

    def _decide(self, state: TransactionState) -> SendResult:
        """The half message, whose transaction now ends.

        :raises ClosedError: it has ended before.
        """
        half = self.half
        if self.state is not None:
            raise ClosedError(f"transaction {half.msg_id} has ended before: {self.state.name}")
        self.state = state
        return half
