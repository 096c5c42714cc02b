"""Headers of requests that end or check transactions."""

from __future__ import annotations

from rocketmq_py.protocol.headers.base import TopicHeader
from rocketmq_py.wire.integers import Int32, Int64


class EndTransaction(TopicHeader, kw_only=True):
    """Ends a transaction (request code 37).

    ``commit_or_rollback`` is 8 for commit, 12 for rollback, 0 if the outcome is unknown. ``tran_state_table_offset`` is
    the offset of the half message in the half topic.
    """

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str
    topic: str | None = None
    from_transaction_check: bool = False
    transaction_id: str | None = None


class EndTransactions(TopicHeader, kw_only=True):
    """Ends many transactions with the same outcome (request code 300037).

    The body has the positions of their half messages. The body of the response has one byte per transaction: 1 if it
    has ended. With ``in_order``, the broker stops at the first transaction that it cannot end.
    """

    producer_group: str
    commit_or_rollback: Int32
    in_order: bool = False
    topic: str | None = None


class CheckTransactionState(TopicHeader, kw_only=True):
    """A broker asks a producer for the outcome of a transaction (request code 39)."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessage(TopicHeader, kw_only=True):
    """Resumes the checks of a half message that the broker gave up (request code 323).

    ``msg_id`` is the broker's id of the half message.
    """

    topic: str | None = None
    msg_id: str | None = None
