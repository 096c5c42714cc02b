"""Read ranges of queues into Arrow record batches: fetch, decode, check that no message is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple

from rocketmq_py.arrow.decode.arrays import merged
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.ranges import QueueRange, report_losses
from rocketmq_py.arrow.remoting.queues import LocatedRange
from rocketmq_py.arrow.source.corrupt_records import CorruptRecords
from rocketmq_py.arrow.source.decoders import Decoders
from rocketmq_py.arrow.source.origin import RangeFetch
from rocketmq_py.arrow.source.origins import fetching_of
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.errors import NoRouteError

_DECODE_BYTES = 2 * 1024 * 1024
"""Pull responses are collected up to this many bytes and decoded together: few large batches cost less than many."""

_AT_ONCE = 4
"""Number of ranges, or groups of small ones, that a task fetches at the same time: brokers read the next ones while one
is decoded."""


def read_ranges(
    ranges: Sequence[LocatedRange], options: ReadOptions, schema: Any, stamp: Callable[[], Mapping[str, str]] = dict
) -> Iterator[Any]:
    """Return the Arrow record batches of ranges, range after range; small batches are merged.

    The next ranges are fetched while one is decoded.

    :param schema: Arrow schema of the batches; see :class:`~rocketmq_py.arrow.decode.Decoder`.
    :param stamp: returns properties that identify the query, for dead letters.
    :raises DataLossError: messages are missing, and ``failOnDataLoss`` is true.
    :raises RocketMQError: a queue cannot be read after all retries.
    """
    batches = RangeReader(options, schema, stamp).read(ranges)
    return merged(batches, _DECODE_BYTES) if len(ranges) > 1 else batches


class RangeReader:
    """Reads the ranges of one task. See :func:`read_ranges`."""

    def __init__(self, options: ReadOptions, schema: Any, stamp: Callable[[], Mapping[str, str]]) -> None:
        self._options = options
        self._fetching = fetching_of(options)
        self._decoders = Decoders(options, schema)
        self._stamp = stamp
        self._short: list[QueueRange] = []
        """Filtered ranges that returned fewer messages than they have offsets."""

    def read(self, ranges: Sequence[LocatedRange]) -> Iterator[Any]:
        """Yield the record batches of ``ranges``; small ones of one topic and broker may share a batch."""
        with (
            closing(self._fetching),
            closing(self._fetching.each(ranges, _AT_ONCE)) as fetchers,
        ):
            gathered: list[Gathered] = []
            weight = 0
            for one, fetcher in fetchers:
                parts = coalesce(fetcher.chunks(), _DECODE_BYTES)
                fetched = Gathered(one, fetcher, next(parts, []))
                more = next(parts, None)
                weight += fetched.weight
                if gathered and (weight > _DECODE_BYTES or not fetched.is_like(gathered[0])):
                    yield from self._decode_all(gathered)
                    gathered, weight = [], fetched.weight
                if more is None and fetched.chunks:
                    gathered.append(fetched)
                else:
                    weight = sum(each.weight for each in gathered)
                    yield from self._decode_range(fetched, chain([more] if more else [], parts))
            yield from self._decode_all(gathered)
            if self._short:
                self._check_retention(self._short)

    def _decode_all(self, gathered: Sequence[Gathered]) -> Iterator[Any]:
        """Decode small ranges of one topic and broker into one record batch, or each by itself if that fails."""
        found = None
        if len(gathered) > 1:
            name = gathered[0].located.range.queue.broker_name
            found = self._decoders.of(name).decode_together([one.chunks for one in gathered])
        if found is not None and found.batch is not None:
            yield found.batch
        for at, one in enumerate(gathered):
            try:
                if found is None:
                    yield from self._decode_range(one, ())
                else:
                    self._count(one.located.range, one.fetcher, found.counts[at])
            finally:
                one.fetcher.close()

    def _decode_range(self, fetched: Gathered, more: Iterable[Sequence[FetchedChunk]]) -> Iterator[Any]:
        """Decode one range into record batches, and check that no messages are missing.

        :param more: the pull responses after those in ``fetched``.
        :raises DataLossError: messages are missing, and ``failOnDataLoss`` is true.
        """
        located, fetcher, first = fetched
        wanted, rows = located.range, 0
        decoder = self._decoders.of(wanted.queue.broker_name)
        corrupt = CorruptRecords(located, self._fetching, decoder, self._decoders.schema, self._options, self._stamp)
        for chunks in chain([first] if first else [], more):
            for batch in decoder.decode(chunks, corrupt.rescue):
                rows += batch.num_rows
                yield batch
        self._count(wanted, fetcher, rows + corrupt.left_out)

    def _count(self, wanted: QueueRange, fetcher: RangeFetch, rows: int) -> None:
        """Check that no messages of a range are missing.

        :param rows: number of its messages that were decoded, or left out because they are corrupt.
        :raises DataLossError: messages are missing, and ``failOnDataLoss`` is true.
        """
        missing = wanted.size - rows - fetcher.skipped - fetcher.between
        if missing and self._fetching.takes_all:
            self._check_whole(wanted, fetcher, missing)
        elif missing:
            self._short.append(wanted)

    def _check_whole(self, wanted: QueueRange, fetcher: RangeFetch, missing: int) -> None:
        """Report ``missing`` messages of an unfiltered range, unless the topic is compacted and may have gaps.

        :raises DataLossError: the topic is not compacted, and ``failOnDataLoss`` is true.
        """
        if not fetcher.is_compacted():
            offsets = f"offsets {wanted.start} to {wanted.stop - 1} of {wanted.queue}"
            report_losses(
                [f"{missing} of {offsets} hold no messages: a file of the broker's log is missing"],
                self._options.fail_on_data_loss,
            )

    def _check_retention(self, short: Sequence[QueueRange]) -> None:
        """Report messages that retention may have removed from filtered ranges while they were read.

        :param short: ranges that returned fewer messages than offsets: filtered out, or removed.
        :raises DataLossError: retention removed offsets of a range, and ``failOnDataLoss`` is true.
        :raises NoRouteError: the earliest offset of a queue cannot be looked up.
        """
        earliest = self._fetching.earliest(short)
        unknown = [one.queue for one in short if one.queue not in earliest]
        if unknown:
            raise NoRouteError(f"no broker serves {unknown[0]} now, so whether retention removed messages is not known")
        report_losses(
            [
                f"offsets of {one.queue} below {earliest[one.queue]} have been removed by retention while being read"
                for one in short
                if earliest[one.queue] > one.start
            ],
            self._options.fail_on_data_loss,
        )


class Gathered(NamedTuple):
    """The pull responses of one range: all of them, or the first 2 MiB."""

    located: LocatedRange
    fetcher: RangeFetch
    chunks: Sequence[FetchedChunk]

    @property
    def weight(self) -> int:
        """The total size of the response bodies in bytes."""
        return sum(len(chunk.body) for chunk in self.chunks)

    def is_like(self, other: Gathered) -> bool:
        """Return whether both ranges are of one topic and broker, and so can be decoded into one record batch."""
        return self.located.range.queue[:2] == other.located.range.queue[:2]


def coalesce(chunks: Iterable[list[FetchedChunk]], size: int) -> Iterator[list[FetchedChunk]]:
    """Combine consecutive lists of chunks into lists of at least ``size`` bytes; the last one may have less."""
    collected: list[FetchedChunk] = []
    weight = 0
    for more in chunks:
        collected += more
        weight += sum(len(chunk.body) for chunk in more)
        if weight >= size:
            yield collected
            collected, weight = [], 0
    if collected:
        yield collected
