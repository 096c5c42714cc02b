"""Find messages that cannot be decoded, and treat them as option ``mode`` says.

The body of a pull response is a sequence of records without separators, so the records behind one with a wrong size
cannot be located. A range that does not decode is therefore pulled again in halves, down to the single bad offset.
These pulls go to the master first, whose copy may be intact if a slave's is not; the bad offset is then pulled from
slaves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from struct import Struct, error as StructError
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from rocketmq_py.arrow.bad_records import CORRUPT_REASON, CORRUPT_RECORD, BadRecordPolicy, Mode, dead_letter
from rocketmq_py.arrow.decode import Decoder
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.queues import LocatedRange
from rocketmq_py.arrow.row_properties import ROW_KEY
from rocketmq_py.arrow.sink.rows import DELAYS, NOT_COPIED, RowMessage
from rocketmq_py.arrow.source.origin import Fetching, RangeFetch
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.errors import CorruptRecord, RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.properties import Property, decode_properties
from rocketmq_py.wire.record import MIN_SIZE, SYS_FLAG_AT, head_struct, record_properties

SOURCE_BROKER, SOURCE_QUEUE, SOURCE_OFFSET = "SPARK_SOURCE_BROKER", "SPARK_SOURCE_QUEUE", "SPARK_SOURCE_OFFSET"
"""Properties of a dead letter: broker, queue id and queue offset of the message that could not be decoded."""

_log = logging.getLogger(__name__)
_I32 = Struct(">i")
_NO_STAMP: Mapping[str, str] = MappingProxyType({})


class CorruptRecords:
    """Handles the messages of one queue that cannot be decoded, in one task.

    :param located: the range in which they are, and the addresses of the queue's broker.
    :param fetching: fetches ranges again.
    :param decoder: decodes the other messages into record batches with Arrow schema ``schema``.
    :param stamp: returns properties of dead letters that identify the query.
    """

    def __init__(
        self, located: LocatedRange, fetching: Fetching, decoder: Decoder, schema: Any, options: ReadOptions,
        stamp: Callable[[], Mapping[str, str]] = dict,
    ) -> None:  # fmt: skip
        self._located = located
        self._queue = located.range.queue
        self._fetching = fetching
        self._decoder = decoder
        self._schema = schema
        self._options = options
        self._stamp = stamp
        self._gives_rows = options.mode is Mode.PERMISSIVE and bool({CORRUPT_RECORD, CORRUPT_REASON} & {*schema.names})
        fate = f"becomes a row with a {CORRUPT_REASON}" if self._gives_rows else "is left out"
        self.left_out = 0
        """The number of bad messages for which no row was returned."""
        self._bad = BadRecordPolicy(options.mode, options.dlq_topic or "", fate)

    def rescue(self, chunks: Sequence[FetchedChunk], _: CorruptRecord) -> Iterator[Any]:
        """Pull the messages of ``chunks`` again; return record batches of those that decode, in the order of offsets.

        Each bad message is handled as the mode says: a row of its own, a dead letter, or skipped.

        :raises CorruptRecord: there is a bad message, and the mode is ``FAILFAST``.
        """
        return self._within(chunks[0].start, chunks[-1].stop)

    def _within(self, start: int, stop: int) -> Iterator[Any]:
        chunks = _all(self._fetching.again(self._range(start, stop)), start, stop)
        return self._decoder.decode(chunks, lambda _, error: self._narrow(start, stop, chunks, error))

    def _narrow(self, start: int, stop: int, chunks: Sequence[FetchedChunk], error: CorruptRecord) -> Iterator[Any]:
        if stop - start > 1:
            middle = (start + stop) // 2
            yield from self._within(start, middle)
            yield from self._within(middle, stop)
        elif (whole := self._of_slaves(start)) is not None:
            yield from whole
        elif self._fetching.takes_all:
            yield from self._handle_bad_record(start, chunks, error)
        else:
            yield from self._unfiltered(start)

    def _of_slaves(self, offset: int) -> list[Any] | None:
        """Pull the message at ``offset`` from slaves; return its record batches, None if no slave's copy decodes."""
        if not self._located.addresses.slaves:
            return None
        slaves = self._located.addresses._replace(master=None)
        one = self._range(offset, offset + 1)._replace(addresses=slaves)
        try:
            chunks = _all(self._fetching.again(one, retried=False), offset, offset + 1)
            found = list(self._decoder.decode(chunks))
        except RocketMQError as e:
            _log.info("offset %d of %s is not whole at a slave either: %s", offset, self._queue, e)
            return None
        return found or None

    def _unfiltered(self, offset: int) -> Iterator[Any]:
        """Pull the message at ``offset`` without the filter; if it is bad, handle it and yield its row, if it gets one.

        A filtered pull from ``offset`` may return a later message, so it does not tell which message is bad.
        """
        one = self._range(offset, offset + 1)
        chunks = _all(self._fetching.again(one, filtered=False), offset, offset + 1)
        try:
            list(self._decoder.decode(chunks))
        except CorruptRecord as e:
            yield from self._handle_bad_record(offset, chunks, e)

    def _range(self, start: int, stop: int) -> LocatedRange:
        return self._located._replace(range=QueueRange(self._queue, start, stop))

    def _handle_bad_record(self, offset: int, chunks: Sequence[FetchedChunk], error: CorruptRecord) -> Iterator[Any]:
        """Treat the bad message at ``offset`` as the mode says; yield its row, if the mode and schema ask for one.

        :raises CorruptRecord: the mode is ``FAILFAST``; names the message.
        """
        record = whole_record(b"".join(chunk.body for chunk in chunks))
        what = CorruptRecord(f"offset {offset} of {self._queue} cannot be decoded: {error}")
        what.add_note("to go on without such messages, set option mode=PERMISSIVE, or mode=DLQ to keep them apart")
        self.left_out += not self._gives_rows
        if self._bad.is_dead_letter(what):
            self._send(dead_letter_of(record, self._queue, offset, str(error), self._bad.where, self._stamp()))
        elif self._gives_rows:
            yield self._row(offset, record, str(error))

    def _row(self, offset: int, record: bytes, reason: str) -> Any:
        known = {
            "topic": self._queue.topic,
            "brokerName": self._queue.broker_name,
            "queueId": self._queue.queue_id,
            "queueOffset": offset,
            CORRUPT_RECORD: record or None,
            CORRUPT_REASON: reason,
        }
        return pa.RecordBatch.from_arrays(
            [pa.array([known.get(field.name)], field.type) for field in self._schema], schema=self._schema
        )

    def _send(self, letter: RowMessage) -> None:
        """Send a dead letter and wait until the broker has stored it."""
        from rocketmq_py.arrow.sink.sender import BatchSender  # imported here: hardly any read needs it
        from rocketmq_py.arrow.sink.targets import SendSettings

        options = self._options
        settings = SendSettings(
            namesrv=options.namesrv, producer_group=options.group or SENDS_AS, timeout=options.timeout,
            retries=options.num_retries, in_flight=1, max_batch_bytes=1, security=options.security,
        )  # fmt: skip
        with closing(BatchSender(settings)) as sender:
            sender.send(letter)
            sender.flush()


