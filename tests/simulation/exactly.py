"""Exactly-once micro-batches: the decisions of the Spark sink, carried out by a driver that dies at any moment.

``Committer``, ``Decisions`` and ``verdict`` are those of the sink. What it sends through blocking sockets is sent here
by the asynchronous producer: half messages, their ends, answers to checks. Spark's part is played, too: it retries
tasks, writes a micro-batch again after a crash, and goes on only after the sink has committed.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from rocketmq_py.arrow.row_properties import ATTEMPT, BATCH_ID, QUERY_ID, ROW_KEY
from rocketmq_py.client.producer.transaction_producer import Transaction, TransactionProducer
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import Message, MessageExt, TransactionState
from rocketmq_py.properties import Property
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT
from rocketmq_py.spark.decision_store.decisions import Decision, Decisions, verdict
from rocketmq_py.spark.sink.exactly_once import Committer, Prepared
from rocketmq_py.spark.sink.half_sender import HalfMessages
from tests.simulation.clients import Client, body_of
from tests.simulation.ledger import Ledger
from tests.simulation.world import TOPIC, World

_QUERY = "query"
_LOOK_SECONDS = 0.1


class Records:
    """Durable storage of decisions, in memory; as :class:`rocketmq_py.spark.decision_store.stores.DecisionStore`."""

    def __init__(self) -> None:
        self._records: dict[str, bytes] = {}

    def names(self) -> list[str]:
        return list(self._records)

    def read(self, name: str) -> bytes:
        return self._records[name]

    def create(self, name: str, content: bytes) -> None:
        if name in self._records:
            raise FileExistsError(name)
        self._records[name] = content

    def remove(self, name: str) -> None:
        self._records.pop(name, None)


@dataclass
class Attempt(Prepared):
    """A task attempt and its transactions."""

    transactions: list[Transaction] = field(default_factory=list)


class Ending(NamedTuple):
    attempt: Attempt
    outcome: int


class Steps(Committer):
    """Decides as the sink; what is to be ended is kept for the driver, which ends it afterwards."""

    def __init__(self, decisions: Decisions) -> None:
        super().__init__(cast("Any", None), decisions, 0.0)
        self.endings: list[Ending] = []

    def end(self, prepared: list[Prepared], outcome: int) -> HalfMessages:
        self.endings += [Ending(cast("Attempt", one), outcome) for one in prepared]
        return HalfMessages()

    def _check_back(self, decision: Decision) -> None:
        """Checks are answered all the time."""


class Query:
    """A query with its checkpoint, which outlives its drivers.

    :param batches: the keys of the rows of each micro-batch.
    """

    def __init__(self, batches: list[list[str]]) -> None:
        self.batches = batches
        self.committed = 0
        """Spark's commit log: so many micro-batches are complete."""
        self.decisions = Decisions("memory", Records())
        self.has_sent = asyncio.Event()


class Driver(Client):
    """A driver of a query with its tasks, in one process."""

    def __init__(
        self, world: World, ledger: Ledger, chance: random.Random, name: str, query: Query, group: str
    ) -> None:
        super().__init__(world, ledger, chance, name)
        self.query = query
        self.has_sent = query.has_sent
        self._group = group

    async def run(self) -> None:
        instance = self.world.instance(self.process)
        producer = TransactionProducer("sink-query", instance=instance, check=self._check, topics=[TOPIC], retries=0)
        await producer.start()
        query = self.query
        while query.committed < len(query.batches):
            await self._play(producer, query.committed)
            query.committed += 1
        self.has_sent.set()
        while not self.is_over:  # noqa: ASYNC110 - it is asked for the others
            await asyncio.sleep(0.5)
        await producer.close()
        await instance.stop()

    async def _play(self, producer: TransactionProducer, batch: int) -> None:
        rows = self.query.batches[batch]
        for key in rows:
            sent = self.ledger.send(key, self._body(key))
            if sent.end is None:
                sent.end = sent.is_visible = False
        half = self.chance.randint(0, len(rows))
        chosen = [await self._task(producer, batch, part) for part in (rows[:half], rows[half:]) if part]
        committer = Steps(self.query.decisions)
        committer.commit([*chosen], batch)
        made = self.query.decisions.latest()
        assert made is not None
        assert made.batch_id == batch
        for key in rows:
            self.ledger.sent[key].end = self.ledger.sent[key].is_visible = True
        for attempt, outcome in committer.endings:
            await self._end(attempt, outcome)
        while any(key not in self.ledger.groups[self._group].done for key in rows):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)

    def _body(self, key: str) -> bytes:
        known = self.ledger.sent.get(key)
        return known.body if known is not None else body_of(key, self.chance)

    async def _task(self, producer: TransactionProducer, batch: int, rows: list[str]) -> Attempt:
        """Attempts of a task, until one of them has stored all its rows; another may have run beside it."""
        while True:
            attempt = Attempt(_QUERY, f"{self.chance.getrandbits(64):016x}", topics=(TOPIC,))
            ends_at = self.chance.randrange(len(rows)) if self.chance.random() < 0.2 else len(rows)
            pauses_at = self.chance.randrange(len(rows)) if self.chance.random() < 0.2 else -1
            for at, key in enumerate(rows[:ends_at]):
                await self._row(producer, batch, attempt, key)
                if at == pauses_at:  # so long that brokers ask before anything is decided
                    await asyncio.sleep(2.5)
            if ends_at == len(rows):
                return attempt

    async def _row(self, producer: TransactionProducer, batch: int, attempt: Attempt, key: str) -> None:
        """Store the half message of a row; one that may have arrived is sent again, and only the last one counts."""
        properties = {QUERY_ID: _QUERY, BATCH_ID: str(batch), ATTEMPT: attempt.attempt, ROW_KEY: key}
        while True:
            transaction = producer.transaction(Message(TOPIC, self.ledger.sent[key].body, properties=properties))
            try:
                await transaction.__aenter__()
            except RocketMQError:
                attempt.resent[key] = ""
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            if self.chance.random() < 0.1:  # as if its answer were lost
                await transaction.leave_open()
                attempt.resent[key] = ""
                continue
            if key in attempt.resent:
                attempt.resent[key] = transaction.message.properties[Property.UNIQUE_KEY]
            attempt.transactions.append(transaction)
            attempt.halves.add("broker", None, 0, len(attempt.transactions))
            return

    async def _end(self, attempt: Attempt, outcome: int) -> None:
        for transaction in attempt.transactions:
            if self.chance.random() < 0.3:  # as if the connection broke: brokers will ask
                await transaction.leave_open()
            elif outcome == TRANSACTION_COMMIT:
                await transaction.commit()
            else:
                await transaction.rollback()

    async def _check(self, message: MessageExt) -> TransactionState:
        return TransactionState[verdict(message.properties, self.query.decisions.latest()).name]
