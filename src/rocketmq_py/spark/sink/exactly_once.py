"""The two phases of an exactly-once micro-batch: tasks store half messages; the driver decides and ends them.

See docs/spark/exactly-once.md for the states, and for what a crash leaves in each.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from rocketmq_py.spark.decision_store.decisions import Decision, DecisionError, Decisions
from rocketmq_py.spark.decode.bad_records import BadRecordPolicy
from rocketmq_py.spark.remoting.cluster import Cluster
from rocketmq_py.spark.row_properties import ATTEMPT
from rocketmq_py.spark.sink.blocks import Block, BlockWriter, Keys
from rocketmq_py.spark.sink.end_transactions import TransactionEnds
from rocketmq_py.spark.sink.half_sender import HalfMessages, HalfSender
from rocketmq_py.spark.sink.rows import RowStamp, RowWriter
from rocketmq_py.spark.sink.targets import SendSettings

_log = logging.getLogger(__name__)


@dataclass
class Prepared:
    """The half messages of one task attempt, and what the driver needs to end them."""

    query_id: str
    attempt: str
    halves: HalfMessages = field(default_factory=HalfMessages)
    resent: dict[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()


def group_of(producer_group: str, query_id: str) -> str:
    """The producer group of a query. Every query has its own, since brokers send checks to any member of a group."""
    return f"{producer_group}-{query_id}"


class Preparation:
    """Phase one, in a task: store a half message for every row; roll all of them back if that fails.

    :param columns: names of the rows' values; and ``topic``, that of all rows unless it is a column.
    :param unique_key: makes a client id, and ``unique_keys`` many of them.
    :param bad: what to do about rows no broker would take.
    """

    def __init__(
        self,
        columns: Sequence[str],
        topic: str | None,
        stamp: RowStamp,
        settings: SendSettings,
        unique_key: Callable[[], str],
        unique_keys: Keys,
        bad: BadRecordPolicy,
    ) -> None:
        self._columns = columns
        self._topic = topic
        self._stamp = stamp
        self._settings = replace(settings, producer_group=group_of(settings.producer_group, stamp.query_id))
        self._unique_key = unique_key
        self._unique_keys = unique_keys
        self._bad = bad

    def rows(self, rows: Iterable[Sequence[Any]]) -> Prepared:
        """Store half messages of rows."""

        def send(writer: RowWriter, sender: HalfSender) -> None:
            for message in writer.messages(rows, self._bad):
                sender.send(message)

        return self._prepared(send)

    def batches(self, batches: Iterable[Any]) -> Prepared:
        """Store half messages of the rows of Arrow record batches."""

        def send(writer: RowWriter, sender: HalfSender) -> None:
            blocks = BlockWriter(self._columns, self._topic, writer, self._unique_keys, sender.prefix)
            for batch in batches:
                for one in blocks.messages(batch, self._bad, sender.bound):
                    if isinstance(one, Block):
                        sender.send_block(one)
                    else:
                        sender.send(one)

        return self._prepared(send)

    def _prepared(self, send: Callable[[RowWriter, HalfSender], None]) -> Prepared:
        attempt, settings = secrets.token_hex(8), self._settings
        stamp = self._stamp._replace(extra={ATTEMPT: attempt})
        writer = RowWriter(self._columns, self._topic, stamp, self._unique_key)
        sender = HalfSender(settings, self._unique_key, self._bad)
        try:
            send(writer, sender)
            sender.flush()
        except BaseException:
            _roll_back(settings, sender.halves(), tuple(sender.topics))
            raise
        finally:
            sender.close()
        return Prepared(stamp.query_id, attempt, sender.halves(), sender.resent, tuple(sorted(sender.topics)))


class Committer:
    """Phase two, on the driver.

    :param settings: ``producer_group`` without the query's id.
    :param timeout: seconds to wait for transaction checks, if ends may not have arrived.
    """

    def __init__(self, settings: SendSettings, decisions: Decisions, timeout: float) -> None:
        self._settings = settings
        self._decisions = decisions
        self._timeout = timeout

    def commit(self, prepared: list[Prepared], batch_id: int) -> None:
        """Deliver a micro-batch; return when all its rows are delivered.

        :raises DecisionError: the decision cannot be written or read; nothing is delivered.
        :raises OpenTransactionsError: the commit is decided, but some rows are not delivered yet.
        """
        if not prepared:
            return
        made = self._decisions.latest()
        if made is not None and (made.batch_id >= batch_id or made.query_id != prepared[0].query_id):
            self._repeat(prepared, batch_id, made)
            return
        if not any(len(one.halves) for one in prepared):
            return
        decision = Decision(
            prepared[0].query_id, batch_id, frozenset(one.attempt for one in prepared),
            {row: key for one in prepared for row, key in one.resent.items()}, _topics(prepared),
            tuple(sorted({broker for one in prepared for broker, _ in one.halves.ranges})),
        )  # fmt: skip
        self.decide(decision)
        if len(self.end(prepared, TRANSACTION_COMMIT)):
            self._check_back(decision)

    def decide(self, decision: Decision) -> None:
        """Durably record which task attempts commit."""
        self._decisions.make(decision)

    def end(self, prepared: list[Prepared], outcome: int) -> HalfMessages:
        """Commit or roll back; returns the half messages that may still be open."""
        halves = HalfMessages()
        if not prepared:
            return halves
        for one in prepared:
            halves.add_all(one.halves)
        return _end(self._of_query(prepared[0].query_id), halves, _topics(prepared), outcome)

    def _repeat(self, prepared: list[Prepared], batch_id: int, made: Decision) -> None:
        """Complete a micro-batch that is written again although it is decided: the first decision holds."""
        self.end([one for one in prepared if one.attempt not in made.attempts], TRANSACTION_ROLLBACK)
        if made.query_id != prepared[0].query_id:
            raise DecisionError(
                f"the decisions found are of query {made.query_id}, this is query {prepared[0].query_id}: give every"
                " query a checkpoint (or transactionsLocation) of its own"
            )
        if made.batch_id > batch_id:
            raise DecisionError(
                f"micro-batch {batch_id} is written again, although {made.batch_id} is decided: the checkpoint is older"
                " than the decisions. Restore both from the same moment, or start a query with a new checkpoint"
            )
        self._check_back(made)

    def abort(self, prepared: list[Prepared], batch_id: int, *, complete: bool) -> None:
        """Roll back attempts that are not part of a decision. Spark calls this also if :meth:`commit` fails.

        :param complete: every task had prepared, so that :meth:`commit` may have tried to decide. A record whose
            writing failed may still appear later; its transactions stay open, and the next decision ends them.
        """
        made = self._decisions.latest()
        if complete and (made is None or made.batch_id < batch_id):
            return
        attempts = made.attempts if made is not None and made.batch_id == batch_id else frozenset()
        self.end([one for one in prepared if one.attempt not in attempts], TRANSACTION_ROLLBACK)

    def _check_back(self, decision: Decision) -> None:
        # Few micro-batches need it, and it brings a producer along: every process of a query would import that.
        from rocketmq_py.spark.sink.check_back import CheckBack

        CheckBack(self._of_query(decision.query_id), decision, self._timeout).run()

    def _of_query(self, query_id: str) -> SendSettings:
        return replace(self._settings, producer_group=group_of(self._settings.producer_group, query_id))


def _topics(prepared: list[Prepared]) -> tuple[str, ...]:
    return tuple(sorted({topic for one in prepared for topic in one.topics}))


def _roll_back(settings: SendSettings, halves: HalfMessages, topics: tuple[str, ...]) -> None:
    """Roll back as far as possible; brokers roll back the rest after a check, or when they give up checking."""
    try:
        _end(settings, halves, topics, TRANSACTION_ROLLBACK)
    except RocketMQError as e:
        _log.warning("%d half messages of a failed task are not rolled back yet: %s", len(halves), e)


def _end(settings: SendSettings, halves: HalfMessages, topics: tuple[str, ...], outcome: int) -> HalfMessages:
    if not len(halves):
        return HalfMessages()
    cluster = Cluster(settings.namesrv, settings.timeout, settings.retries, settings.security)
    ends = TransactionEnds(settings, {})
    try:
        masters = {name: address for topic in topics for name, address in cluster.masters(topic).items()}
        ends = TransactionEnds(settings, masters)
        return ends.end(halves, outcome)
    finally:
        ends.close()
        cluster.close()
