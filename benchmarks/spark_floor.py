"""The least that Spark and PySpark take around a Python data source: format ``floor``, without messages.

Its sink counts the rows of Arrow batches, its sources yield batches with the columns of ours from memory. What remains
of a row of ours above it is ours and the broker's. Measured by ``spark_client`` as side ``floor``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from rocketmq_py.arrow.column_names import DEFAULT_COLUMNS
from rocketmq_py.spark.runtime.workers import keep_imports
from rocketmq_py.spark.schema import READ_TYPES, arrow_schema

_AT_ONCE = 10_000
"""Rows of a record batch."""


@dataclass
class Counted(WriterCommitMessage):
    """The rows of one task."""

    rows: int


class CountingWriter(DataSourceArrowWriter):
    """A sink that counts rows."""

    def write(self, iterator: Iterator[Any]) -> Counted:
        keep_imports()
        return Counted(sum(batch.num_rows for batch in iterator))


class Rows(InputPartition):
    """Rows of one task."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def schema() -> StructType:
    """Return the columns that our source has by default."""
    found = StructType()
    for name in DEFAULT_COLUMNS:
        found = found.add(name, READ_TYPES[name])
    return found


@cache
def batch(size: int) -> Any:
    """Return a record batch in memory with the default columns, and bodies of ``size`` bytes."""
    import pyarrow as pa

    def column(kind: Any, name: str) -> Any:
        if pa.types.is_binary(kind):
            return pa.array([b"x" * size] * _AT_ONCE, kind)
        if pa.types.is_string(kind):
            values = [None] * _AT_ONCE if name in ("tags", "keys") else [name.ljust(32)] * _AT_ONCE
            return pa.array(values, kind)
        return pa.array(range(_AT_ONCE), pa.int64()).cast(kind)

    wanted = arrow_schema(schema())
    return pa.record_batch([column(field.type, field.name) for field in wanted], schema=wanted)


def batches(partition: InputPartition, size: int) -> Iterator[Any]:
    """Yield the rows of a partition."""
    keep_imports()
    left = partition.count if isinstance(partition, Rows) else 0
    while left > 0:
        yield batch(size).slice(0, min(left, _AT_ONCE))
        left -= _AT_ONCE


class MemoryReader(DataSourceReader):
    """A batch read of ``n`` rows in ``partitions`` tasks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._n, self._tasks, self._size = (int(options[name]) for name in ("n", "partitions", "size"))

    def partitions(self) -> list[InputPartition]:
        return [Rows(self._n // self._tasks) for _ in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterable[Any]:
        return batches(partition, self._size)


class MemoryStream(DataSourceStreamReader):
    """A stream without an end; a micro-batch has ``maxOffsetsPerTrigger`` rows, and one task for each 5,000."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._rows, self._size = int(options["maxoffsetspertrigger"]), int(options["size"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"end": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        del limit
        return {"end": start["end"] + self._rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        tasks = max(1, min(2, self._rows // 5_000))
        return [Rows((end["end"] - start["end"]) // tasks) for _ in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return batches(partition, self._size)


class FloorDataSource(DataSource):
    """Format ``floor``."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> StructType:
        return schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return MemoryReader(self._given())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        del schema
        return MemoryStream(self._given())

    def writer(self, schema: StructType, overwrite: bool) -> CountingWriter:
        del schema, overwrite
        return CountingWriter()

    def _given(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.options.items()}
