"""An exactly-once sink without Spark, and drivers that die at each step of the second phase."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.options.security import Security
from rocketmq_py.arrow.sink.blocks import Ints
from rocketmq_py.arrow.sink.rows import RowStamp
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.client.admin.blocking import Admin
from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT
from rocketmq_py.spark.decision_store.decisions import Decision, Decisions
from rocketmq_py.spark.sink.exactly_once import Committer, Preparation, Prepared
from rocketmq_py.spark.sink.half_sender import HalfMessages
from rocketmq_py.wire.signing import Credentials

FAIL = BadRecordPolicy(Mode.FAILFAST, "")


class Crash(BaseException):
    """The driver dies here."""


class Sink:
    """An exactly-once sink without Spark: one query, its decisions, its topic."""

    def __init__(
        self, namesrv: str, topic: str, path: Path, by_rows: bool = False, credentials: Credentials | None = None
    ) -> None:
        self.namesrv, self.topic = namesrv, topic
        self.query = uuid.uuid4().hex
        self.location = str(path / "checkpoint" / "rocketmq")
        self.settings = SendSettings(
            namesrv=(namesrv,), producer_group="sink", timeout=10, retries=7, in_flight=8, max_batch_bytes=3000,
            security=Security(credentials=credentials),
        )  # fmt: skip
        self._by_rows = by_rows
        self._keys = itertools.count()

    def task(self, bodies: Iterable[int], batch_id: int = 0, partition: int = 0) -> Prepared:
        """Phase one of a task."""
        stamp = RowStamp(self.query, str(batch_id), partition)
        columns, rows = ("body", "shardingKey"), [(str(body), f"k{body % 3}") for body in bodies]
        preparation = Preparation(columns, self.topic, stamp, self.settings, self._key, self._several, FAIL)
        if self._by_rows:
            return preparation.rows(rows)
        columns_of = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
        return preparation.batches([pa.record_batch(columns_of, names=columns)])

    def _key(self) -> str:
        return f"{self.query[:24].upper()}{next(self._keys):08X}"

    def _several(self, count: int) -> tuple[str, Ints]:
        numbers = [next(self._keys) for _ in range(count)]
        return f"{self.query[:24].upper()}0000", np.array(numbers, np.int64)

    def committer(self, timeout: float = 60) -> Committer:
        return Committer(self.settings, Decisions.at(self.location), timeout)

    def seen(self) -> list[int]:
        """What consumers see, in the order of queues."""
        with Admin([self.namesrv]) as admin:
            return [int(m.body) for queue in sorted(admin.queues(self.topic)) for m in admin.read(queue)]


class DiesBeforeTheDecision(Committer):
    def decide(self, decision: Decision) -> None:
        raise Crash


class DiesAfterTheDecision(Committer):
    def end(self, prepared: list[Prepared], outcome: int) -> HalfMessages:
        if outcome == TRANSACTION_COMMIT:
            raise Crash
        return super().end(prepared, outcome)


class DiesBetweenTheEnds(Committer):
    def end(self, prepared: list[Prepared], outcome: int) -> HalfMessages:
        if outcome == TRANSACTION_COMMIT:
            super().end(prepared[:1], outcome)
            raise Crash
        return super().end(prepared, outcome)


class DiesAfterTheEnds(Committer):
    def end(self, prepared: list[Prepared], outcome: int) -> HalfMessages:
        super().end(prepared, outcome)
        raise Crash
