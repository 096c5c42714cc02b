"""Encode Arrow record batches as bodies of batch sends, column by column, without a Python object per row.

Every part of a message (head, body, each property) is an Arrow array over all rows; joining them element by element
puts all messages into one buffer, and a request's body is a slice of it. Uncommon rows (bad or delayed ones, or with
properties that contradict columns) are encoded one by one by module ``rows``; the order of rows is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rocketmq_py.arrow.bad_records import BadRecordPolicy
from rocketmq_py.arrow.decode.arrays import Ints, constant, fixed, numbers
from rocketmq_py.arrow.row_properties import ROW_KEY
from rocketmq_py.arrow.sink.numerals import Chars, decimals, hexadecimals
from rocketmq_py.arrow.sink.rows import DELAYS, NOT_COPIED, ROW_KEY_DIGITS, RowMessage, RowWriter
from rocketmq_py.model import MessageQueue
from rocketmq_py.properties import Property, encode_properties
from rocketmq_py.protocol.names import MAX_MESSAGE_SIZE, topic_fault
from rocketmq_py.wire.batch import MAX_PROPERTIES

_HEAD = np.dtype([("size", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body", ">i4")])
_OVERHEAD = _HEAD.itemsize + 2
_MOST_ROWS, _MOST_BYTES = 1 << 16, 32 << 20
"""Limits of the slice of a record batch that is encoded at once: 65,536 unique keys can have the same prefix."""
_TEXTS = {"tags": Property.TAGS, "keys": Property.KEYS, "shardingKey": Property.SHARDING_KEY}
_CONTROL = "[\x01\x02]"

Bound = Callable[[str, str | None, int | None], MessageQueue | None]
Keys = Callable[[int], tuple[str, Ints]]
Bools = NDArray[np.bool_]


_EMPTY = constant(b"", pa.binary())
_ZERO = fixed(np.zeros(1, np.int32), pa.int32())[0]
_FALSE = fixed(np.zeros(1, np.uint8), pa.bool_())[0]


class Block(NamedTuple):
    """Encoded messages for queue ``bound``, or for any queue of ``topic`` if ``bound`` is None.

    Message ``i`` is ``data[ends[i] : ends[i + 1]]``.

    :ivar sys_flag: says how all bodies are compressed; 0 if they are not.
    """

    topic: str
    bound: MessageQueue | None
    data: memoryview
    ends: Ints
    sys_flag: int = 0

    @property
    def rows(self) -> int:
        """The number of messages."""
        return len(self.ends) - 1

    def fitting(self, begin: int, count: int, size: int) -> int:
        """Return the exclusive end of the batch that starts at message ``begin``.

        The batch has at most ``count`` messages and ``size`` bytes, but at least one message, even if it is larger.
        """
        end = int(self.ends.searchsorted(self.ends[begin] + size, "right")) - 1
        return max(begin + 1, min(end, begin + count))


class BlockWriter:
    """Encodes the rows of one task as messages, in order.

    :param columns: names of the columns of the record batches.
    :param topic: the topic of every row; None takes it from column ``topic``.
    :param rows: encodes the rows that cannot be part of a block, such as delayed ones, and counts all rows.
    :param unique_keys: called with a number of keys; returns their common prefix, and an array with the number of
        each, which follows the prefix as four hexadecimal digits.
    :param prefix: encoded properties that each message's properties start with.
    """

    def __init__(
        self, columns: Sequence[str], topic: str | None, rows: RowWriter, unique_keys: Keys, prefix: bytes = b""
    ) -> None:
        self._at = {name: i for i, name in enumerate(columns)}
        self._topic = topic
        self._rows = rows
        self._unique_keys = unique_keys
        self._prefix = prefix

    def messages(self, batch: Any, bad: BadRecordPolicy, bound: Bound) -> Iterator[Block | RowMessage]:
        """Encode the rows of a record batch in blocks; delayed, bad and other uncommon rows one by one.

        The order of the rows is kept within each queue.

        :param bound: returns the queue for a topic, sharding key and queue id; None if any queue of the topic will do.
        :raises MessageIllegal: a row is bad, and policy ``bad`` makes that an error.
        """
        at_once = max(1, min(_MOST_ROWS, batch.num_rows * _MOST_BYTES // max(_MOST_BYTES, batch.nbytes)))
        for begin in range(0, batch.num_rows, at_once):
            yield from self._messages(batch.slice(begin, at_once), bad, bound)

    def _messages(self, batch: Any, bad: BadRecordPolicy, bound: Bound) -> Iterator[Block | RowMessage]:
        properties, uncommon = self._properties(batch)
        bodies = batch.column(self._at["body"]).cast(pa.binary())
        uncommon |= self._uncommon(batch, bodies, _lengths(properties))
        bodies, sys_flag = self._compressed(bodies)
        encoded = _encoded(bodies, properties, self._flag(batch))
        groups = self._groups(batch, ~uncommon, bound)
        begin = 0
        for end in [*np.flatnonzero(uncommon).tolist(), batch.num_rows]:
            for topic, queue, positions in groups:
                chosen = (
                    encoded.slice(begin, end - begin)
                    if positions is None
                    else encoded.take(_between(positions, begin, end))
                )
                if len(chosen):
                    yield Block(topic, queue, memoryview(chosen.buffers()[2]), _bounds(chosen), sys_flag)
            self._rows.pass_over(end - begin)
            if end < batch.num_rows:
                row = [column[end].as_py() for column in batch.columns]
                yield from self._rows.messages([row], bad)
            begin = end + 1

    def _compressed(self, bodies: Any) -> tuple[Any, int]:
        """Compress all bodies if they are large enough on average, so that one request has only bodies of one kind.

        :returns: the bodies, and the sysFlag of their messages.
        """
        compression, size = self._rows.compression, int(_lengths(bodies).sum())
        if compression is None or size < compression.over * len(bodies):
            return bodies, 0
        packed = [compression.compressed(body) if body else None for body in bodies.to_pylist()]
        return pa.array(packed, pa.binary()), compression.sys_flag

    def _flag(self, batch: Any) -> Ints | int:
        flags = self._column(batch, "flag")
        return 0 if flags is None else numbers(flags.fill_null(_ZERO))

    # -- which rows are common

    def _column(self, batch: Any, name: str) -> Any | None:
        at = self._at.get(name)
        return None if at is None or batch.column(at).null_count == batch.num_rows else batch.column(at)

    def _uncommon(self, batch: Any, bodies: Any, properties: Ints) -> Bools:
        """Return a flag per row: True for rows that are bad or delayed.

        :param properties: bytes of each row's encoded properties.
        """
        lengths = _lengths(bodies)
        found: Bools = (lengths == 0) | (lengths > MAX_MESSAGE_SIZE) | (properties > MAX_PROPERTIES)
        for name in _TEXTS:
            if (texts := self._column(batch, name)) is not None:
                found |= _holds_control(texts)
        if (levels := self._column(batch, "delayLevel")) is not None:
            found |= _flags(pc.not_equal(levels, _ZERO))
        if (times := self._column(batch, "deliverAt")) is not None:
            found |= _flags(times.is_valid())
        if self._topic is None:
            topics, of_topic = self._coded(batch, "topic")
            faulty = [topic_fault(topic or "") is not None for topic in topics]
            found |= np.array(faulty, np.bool_)[of_topic]
        return found

    # -- where they go

    def _groups(self, batch: Any, common: Bools, bound: Bound) -> list[tuple[str, MessageQueue | None, Ints | None]]:
        """Group rows by topic and queue; return topic, queue (None: any) and row numbers (None: all) of each group.

        :param common: a flag per row: True for the rows to group.
        """
        topics, of_topic = self._coded(batch, "topic") if self._topic is None else ([self._topic], None)
        name = "queueId" if "queueId" in self._at else "shardingKey"
        keys, of_key = self._coded(batch, name) if self._column(batch, name) is not None else ([None], None)
        if of_topic is None and of_key is None:
            return [(topics[0], None, None)]
        codes = np.zeros(batch.num_rows, np.int64)
        if of_topic is not None:
            codes += of_topic * len(keys)
        if of_key is not None:
            codes += of_key
        used, positions = np.unique(codes[common], return_inverse=True)
        numbers: dict[tuple[str, MessageQueue | None], int] = {}
        targets = []
        for code in used.tolist():
            topic, key = topics[code // len(keys)], keys[code % len(keys)]
            queue = bound(topic, None, key) if name == "queueId" else bound(topic, key, None)
            targets.append(numbers.setdefault((topic, queue), len(numbers)))
        target = np.array(targets, np.int64)[positions]
        rows = np.flatnonzero(common)
        return [(topic, queue, rows[target == number]) for (topic, queue), number in numbers.items()]

    def _coded(self, batch: Any, name: str) -> tuple[list[Any], Ints]:
        """Return the distinct values of a column, and for each row the index of its value among them."""
        coded = batch.column(self._at[name]).dictionary_encode(null_encoding="encode")
        return coded.dictionary.to_pylist(), numbers(coded.indices)

    # -- properties

    def _properties(self, batch: Any) -> tuple[Any, Bools]:
        """Return all rows' encoded properties, and a flag per row: True if :class:`RowWriter` must encode the row."""
        count = batch.num_rows
        parts: list[Any] = [self._prefix] if self._prefix else []
        uncommon = np.zeros(count, np.bool_)
        if (maps := self._column(batch, "properties")) is not None:
            own, uncommon = self._user_properties(batch, maps)
            parts.append(own)
        for name, property_ in _TEXTS.items():
            if (texts := self._column(batch, name)) is not None:
                entries = _join(f"{property_}\x01".encode(), texts.cast(pa.binary()), b"\x02")
                parts.append(pc.if_else(pc.greater(pc.binary_length(texts), _ZERO).fill_null(_FALSE), entries, _EMPTY))
        stamps = self._stamps(count)
        return _join(*parts, stamps) if parts else stamps, uncommon

    def _stamps(self, count: int) -> Any:
        """Return the encoded properties that identify the next rows: unique key, query, micro-batch, row key."""
        stem, keys = self._unique_keys(count)
        first = self._rows.count
        before = f"{Property.UNIQUE_KEY}\x01{stem}".encode()
        parts: list[bytes | Chars] = [before, hexadecimals(keys), b"\x02" + encode_properties(self._rows.stamp)]
        if self._rows.names_rows:
            parts += [f"{ROW_KEY}\x01{self._rows.partition}-".encode()]
            parts += [decimals(np.arange(first, first + count), ROW_KEY_DIGITS), b"\x02"]
        widths = [len(part) if isinstance(part, bytes) else part.shape[1] for part in parts]
        matrix, at = np.empty((count, sum(widths)), np.uint8), 0
        for part, width in zip(parts, widths, strict=True):
            matrix[:, at : at + width] = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part
            at += width
        return _fixed_width(matrix, at)

    def _user_properties(self, batch: Any, maps: Any) -> tuple[Any, Bools]:
        """Return the encoded properties from column ``properties``, and a flag per row, as :meth:`_properties`.

        Properties that are not copied between topics are left out.
        """
        offsets = numbers(maps.offsets)
        names, texts = (
            maps.keys.slice(offsets[0], offsets[-1] - offsets[0]),
            maps.items.slice(offsets[0], offsets[-1] - offsets[0]),
        )
        known = names.dictionary_encode()
        taken = {_TEXTS[name] for name in _TEXTS if self._column(batch, name) is not None}
        strange = [name in DELAYS or name in taken or _is_strange(name) for name in known.dictionary.to_pylist()]
        copied = [name not in NOT_COPIED and name != "" for name in known.dictionary.to_pylist()]
        of_name = numbers(known.indices)
        odd = np.array(strange, np.bool_)[of_name] | _holds_control(texts)
        kept = np.array(copied, np.bool_)[of_name] & _flags(pc.greater(pc.binary_length(texts), _ZERO))
        entries = _join(names.cast(pa.binary()), b"\x01", texts.cast(pa.binary()), b"\x02")
        entries = pc.if_else(fixed(kept.astype(np.uint8), pa.uint8()).cast(pa.bool_()), entries, _EMPTY)
        bounds = fixed((offsets - offsets[0]).astype(np.int32), pa.int32())
        own = pc.binary_join(pa.ListArray.from_arrays(bounds, entries), _EMPTY)
        uncommon = np.zeros(batch.num_rows, np.bool_)
        uncommon[np.searchsorted(offsets - offsets[0], np.flatnonzero(odd), "right") - 1] = True
        return own, uncommon


