"""Pull bodies into Arrow record batches.

:class:`Decoder` is the entrance. Whole runs of regular records are decoded with NumPy and Arrow, without one Python
object per message; what is irregular (see the modules) goes through the plain record codec, with equal columns.
Refuses to know sockets and Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rocketmq_py.errors import CorruptRecord
from rocketmq_py.spark.decode.columns import COLUMNS as COLUMNS, Records
from rocketmq_py.spark.decode.layout import Ints, Irregular, Layout, holds_compressed, record_starts
from rocketmq_py.wire.record import decode_records


class Piece(NamedTuple):
    """The body of one pull answer, and the offsets it was pulled for: from ``start`` up to, not including, ``stop``."""

    body: bytes
    start: int
    stop: int


_MOST_COMPRESSED = 256 * 1024
"""Bytes of records decoded together where some are compressed: a body may grow a thousandfold."""


class _TooMuch(Exception):
    """Decompressing all these bodies at once could take more memory than a worker has."""


class Decoder:
    """Decodes the records of one queue into batches of one schema.

    :param schema: fields named as in :data:`COLUMNS`, of the types there; only these are decoded.
    :param broker_name: what the column ``brokerName`` says; records do not hold it.
    """

    def __init__(self, schema: Any, broker_name: str) -> None:
        self._schema = schema
        self._broker_name = broker_name
        self._columns = [COLUMNS[name] for name in schema.names]

    def decode(self, pieces: Sequence[Piece]) -> Iterator[Any]:
        """The messages of adjacent ``pieces``, none outside the offsets asked for, none twice.

        One record batch, or several where many bodies have to be decompressed; none if there are no messages.

        :raises CorruptRecord: bytes that are no records.
        """
        try:
            batch = self._decode(pieces)
        except _TooMuch:
            middle = len(pieces) // 2
            yield from self.decode(pieces[:middle])
            yield from self.decode(pieces[middle:])
        else:
            if batch is not None:
                yield batch

    def _decode(self, pieces: Sequence[Piece]) -> Any | None:
        """One batch of all messages; None if there are none."""
        raw = pieces[0].body if len(pieces) == 1 else b"".join([piece.body for piece in pieces])
        wanted = range(pieces[0].start, pieces[-1].stop)
        starts = record_starts(raw)
        if not len(starts):
            return None
        if len(pieces) > 1 and len(raw) > _MOST_COMPRESSED and holds_compressed(raw, starts):
            raise _TooMuch
        try:
            return self._fast(raw, starts, wanted)
        except (Irregular, IndexError):
            return self._plain(raw, wanted)

    def _fast(self, raw: bytes, starts: Ints, wanted: range) -> Any | None:
        layout = Layout(raw, starts)
        keep = _ascending(layout.int_field("queueOffset", np.int64), wanted)
        if keep is not None:
            if not keep.any():
                return None
            layout = Layout(raw, layout.starts[keep])
        records = Records(layout, self._broker_name)
        return pa.RecordBatch.from_arrays([c.of_records(records) for c in self._columns], schema=self._schema)

    def _plain(self, raw: bytes, wanted: range) -> Any | None:
        messages = decode_records(raw, self._broker_name)
        keep = _ascending(np.array([m.queue_offset for m in messages], np.int64), wanted)
        if keep is not None:
            messages = [m for m, kept in zip(messages, keep, strict=True) if kept]
        if not messages:
            return None
        arrays = [pa.array([c.of_message(m) for m in messages], c.kind) for c in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _ascending(offsets: Any, wanted: range) -> Any:
    """Which rows to keep so that offsets ascend within ``wanted``; None for all of them.

    A broker that answers with more than was asked for overlaps with the next pull already on its way.
    """
    if offsets[0] >= wanted.start and offsets[-1] < wanted.stop and (np.diff(offsets) > 0).all():
        return None
    highest = np.maximum.accumulate(np.concatenate(([wanted.start - 1], offsets[:-1])))
    return (offsets > highest) & (offsets < wanted.stop)


__all__ = ["COLUMNS", "CorruptRecord", "Decoder", "Piece"]
