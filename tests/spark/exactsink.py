"""An exactly-once sink without Spark, and drivers that die at each step of the second phase."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable
from pathlib import Path

from rocketmq_py.client.blocking_admin import Admin
from rocketmq_py.protocol.sysflag import TRANSACTION_COMMIT
from rocketmq_py.spark.badrecords import Bad, Mode
from rocketmq_py.spark.decisions import Decision, Decisions
from rocketmq_py.spark.exactly import Committer, Prepared, prepare
from rocketmq_py.spark.halves import Half
from rocketmq_py.spark.rows import RowStamp
from rocketmq_py.spark.sender import SendSettings

FAIL = Bad(Mode.FAILFAST, "")


class Crash(BaseException):
    """The driver dies here."""


class Sink:
    """An exactly-once sink without Spark: one query, its decisions, its topic."""

    def __init__(self, namesrv: str, topic: str, path: Path) -> None:
        self.namesrv, self.topic = namesrv, topic
        self.query = uuid.uuid4().hex
        self.location = str(path / "checkpoint" / "rocketmq")
        self.settings = SendSettings(
            namesrv=(namesrv,), producer_group="sink", timeout=10, retries=7, in_flight=8, max_batch_bytes=1000
        )
        self._keys = itertools.count()

    def task(self, bodies: Iterable[int], batch_id: int = 0, partition: int = 0) -> Prepared:
        """Phase one of a task."""
        stamp = RowStamp(self.query, str(batch_id), partition)
        rows = ((str(body), f"k{body % 3}") for body in bodies)
        return prepare(rows, ("body", "shardingKey"), self.topic, stamp, self.settings, self._key, FAIL)

    def _key(self) -> str:
        return f"{self.query[:24].upper()}{next(self._keys):08X}"

    def committer(self, patience: float = 60) -> Committer:
        return Committer(self.settings, Decisions.at(self.location), patience)

    def seen(self) -> list[int]:
        """What consumers see, in the order of queues."""
        with Admin([self.namesrv]) as admin:
            return [int(m.body) for queue in sorted(admin.queues(self.topic)) for m in admin.read(queue)]


class DiesBeforeTheDecision(Committer):
    def decide(self, decision: Decision) -> None:
        raise Crash


class DiesAfterTheDecision(Committer):
    def end(self, prepared: list[Prepared], outcome: int) -> list[Half]:
        if outcome == TRANSACTION_COMMIT:
            raise Crash
        return super().end(prepared, outcome)


class DiesBetweenTheEnds(Committer):
    def end(self, prepared: list[Prepared], outcome: int) -> list[Half]:
        if outcome == TRANSACTION_COMMIT:
            super().end(prepared[:1], outcome)
            raise Crash
        return super().end(prepared, outcome)


class DiesAfterTheEnds(Committer):
    def end(self, prepared: list[Prepared], outcome: int) -> list[Half]:
        super().end(prepared, outcome)
        raise Crash
