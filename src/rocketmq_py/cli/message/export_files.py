"""Write record batches of messages to files: Parquet, CSV or JSON lines."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from rocketmq_py.cli.message.rows import encode_body

_ROW_GROUP_BYTES = 64 * 1024 * 1024
_BODY, _ENCODING = "body", "bodyEncoding"

Write: TypeAlias = Callable[[Any], None]
"""A function that writes one record batch."""


class FileFormat(enum.Enum):
    """Formats of exported files, by the ending of their names."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


def format_of(path: Path) -> FileFormat | None:
    """Return the format that the name of a file says; None if it says none."""
    ending = path.suffix.removeprefix(".").lower()
    return next((one for one in FileFormat if one.value == ending), None)


@contextmanager
def writer(out: BinaryIO, schema: Any, file_format: FileFormat, encoding: str) -> Iterator[Write]:
    """Write batches of ``schema`` to ``out``; the file is complete when the block ends.

    Parquet has the columns as they are. CSV and JSON lines have bodies as text, with a column ``bodyEncoding``; JSON
    lines have times as milliseconds since the epoch.

    :param encoding: encoding of bodies in CSV and JSON lines: auto, text, base64 or hex.
    """
    if file_format is FileFormat.PARQUET:
        with pa_parquet.ParquetWriter(out, schema, compression="zstd") as file:
            group = _RowGroup(file)
            yield group.add
            group.write()
    elif file_format is FileFormat.CSV:
        empty = _with_texts(pa.RecordBatch.from_pylist([], schema), encoding)
        with pa_csv.CSVWriter(out, empty.schema) as file:
            yield lambda batch: file.write_batch(_with_texts(batch, encoding))
    else:
        yield lambda batch: _write_lines(out, batch, encoding)


class _RowGroup:
    """Collects batches to row groups: a row group of a few messages costs more than the messages."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._batches: list[Any] = []
        self._size = 0

    def add(self, batch: Any) -> None:
        self._batches.append(batch)
        self._size += batch.nbytes
        if self._size >= _ROW_GROUP_BYTES:
            self.write()

    def write(self) -> None:
        if self._batches:
            self._file.write_table(pa.Table.from_batches(self._batches))
        self._batches, self._size = [], 0


def _with_texts(batch: Any, encoding: str) -> Any:
    """Replace bytes by text; the column ``bodyEncoding`` says how bodies are encoded, the others are hexadecimal."""
    for at, field in enumerate(batch.schema):
        if pa.types.is_binary(field.type) and field.name != _BODY:
            digits = [value and value.hex() for value in batch.column(at).to_pylist()]
            batch = batch.set_column(at, field.name, pa.array(digits, pa.string()))
    if _BODY not in batch.schema.names:
        return batch
    found = [(None, None) if body is None else encode_body(body, encoding) for body in batch.column(_BODY).to_pylist()]
    at = batch.schema.get_field_index(_BODY)
    texts = pa.array([text for _, text in found], pa.string())
    batch = batch.set_column(at, _BODY, texts)
    return batch.add_column(at, _ENCODING, pa.array([used for used, _ in found], pa.string()))


def _write_lines(out: BinaryIO, batch: Any, encoding: str) -> None:
    batch = _with_texts(batch, encoding)
    for at, field in enumerate(batch.schema):
        if pa.types.is_timestamp(field.type):
            micros = batch.column(at).cast(pa.int64())
            batch = batch.set_column(at, field.name, pc.divide(micros, 1000))
    rows = batch.to_pylist(maps_as_pydicts="lossy")
    out.write(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows))
