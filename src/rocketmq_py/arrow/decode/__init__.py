"""Decode the bodies of pull responses into Arrow record batches: :class:`Decoder`.

The compiled decoder is tried first if it is installed. Regular records (see ``layout``) are decoded with NumPy and
Arrow, without a Python object per message; all others with the plain record codec, to equal columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa

from rocketmq_py.arrow.decode.arrays import texts
from rocketmq_py.arrow.decode.checksums import check_crcs
from rocketmq_py.arrow.decode.columns import COLUMNS as COLUMNS, BodyLimits, Budget, Records, TooLarge
from rocketmq_py.arrow.decode.compiled import CompiledDecoder, Decoded, chosen
from rocketmq_py.arrow.decode.layout import Ints, Irregular, Layout, holds_compressed, record_starts
from rocketmq_py.arrow.decode.slices import as_kind, having
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.model import MessageExt
from rocketmq_py.wire.record import QUEUE_OFFSET_AT, decode_records

_MOST_COMPRESSED = 256 * 1024
"""Limit in bytes for records decoded together if some are compressed: a body may grow a thousandfold."""
_QUEUE_OFFSET = Struct(">q")


Rescue = Callable[[Sequence[FetchedChunk], CorruptRecord], Iterator[Any]]
"""A function that is called with chunks that could not be decoded and the error, and returns their record batches."""


class Decoder:
    """Decodes records of one broker into Arrow record batches of one schema.

    :param schema: Arrow schema with names and types from :data:`COLUMNS` (``body`` may be a string); only these columns
        are decoded.
    :param broker_name: the value of column ``brokerName``, which records do not contain.
    :param tags: drop messages without one of these tags; empty keeps all messages.
    :param check_crc: compare each body with its stored checksum.
    :param choice: the decoder to use.
    :param limits: limits for decompressed bodies.
    :raises ConfigError: the compiled decoder is required, and is not installed or does not make one of the columns.
    """

    def __init__(
        self,
        schema: Any,
        broker_name: str,
        tags: Collection[str] = (),
        *,
        check_crc: bool = False,
        choice: DecoderChoice = DecoderChoice.AUTO,
        limits: BodyLimits = BodyLimits(),  # noqa: B008 - immutable
    ) -> None:
        self._limits = limits
        native = chosen(choice, schema.names)
        self._compiled = CompiledDecoder(native, schema, broker_name, tags, check_crc=check_crc) if native else None
        self._check_crc = check_crc
        self._tags = frozenset(tags)
        self._tags_array = texts([tag.encode() for tag in sorted(tags)], pa.string())
        self._schema = schema
        self._broker_name = broker_name
        self._columns = [COLUMNS[name] for name in schema.names]

    def decode(self, chunks: Sequence[FetchedChunk], rescue: Rescue | None = None) -> Iterator[Any]:
        """Decode consecutive ``chunks``; drop messages outside their offsets and duplicates of overlapping pulls.

        Yields one record batch, several if many bodies must be decompressed, none if there are no messages.

        :param rescue: called with chunks that cannot be decoded; its batches are yielded instead.
        :raises CorruptRecord: chunks cannot be decoded, and there is no ``rescue``.
        """
        try:
            batch = self._decode(chunks)
        except TooLarge:
            for half in _halves(chunks):
                yield from self.decode(half, rescue)
        except CorruptRecord as e:
            if rescue is None:
                raise
            yield from rescue(chunks, e)
        else:
            if batch is not None:
                yield batch

    def decode_together(self, ranges: Sequence[Sequence[FetchedChunk]]) -> Decoded | None:
        """Decode small ranges of several queues of one topic into one record batch: a batch costs as much as 1000 rows.

        Returns None if the caller must decode each range by itself, because of damaged, compressed or unusual messages;
        or, without the compiled decoder, because messages are filtered by tags, or a range lacks messages.
        """
        if any(chunk.is_damaged for chunks in ranges for chunk in chunks):
            return None
        if self._compiled is not None:
            with suppress(Irregular, UnicodeDecodeError):
                return self._compiled.decode(ranges)
            return None
        return None if self._tags else self._fast_together(ranges)

    def _fast_together(self, ranges: Sequence[Sequence[FetchedChunk]]) -> Decoded | None:
        raw = b"".join([chunk.body for chunks in ranges for chunk in chunks])
        try:
            starts = record_starts(raw)
            if not len(starts) or holds_compressed(raw, starts):
                return None
            if self._check_crc:
                check_crcs(raw, starts)
            layout = Layout(raw, starts)
            asked = [np.arange(chunks[0].start, chunks[-1].stop) for chunks in ranges]
            if np.array_equal(layout.int_field("queueOffset", np.int64), np.concatenate(asked)):
                return Decoded(self._batch(layout), [len(one) for one in asked])
        except (CorruptRecord, Irregular, IndexError, UnicodeDecodeError):
            pass
        return None

    def _decode(self, chunks: Sequence[FetchedChunk]) -> Any | None:
        """Decode chunks into one record batch; return None if there are no messages.

        :raises CorruptRecord: a record cannot be decoded.
        :raises TooLarge: there are too many compressed bodies for one batch.
        """
        if any(chunk.is_damaged for chunk in chunks):
            raise CorruptRecord("its broker found it damaged and does not send it")
        if self._compiled is not None:
            with suppress(Irregular, UnicodeDecodeError):
                return self._compiled.decode([chunks]).batch
        raw = chunks[0].body if len(chunks) == 1 else b"".join([chunk.body for chunk in chunks])
        wanted = range(chunks[0].start, chunks[-1].stop)
        starts = record_starts(raw)
        if not len(starts):
            return None
        if len(chunks) > 1 and len(raw) > _MOST_COMPRESSED and holds_compressed(raw, starts):
            raise TooLarge
        if self._check_crc:
            check_crcs(raw, starts)
        try:
            return self._fast(raw, starts, wanted)
        except (Irregular, IndexError, UnicodeDecodeError):
            return self._plain(raw, starts, wanted)

    def _fast(self, raw: bytes, starts: Ints, wanted: range) -> Any | None:
        layout = Layout(raw, starts)
        keep = _ascending(layout.int_field("queueOffset", np.int64), wanted)
        if keep is not None:
            if not keep.any():
                return None
            layout = Layout(raw, layout.starts[keep])
        return self._batch(layout)

    def _batch(self, layout: Layout) -> Any:
        records = Records(layout, self._broker_name, self._limits)
        arrays = [as_kind(c.of_records(records), f.type) for c, f in zip(self._columns, self._schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return having(batch, records.pairs.column("TAGS"), self._tags_array) if self._tags else batch

    def _plain(self, raw: bytes, starts: Ints, wanted: range) -> Any | None:
        messages = self._messages(raw, starts)
        keep = _ascending(np.array([m.queue_offset for m in messages], np.int64), wanted)
        if keep is not None:
            messages = [m for m, kept in zip(messages, keep, strict=True) if kept]
        if self._tags:
            messages = [m for m in messages if m.tags in self._tags]
        if not messages:
            return None
        arrays = [
            as_kind(pa.array([c.of_message(m) for m in messages], c.kind), f.type)
            for c, f in zip(self._columns, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _messages(self, raw: bytes, starts: Ints) -> list[MessageExt]:
        """Decode records one by one in Python; ``starts`` are their byte positions in ``raw``.

        :raises TooLarge: the decompressed bodies exceed the limit of a record batch.
        """
        if not holds_compressed(raw, starts):
            return decode_records(raw, self._broker_name)
        budget, found = Budget(self._limits.max_batch), []
        for start, end in pairwise([*starts.tolist(), len(raw)]):
            messages = decode_records(raw[start:end], self._broker_name, self._limits.of_one)
            budget.spend(sum(len(message.body) for message in messages))
            found += messages
        return found


def _halves(chunks: Sequence[FetchedChunk]) -> tuple[Sequence[FetchedChunk], Sequence[FetchedChunk]]:
    """Split chunks into two halves. A single chunk, which must have several records, is split between two records."""
    if len(chunks) > 1:
        middle = len(chunks) // 2
        return chunks[:middle], chunks[middle:]
    body, start, stop, _ = chunks[0]
    starts = record_starts(body)
    at = int(starts[len(starts) // 2])
    (offset,) = _QUEUE_OFFSET.unpack_from(body, at + QUEUE_OFFSET_AT)
    offset = min(max(offset, start), stop)
    return [FetchedChunk(body[:at], start, offset)], [FetchedChunk(body[at:], offset, stop)]


def _ascending(offsets: Any, wanted: range) -> Any:
    """Return a mask of the rows to keep, so that offsets ascend and are in ``wanted``; None if all rows are kept.

    Rows are dropped where responses overlap: one had more messages than its pull requested.
    """
    if offsets[0] >= wanted.start and offsets[-1] < wanted.stop and (np.diff(offsets) > 0).all():
        return None
    highest = np.maximum.accumulate(np.concatenate(([wanted.start - 1], offsets[:-1])))
    return (offsets > highest) & (offsets < wanted.stop)


__all__ = ["COLUMNS", "BodyLimits", "CorruptRecord", "Decoded", "Decoder", "Rescue"]
