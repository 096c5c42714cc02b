"""Write what is new in a topic to Parquet files, each message once: :func:`archive_topic`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rocketmq_py.arrow.column_names import DEFAULT_COLUMNS
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.ranges import QueueRange, report_losses
from rocketmq_py.arrow.remoting.queues import LocatedRange
from rocketmq_py.arrow.source.origins import origin_of
from rocketmq_py.arrow.source.plan import batch_plan, beyond_the_end, split
from rocketmq_py.arrow.source.reading import read_ranges
from rocketmq_py.arrow.topics import read_schema
from rocketmq_py.cli.archive.manifest import Manifest, Part, Stretch, save
from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.model import MessageQueue

COLUMNS = (
    *DEFAULT_COLUMNS, "properties", "flag", "transactionId", "bornHost", "storeHost", "commitLogOffset", "storeSize",
)  # fmt: skip


def plan(
    options: ReadOptions, ends_of: Callable[[Sequence[MessageQueue]], Mapping[MessageQueue, int]]
) -> list[LocatedRange]:
    """Return the ranges of the topic that the archive does not have yet.

    :param ends_of: returns the offset of each queue at which the archive ends; queues that it lacks are left out.
    :raises DataLossError: messages behind the end of the archive were removed, or a queue ends before it, and
        ``failOnDataLoss`` is true.
    :raises RocketMQError: the topic does not exist, or a broker does not respond.
    """
    with closing(origin_of(options)) as origin:
        queues = origin.selected(options.selection)
        bounds = origin.bounds(queues)
        ends = ends_of(list(bounds))
        start = {queue: ends.get(queue, known.earliest) for queue, known in bounds.items()}
        report_losses(beyond_the_end(start, bounds), options.fail_on_data_loss)
        planned = batch_plan(start, {queue: known.latest for queue, known in bounds.items()}, bounds)
        report_losses(planned.losses, options.fail_on_data_loss)
        return origin.located(planned.ranges, queues)


def rounds(ranges: Sequence[LocatedRange], rows: int) -> Iterator[list[LocatedRange]]:
    """Divide ranges into those of one file each, with at most ``rows`` offsets."""
    current: list[LocatedRange] = []
    room = rows
    for one in ranges:
        for piece in split([one.range], None, rows):
            if current and piece.size > room:
                yield current
                current, room = [], rows
            current.append(one._replace(range=piece))
            room -= piece.size
    if current:
        yield current


def archive_topic(
    directory: Path, manifest: Manifest, options: ReadOptions, ranges: Sequence[LocatedRange], rows: int,
    advance: Callable[[int], None],
) -> int:  # fmt: skip
    """Add ranges of a topic to an archive; return the number of messages.

    A file counts from the moment on at which the manifest names it, which happens after it is on disk.

    :param rows: most offsets of one file.
    :param advance: called with the number of messages that were written.
    :raises CommandFailure: a file does not have what was written.
    :raises OSError: the disk is full or fails.
    """
    schema, written = read_schema({"columns": COLUMNS}), 0
    for together in rounds(ranges, rows):
        name = f"part-{len(manifest.parts):06d}.parquet"
        part = _write(directory / name, together, options, schema, advance)
        manifest.parts.append(part)
        save(directory, manifest)
        written += part.rows
    return written


def _write(
    path: Path, ranges: Sequence[LocatedRange], options: ReadOptions, schema: pa.Schema, advance: Callable[[int], None]
) -> Part:
    fresh, count = path.with_name(f"{path.name}.tmp"), 0
    with fresh.open("wb") as out:
        with pq.ParquetWriter(out, schema, compression="zstd") as writer:
            for batch in read_ranges(ranges, options, schema):
                writer.write_batch(batch)
                count += batch.num_rows
                advance(batch.num_rows)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)
    found = pq.read_metadata(path).num_rows
    if found != count:
        raise CommandFailure(f"{path} has {found} rows, {count} were written")
    return Part(path.name, count, path.stat().st_size, stretches([one.range for one in ranges]))


def stretches(ranges: Sequence[QueueRange]) -> list[Stretch]:
    """Return ranges as the manifest has them, those that are next to each other as one."""
    found: list[Stretch] = []
    for one in sorted(ranges):
        last = found[-1] if found else None
        if last and (last.broker, last.queue_id, last.stop) == (one.queue.broker_name, one.queue.queue_id, one.start):
            last.stop = one.stop
        else:
            found.append(Stretch(one.queue.broker_name, one.queue.queue_id, one.start, one.stop))
    return found
