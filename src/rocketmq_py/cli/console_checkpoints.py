"""What the console shows of the checkpoints of Spark's streaming queries: offsets, commits and decisions.

Reads local files that Spark and the sink wrote; nothing is ever written, and no path comes from a request.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from rocketmq_py.console.views.spark import QueryState
from rocketmq_py.errors import ConfigError, RocketMQError
from rocketmq_py.spark.decision_store.decisions import Decision, Decisions
from rocketmq_py.spark.monitoring.report_sources import Planned, planned, query_id_of

_MOST_FILES = 100_000
_MOST_BYTES = 4 * 1024 * 1024
_DECISIONS = "rocketmq"


def checked(folders: Sequence[str]) -> list[Path]:
    """Return the directories of the option ``--spark-checkpoint``.

    :raises ConfigError: one is no checkpoint of a streaming query.
    """
    found = [Path(folder) for folder in folders]
    for folder in found:
        query_id_of(folder)
    return found


def read_query(folder: Path) -> QueryState:
    """Return what a checkpoint says now; ``error`` says what cannot be read."""
    try:
        return _read(folder)
    except (OSError, ValueError, RocketMQError) as e:
        return QueryState(str(folder), error=str(e))


def _read(folder: Path) -> QueryState:
    query = query_id_of(folder)
    running, committed = _latest(folder / "offsets"), _latest(folder / "commits")
    of_running, of_committed = _planned(folder, running), _planned(folder, committed)
    decision = _decision(folder)
    return QueryState(
        str(folder),
        query=query,
        planned=running,
        planned_at=None if of_running is None else int(of_running.at * 1000),
        committed=committed,
        committed_at=None if committed is None else _written_at(folder / "commits" / str(committed)),
        done={} if of_committed is None else of_committed.offsets,
        ends={} if of_running is None else of_running.offsets,
        is_decided=_is_decided(decision, running) if (folder / _DECISIONS).is_dir() else None,
        decided=None if decision is None else decision.batch_id,
        attempts=None if decision is None else len(decision.attempts),
        topics=() if decision is None else decision.topics,
    )


def _is_decided(decision: Decision | None, running: int | None) -> bool:
    return decision is not None and running is not None and decision.batch_id >= running


def _latest(folder: Path) -> int | None:
    """Return the largest number that is the name of a file; None if there is none."""
    if not folder.is_dir():
        return None
    with os.scandir(folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, _MOST_FILES)]
    return max((int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 19), default=None)


def _planned(folder: Path, number: int | None) -> Planned | None:
    if number is None:
        return None
    file = folder / "offsets" / str(number)
    if not file.exists():  # Spark keeps the files of the last hundred micro-batches
        return None
    if file.stat().st_size > _MOST_BYTES:
        raise ConfigError(f"{file} is longer than {_MOST_BYTES} bytes")
    return planned(file)


def _written_at(file: Path) -> int | None:
    try:
        return int(file.stat().st_mtime * 1000)
    except FileNotFoundError:
        return None


def _decision(folder: Path) -> Decision | None:
    return Decisions.at(str(folder / _DECISIONS)).latest()