def _all(fetch: RangeFetch, start: int, stop: int) -> list[FetchedChunk]:
    """Return what a fetch of the offsets from ``start`` to ``stop`` returns, in one list; close the fetch."""
    with closing(fetch):
        found = [chunk for chunks in fetch.chunks() for chunk in chunks]
    return found or [FetchedChunk(b"", start, stop)]


SENDS_AS = "spark_source"
"""The producer group that sends the dead letters of a query without ``groupId``."""


def whole_record(found: bytes) -> bytes:
    """Return the first record of a response body; the whole body if the record's size field is impossible."""
    size = _I32.unpack_from(found)[0] if len(found) >= _I32.size else 0
    return found[:size] if MIN_SIZE <= size <= len(found) else found


def dead_letter_of(
    record: bytes, queue: MessageQueue, offset: int, reason: str, where: str, stamp: Mapping[str, str] = _NO_STAMP
) -> RowMessage:
    """Return the dead letter for a message that cannot be decoded.

    Its body is the message's stored body if it can be located in ``record``, else all of ``record``, or ``reason`` if
    ``record`` is empty because the broker did not send it. Its ``SPARK_ROW_KEY`` depends on queue and offset only, so a
    repeated read gives the same.

    :param where: topic of the dead letter.
    :param stamp: properties that identify the query.
    """
    body, properties = _stored_parts(record)
    key = f"{queue.topic}-{queue.broker_name}-{queue.queue_id}-{offset}"
    named = {
        **{name: text for name, text in properties.items() if name not in NOT_COPIED | DELAYS},
        **{name: properties[name] for name in (Property.UNIQUE_KEY,) if name in properties},
        **stamp,
        ROW_KEY: key,
        SOURCE_BROKER: queue.broker_name,
        SOURCE_QUEUE: str(queue.queue_id),
        SOURCE_OFFSET: str(offset),
    }
    return RowMessage(where, *dead_letter(body or reason.encode(), named, queue.topic, reason), None, None, key)


def _stored_parts(record: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a record's stored body and properties; the whole record and no properties if they cannot be located."""
    try:
        properties = record_properties(record)
        layout = head_struct(_I32.unpack_from(record, SYS_FLAG_AT)[0])
        length = layout.unpack_from(record)[-1]
    except (CorruptRecord, StructError):
        return record, {}
    return record[layout.size : layout.size + length], decode_properties(properties)
