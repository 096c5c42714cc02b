"""The two phases of an exactly-once micro-batch: tasks send half messages; the driver decides and ends them.

docs/spark/exactly-once.md describes the states, and what happens after a crash in each.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rocketmq_py.arrow.bad_records import BadRecordPolicy
from rocketmq_py.arrow.remoting.cluster import Cluster
from rocketmq_py.arrow.row_properties import ATTEMPT
from rocketmq_py.arrow.sink.rows import RowStamp, RowWriter
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from rocketmq_py.spark.decision_store.decisions import Decision, DecisionError, Decisions
from rocketmq_py.spark.sink.end_transactions import TransactionEnds
from rocketmq_py.spark.sink.half_sender import HalfMessages, HalfSender

if TYPE_CHECKING:
    from rocketmq_py.arrow.sink.blocks import Keys

_log = logging.getLogger(__name__)


@dataclass
class Prepared:
    """The half messages that one task attempt sent, as the driver needs them to commit them or roll them back.

    :ivar attempt: random id of the task attempt.
    :ivar halves: offsets of the half messages.
    :ivar resent: for rows whose half message was sent more than once, the last unique key, by row key (property
        ``SPARK_ROW_KEY``).
    :ivar topics: the topics of the rows.
    """

    query_id: str
    attempt: str
    halves: HalfMessages = field(default_factory=HalfMessages)
    resent: dict[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()


def group_of(producer_group: str, query_id: str) -> str:
    """Return the producer group of a query: ``producer_group``, a hyphen and the query's id.

    Every query needs its own group, since brokers send a transaction check to any member of the group.
    """
    return f"{producer_group}-{query_id}"


class Preparation:
    """The first phase of an exactly-once write, in a task: sends a half message for every row; rolls back on failure.

    :param columns: names of the columns of the rows.
    :param topic: the topic of every row; None takes it from column ``topic``.
    :param unique_key: returns a new unique key (client message id).
    :param unique_keys: returns many unique keys, as for :class:`BlockWriter`.
    :param bad: how to treat rows that every broker would refuse.
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
        """Send half messages for rows; return when brokers have stored all of them."""

        def send(writer: RowWriter, sender: HalfSender) -> None:
            for message in writer.messages(rows, self._bad):
                sender.send(message)

        return self._prepared(send)

    def batches(self, batches: Iterable[Any]) -> Prepared:
        """Send half messages for the rows of Arrow record batches; return when brokers have stored all of them."""
        from rocketmq_py.arrow.sink.blocks import Block, BlockWriter  # imports Arrow, which the second phase lacks

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
        writer = RowWriter(self._columns, self._topic, stamp, self._unique_key, settings.compression)
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
    """The second phase of an exactly-once write, on the driver: decides about a micro-batch, ends its transactions.

    :param settings: their ``producer_group`` is that of the option, without the query's id.
    :param timeout: seconds to wait for brokers to check transactions that could not be ended directly.
    """

    def __init__(self, settings: SendSettings, decisions: Decisions, timeout: float) -> None:
        self._settings = settings
        self._decisions = decisions
        self._timeout = timeout

    def commit(self, prepared: list[Prepared], batch_id: int) -> None:
        """Commit a micro-batch; return when all its rows are delivered.

        :raises DecisionError: the decision cannot be written or read; nothing is delivered.
        :raises OpenTransactionsError: the decision is stored, but some rows are not delivered yet.
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
        """Store durably which task attempts commit."""
        self._decisions.make(decision)

    def end(self, prepared: list[Prepared], outcome: int) -> HalfMessages:
        """Commit or roll back the half messages of ``prepared``; return those that may still be open.

        :param outcome: ``TRANSACTION_COMMIT`` or ``TRANSACTION_ROLLBACK``.
        """
        halves = HalfMessages()
        if not prepared:
            return halves
        for one in prepared:
            halves.add_all(one.halves)
        return _end(self._of_query(prepared[0].query_id), halves, _topics(prepared), outcome)

    def _repeat(self, prepared: list[Prepared], batch_id: int, made: Decision) -> None:
        """Complete a micro-batch that Spark repeats after its decision ``made`` was stored; the decision stays valid.

        :raises DecisionError: the stored decision is of another query or of a later micro-batch.
        """
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
        """Roll back task attempts that no decision commits. Spark also calls this if :meth:`commit` fails.

        :param complete: every task succeeded, so :meth:`commit` may have tried to store a decision. If none is found,
            nothing is rolled back, since a record whose write failed may still appear; the transactions stay open until
            the next decision.
        """
        made = self._decisions.latest()
        if complete and (made is None or made.batch_id < batch_id):
            return
        attempts = made.attempts if made is not None and made.batch_id == batch_id else frozenset()
        self.end([one for one in prepared if one.attempt not in attempts], TRANSACTION_ROLLBACK)

    def _check_back(self, decision: Decision) -> None:
        # imported here: few micro-batches need it, and it imports the producer, which every process would load
        from rocketmq_py.spark.sink.check_back import CheckBack

        CheckBack(self._of_query(decision.query_id), decision, self._timeout).run()

    def _of_query(self, query_id: str) -> SendSettings:
        return replace(self._settings, producer_group=group_of(self._settings.producer_group, query_id))


def _topics(prepared: list[Prepared]) -> tuple[str, ...]:
    return tuple(sorted({topic for one in prepared for topic in one.topics}))


def _roll_back(settings: SendSettings, halves: HalfMessages, topics: tuple[str, ...]) -> None:
    """Roll back half messages. An error is only logged, since brokers roll back the rest after checks."""
    try:
        _end(settings, halves, topics, TRANSACTION_ROLLBACK)
    except RocketMQError as e:
        _log.warning("%d half messages of a failed task are not rolled back yet: %s", len(halves), e)


def _end(settings: SendSettings, halves: HalfMessages, topics: tuple[str, ...], outcome: int) -> HalfMessages:
    if not len(halves):
        return HalfMessages()
    with closing(Cluster(settings.namesrv, settings.timeout, settings.retries, settings.security)) as cluster:
        masters = {name: address for topic in topics for name, address in cluster.masters(topic).items()}
        with closing(TransactionEnds(settings, masters)) as ends:
            return ends.end(halves, outcome)