def _is_strange(name: str) -> bool:
    return "\x01" in name or "\x02" in name


def _encoded(bodies: Any, properties: Any, flag: Ints | int) -> Any:
    """Encode messages in the layout of a batch, from columns of bodies and encoded properties; null without a body."""
    lengths, own = _lengths(bodies), _lengths(properties)
    heads = np.zeros(len(lengths), _HEAD)
    heads["size"], heads["body"], heads["flag"] = lengths + own + _OVERHEAD, lengths, flag
    sizes = np.minimum(own, MAX_PROPERTIES).astype(">u2")
    return _join(_fixed_width(heads, _HEAD.itemsize), bodies, _fixed_width(sizes, 2), properties)


def _join(*parts: Any) -> Any:
    """Concatenate binary columns and constants (bytes) row by row."""
    columns = [constant(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*columns, _EMPTY)


def _fixed_width(values: Any, width: int) -> Any:
    """Return an Arrow binary column over ``values``, each of ``width`` bytes, without a copy."""
    offsets = np.arange(0, (len(values) + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def _lengths(column: Any) -> Ints:
    """Return the length of each element in bytes; 0 for null."""
    return numbers(pc.binary_length(column).fill_null(_ZERO))


def _holds_control(texts: Any) -> Bools:
    return _flags(pc.match_substring_regex(texts, _CONTROL))


def _flags(column: Any) -> Bools:
    """Return a boolean Arrow column as a NumPy array; null becomes False."""
    return numbers(column.fill_null(_FALSE)).astype(np.bool_)


def _between(positions: Ints, begin: int, end: int) -> Any:
    first, last = np.searchsorted(positions, (begin, end))
    return fixed(positions[first:last], pa.int64())


def _bounds(column: Any) -> Ints:
    """Return the start of each element of a binary column in its data buffer, followed by the end of the last one."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
