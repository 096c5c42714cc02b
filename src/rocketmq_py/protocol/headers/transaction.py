"""Headers of requests that end or check transactions."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import TopicHeader
from rocketmq_py.wire.integers import Int32, Int64


class EndTransaction(TopicHeader, kw_only=True):
    """The end of a transaction (37): 0 unknown, 8 commit, 12 rollback."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str
    topic: str | None = None
    from_transaction_check: bool = False
    transaction_id: str | None = None


class EndTransactions(TopicHeader, kw_only=True):
    """The end of many transactions with one outcome (300037); the body lists the positions of their half messages.

    The response's body has one byte per transaction: 1 if it has ended. With ``in_order``, the broker stops at the
    first one it cannot end.
    """

    producer_group: str
    commit_or_rollback: Int32
    in_order: bool = False
    topic: str | None = None


class CheckTransactionState(TopicHeader, kw_only=True):
    """A broker asks a producer for the state of a transaction (39)."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessage(TopicHeader, kw_only=True):
    """Resumes the checks of a half message that the broker gave up (323); ``msg_id`` is its offset id."""

    topic: str | None = None
    msg_id: str | None = None
