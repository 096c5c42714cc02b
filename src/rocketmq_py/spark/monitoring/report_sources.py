"""Read the micro-batches of a report from a log with Spark's progress reports, or from the checkpoint of a query.

Reads local files; copy a remote checkpoint first (``hdfs dfs -get``). A log has all figures. A checkpoint has the times
of planning and commit of each micro-batch and its offsets, for as many micro-batches as Spark keeps
(``spark.sql.streaming.minBatchesToRetain``, 100), but no lag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rocketmq_py.arrow.options.offsets import Offsets, from_document
from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.monitoring.progress import TOTAL, BatchProgress, batch_progress, queue_progress

_REPORT = re.compile(r"^(?=\{)|made progress: (?=\{)", re.MULTILINE)
"""Matches before the ``{`` of a progress report: at the start of a line, or in a line of Spark's own log."""


def read_batches(path: Path) -> list[BatchProgress]:
    """Return the micro-batches of a log file or a checkpoint directory, in the order they ran.

    :raises ConfigError: ``path`` is neither, or contains no micro-batch.
    :raises OSError: a file cannot be read.
    """
    if path.is_dir():
        batches = _of_checkpoint(path)
        reason = "its offsets/ hold fewer than two micro-batches of this source, and it takes two of them to see a rate"
    else:
        batches = list(_of_log(path.read_text(encoding="utf-8", errors="replace")))
        reason = "it holds no progress report of Spark: write one with ProgressLog, or let Spark log at level INFO"
    if not batches:
        raise ConfigError(f"{path}: {reason}")
    return batches


def _of_log(text: str) -> Iterator[BatchProgress]:
    decoder = json.JSONDecoder()
    position = 0
    while (found := _REPORT.search(text, position)) is not None:
        position = found.end() + 1
        try:
            report, position = decoder.raw_decode(text, found.end())
            progress = batch_progress(report)
        except (ValueError, ConfigError):  # not a progress report: skip the line
            continue
        if "addBatch" in progress.durations or progress.rows:
            yield progress  # Spark also reports triggers that found nothing to do


class Planned(NamedTuple):
    """One file of a checkpoint's folder ``offsets``: micro-batch number, planning time (s since 1970), end offsets."""

    number: int
    at: float
    offsets: Offsets


def _of_checkpoint(folder: Path) -> list[BatchProgress]:
    query = query_id_of(folder)
    files = sorted(
        found for file in (folder / "offsets").glob("[0-9]*") if (found := planned(file)) is not None
    )  # fmt: skip
    # The start of the first micro-batch in the checkpoint is unknown, so it only gives the start of the second.
    return [_between(query, folder, before, now) for before, now in pairwise(files)]


def query_id_of(folder: Path) -> str:
    """Return the id of the query whose checkpoint a directory is.

    :raises ConfigError: it is no checkpoint.
    """
    try:
        return str(json.loads((folder / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise ConfigError(f"{folder} is no checkpoint of a streaming query: no metadata with an id in it") from e


def planned(file: Path) -> Planned | None:
    """Parse an offsets file: a version, a line about the micro-batch, a line for each source.

    Returns None for other files, and if no source is RocketMQ's.

    :raises OSError: the file cannot be read.
    :raises ValueError: it is malformed.
    """
    if not file.name.isdecimal():
        return None
    _, about, *sources = file.read_text(encoding="utf-8").split("\n")  # JSON may hold other line separators
    offsets: Offsets = {}
    for line in sources:
        offsets.update(_offsets(line))
    if not offsets:
        return None
    try:
        return Planned(int(file.name), json.loads(about)["batchTimestampMs"] / 1000, offsets)
    except (KeyError, TypeError) as e:
        raise ValueError(f"{file} is no file of a checkpoint's offsets: {e!r}") from e


def _offsets(line: str) -> dict[Any, int]:
    """Return the offsets in a source's line of an offsets file; empty for another kind of source or without queues."""
    try:
        return from_document(json.loads(line))
    except (ConfigError, ValueError):
        return {}


def _between(query_id: str, folder: Path, before: Planned, now: Planned) -> BatchProgress:
    queues = tuple(queue_progress(before.offsets, now.offsets, {}))
    messages = sum(queue.messages for queue in queues)
    commit = folder / "commits" / str(now.number)
    took = max(commit.stat().st_mtime - now.at, 0.0) if commit.exists() else 0.0
    since = now.at - before.at
    return BatchProgress(
        query=folder.resolve().name,
        query_id=query_id,
        batch_id=now.number,
        at=now.at,
        rows=messages,
        input_rate=messages / since if since > 0 else 0.0,
        processed_rate=messages / took if took > 0 else 0.0,
        durations={TOTAL: took},
        queues=queues,
    )
