"""Decode with the optional compiled decoder of the distribution ``rocketmq-py-native``, to the same columns as NumPy.

It supports plain records and most columns. All others are decoded with NumPy, which also raises the errors for corrupt
records. See :mod:`rocketmq_py.accelerator`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from rocketmq_py.accelerator import Accelerator, installed
from rocketmq_py.arrow.bad_records import CORRUPT_REASON, CORRUPT_RECORD
from rocketmq_py.arrow.column_names import NUMPY_COLUMNS
from rocketmq_py.arrow.decode.arrays import repeated, texts
from rocketmq_py.arrow.decode.columns import COLUMNS
from rocketmq_py.arrow.decode.layout import Irregular
from rocketmq_py.arrow.decode.slices import as_kind, having
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.errors import ConfigError


def chosen(choice: DecoderChoice, columns: Collection[str]) -> Accelerator | None:
    """Return the accelerator, which contains the compiled decoder; None if ``columns`` are decoded with NumPy.

    :raises ConfigError: the compiled decoder is required, and is not installed or does not make one of the columns.
    """
    by_numpy = NUMPY_COLUMNS.intersection(columns)
    if choice is DecoderChoice.NUMPY or (choice is DecoderChoice.AUTO and by_numpy):
        return None
    if by_numpy:
        raise ConfigError(
            f"option decoder=compiled cannot make the columns {', '.join(sorted(by_numpy))}: leave the option away, and"
            " they are decoded with NumPy"
        )
    return _required() if choice is DecoderChoice.COMPILED else installed()


def _required() -> Accelerator:
    found = installed()
    if found is None:
        raise ConfigError(
            "option decoder=compiled needs rocketmq-py-native on every machine that runs Spark's Python workers:"
            " install it there, or leave the option away"
        )
    return found


class Decoded(NamedTuple):
    """Decoded ranges.

    :ivar batch: the record batch of all; None if there are no messages.
    :ivar counts: the number of messages of each range, before those without one of the decoder's tags are dropped.
    """

    batch: Any | None
    counts: Sequence[int]


class CompiledDecoder:
    """Decodes records of one broker with the compiled decoder.

    :param native: the accelerator, from :func:`rocketmq_py.accelerator.installed`.
    :param schema: Arrow schema of the columns; see :class:`~rocketmq_py.arrow.decode.Decoder`.
    :param tags: drop messages without one of these tags; empty keeps all messages.
    :param check_crc: whether to compare each body with its stored checksum.
    """

    def __init__(
        self, native: Accelerator, schema: Any, broker_name: str, tags: Collection[str], *, check_crc: bool = False
    ) -> None:
        self._decode = native.decode
        self._check_crc = check_crc
        self._schema = schema
        self._tags = texts([tag.encode() for tag in sorted(tags)], pa.string()) if tags else None
        stored = [name for name in schema.names if name not in _NOT_STORED]
        self._stored = tuple(stored if "tags" in stored or not tags else [*stored, "tags"])
        self._broker_name = broker_name

    def decode(self, ranges: Sequence[Sequence[FetchedChunk]]) -> Decoded:
        """Decode the messages within the offsets of each range into one record batch; ranges are of one topic.

        :raises Irregular: the compiled decoder does not support these records.
        :raises UnicodeDecodeError: the topic is not UTF-8.
        """
        wanted = [([chunk.body for chunk in chunks], chunks[0].start, chunks[-1].stop) for chunks in ranges]
        found = self._decode(wanted, self._stored, self._check_crc)
        if found is None:
            raise Irregular("for the compiled decoder")
        counts, columns = found
        total = sum(counts)
        return Decoded(self._batch(total, columns) if total else None, counts)

    def _batch(self, count: int, columns: Sequence[Any]) -> Any:
        arrays = {n: _ARRAYS[n](count, one) for n, one in zip(self._stored, columns, strict=True)}
        arrays["brokerName"] = repeated(self._broker_name, count)
        wanted = [
            as_kind(arrays[field.name], field.type) if field.name in arrays else pa.nulls(count, field.type)
            for field in self._schema
        ]
        batch = pa.RecordBatch.from_arrays(wanted, schema=self._schema)
        return batch if self._tags is None else having(batch, arrays["tags"], self._tags)


_NOT_STORED = frozenset({"brokerName", CORRUPT_RECORD, CORRUPT_REASON})


def _fixed(kind: Any) -> Callable[[int, Any], Any]:
    return lambda count, values: pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)])


def _texts(kind: Any) -> Callable[[int, Any], Any]:
    def array(count: int, found: Any) -> Any:
        valid, (offsets, content) = found
        bits = None if valid is None else pa.py_buffer(valid)
        return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(offsets), pa.py_buffer(content)])

    return array


def _topic(count: int, topic: bytes) -> Any:
    return repeated(topic.decode(), count)


def _maps(count: int, found: Any) -> Any:
    firsts, names, values = found
    pairs = len(names[0]) // 4 - 1
    text = _texts(pa.string())
    offsets = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(firsts)])
    return pa.MapArray.from_arrays(offsets, text(pairs, (None, names)), text(pairs, (None, values)))


def _array_of(kind: Any) -> Callable[[int, Any], Any]:
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return _texts(kind)
    return _maps if pa.types.is_map(kind) else _fixed(kind)


_ARRAYS = {name: _array_of(column.kind) for name, column in COLUMNS.items()} | {"topic": _topic}
