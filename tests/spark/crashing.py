"""The data source with fault points: processes that are killed in a chosen phase of a micro-batch, once.

``format("rocketmq-crashing")`` takes the option ``faults``: a directory. Where it holds a file named as a phase,
whoever gets there first takes the file away and kills (SIGKILL) the processes whose ids it lists; ``self`` is the
process that got there.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from rocketmq_py.protocol.sys_flag import TRANSACTION_COMMIT
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.decision_store.decisions import Decision
from rocketmq_py.spark.options.options import Use, read_options, write_options
from rocketmq_py.spark.sink.exactly_once import Committer, Prepared
from rocketmq_py.spark.sink.half_sender import HalfMessages
from rocketmq_py.spark.sink.sink import ArrowStreamWriter
from rocketmq_py.spark.source.stream import StreamReader

FORMAT = "rocketmq-crashing"


class Faults:
    """The fault points of one query."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def arm(self, phase: str, *victims: int | str) -> None:
        """Have ``victims`` die when the phase is reached next."""
        draft = self._directory / f".{phase}"
        draft.write_text(" ".join(map(str, victims)))
        draft.rename(self._directory / phase)

    def disarm(self) -> list[str]:
        """Forget the faults nobody came across; their phases."""
        left = [path for path in self._directory.iterdir() if not path.name.startswith(".")]
        for path in left:
            path.unlink()
        return [path.name for path in left]

    def reach(self, phase: str) -> None:
        """This process is there."""
        mine = self._directory / f".{phase}-{os.getpid()}"
        try:
            (self._directory / phase).rename(mine)
        except FileNotFoundError:
            return
        victims = mine.read_text().split()
        mine.unlink()
        for victim in victims:
            if victim != "self":
                os.kill(int(victim), signal.SIGKILL)
        if "self" in victims:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.2)  # whoever depends on the victims has time to notice


class CrashingReader(StreamReader):
    faults: Faults

    def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: N802
        self.faults.reach("latestOffset")
        return super().latestOffset(start, limit)

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        self.faults.reach("partitions")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in super().read(partition):
            yield batch
            self.faults.reach("read")


class CrashingCommitter(Committer):
    faults: Faults

    def commit(self, prepared: list[Prepared], batch_id: int) -> None:
        super().commit(prepared, batch_id)
        self.faults.reach("committed")

    def decide(self, decision: Decision) -> None:
        super().decide(decision)
        self.faults.reach("decided")

    def end(self, prepared: list[Prepared], outcome: int) -> HalfMessages:
        if outcome != TRANSACTION_COMMIT:
            return super().end(prepared, outcome)
        left = super().end(prepared[:1], outcome)
        self.faults.reach("ends")
        left.add_all(super().end(prepared[1:], outcome))
        return left


class CrashingWriter(ArrowStreamWriter):
    faults: Faults

    def write_batches(self, batches: Iterable[Any]) -> WriterCommitMessage:
        message = super().write_batches(self._with_the_fault(batches))
        self.faults.reach("stored")
        return message

    def _with_the_fault(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch.slice(0, 4)
            self.faults.reach("write")
            yield batch.slice(4)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.faults.reach("commit")
        super().commit(messages, batchId)

    def committer(self) -> Committer:
        plain = super().committer()
        committer = CrashingCommitter(plain._settings, plain._decisions, plain._timeout)
        committer.faults = self.faults
        return committer


class CrashingDataSource(RocketMQDataSource):
    """Takes the options of the data source and ``faults``."""

    def __init__(self, options: Any) -> None:
        given = {name.lower(): text for name, text in options.items()}
        self.faults = Faults(Path(given.pop("faults")))
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        reader = CrashingReader(read_options(self.options, Use.READ_STREAM), schema)
        reader.faults = self.faults
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        del overwrite
        writer = CrashingWriter(write_options(self.options, Use.WRITE_STREAM), schema)
        writer.faults = self.faults
        return writer
