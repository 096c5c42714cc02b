"""Keep a topic as a Delta table, each message once: :func:`archive_topic`.

A commit has rows and, for each of their queues, a transaction of Delta whose application is the queue and whose version
is the offset at which the next run begins. Delta writes both or neither, so a run that is killed leaves no half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.remoting.queues import LocatedRange
from rocketmq_py.arrow.source.reading import read_ranges
from rocketmq_py.arrow.topics import read_schema
from rocketmq_py.cli.archive.archiving import COLUMNS, rounds
from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageQueue

_NAME = "rocketmq archive of topic "
"""A table that has an archive is named so."""


class Content(NamedTuple):
    """What a table has."""

    rows: int
    files: int


def opened(directory: Path, topic: str) -> DeltaTable:
    """Return the table of an archive; it is created if the directory has none.

    :raises CommandFailure: the table is of something else, or cannot be read.
    """
    uri = str(directory.absolute())
    try:
        if not DeltaTable.is_deltatable(uri):
            return DeltaTable.create(uri, schema=_schema(), name=_NAME + topic, mode="error")
        table = DeltaTable(uri)
    except (DeltaError, OSError) as e:
        raise CommandFailure(f"the Delta table {directory} cannot be read: {e}") from e
    name = table.metadata().name or ""
    if not name.startswith(_NAME):
        raise CommandFailure(f"{directory} has a Delta table that 'rocketmq archive' has not made")
    if name != _NAME + topic:
        raise CommandFailure(f"{directory} is an archive of topic {name.removeprefix(_NAME)}: each topic needs its own")
    return table


def _schema() -> pa.Schema:
    return read_schema({"columns": COLUMNS})


def ends(table: DeltaTable, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    """Return the offset of each queue at which the next run begins; queues without one are left out."""
    found = {queue: table.transaction_version(_application(queue)) for queue in queues}
    return {queue: end for queue, end in found.items() if end is not None}


def _application(queue: MessageQueue) -> str:
    return f"rocketmq archive {queue.topic} {queue.broker_name} {queue.queue_id}"


def archive_topic(
    table: DeltaTable, options: ReadOptions, ranges: Sequence[LocatedRange], rows: int, advance: Callable[[int], None]
) -> int:
    """Add ranges of a topic to a table; return the number of messages.

    :param rows: most offsets of one commit.
    :param advance: called with the number of messages that were written.
    :raises CommandFailure: another program has written to the table meanwhile, or the table has not what was written.
    """
    written, before = 0, content(table).rows
    for together in rounds(ranges, rows):
        written += _commit(table, together, options, advance)
    found = content(table).rows
    if found != before + written:
        raise CommandFailure(f"{table.table_uri} has {found} rows, had {before}, and {written} were written")
    return written


def _commit(
    table: DeltaTable, ranges: Sequence[LocatedRange], options: ReadOptions, advance: Callable[[int], None]
) -> int:
    schema, count = _schema(), 0
    failures: list[RocketMQError] = []

    def counted() -> Iterator[Any]:
        nonlocal count
        try:
            for batch in read_ranges(ranges, options, schema):
                count += batch.num_rows
                advance(batch.num_rows)
                yield batch
        except RocketMQError as e:
            failures.append(e)
            raise

    stops = {one.range.queue: one.range.stop for one in sorted(ranges, key=lambda one: one.range.stop)}
    done = CommitProperties(app_transactions=[Transaction(_application(queue), stop) for queue, stop in stops.items()])
    try:
        data = pa.RecordBatchReader.from_batches(schema, counted())
        write_deltalake(table, data, mode="append", commit_properties=done)
    except Exception as e:
        if failures:  # Delta only passes its text on
            raise failures[0] from e
        if isinstance(e, DeltaError):
            raise CommandFailure(f"the Delta table {table.table_uri} cannot be written: {e}") from e
        raise
    return count


def content(table: DeltaTable) -> Content:
    """Return how many rows and files a table has, by its log."""
    table.update_incremental()
    return Content(table.count(), len(table.file_uris()))
