"""Send an archive to a topic, each message exactly once also over several runs: :func:`replay`.

The messages are divided into batches that are the same in every run. Each batch is sent as half messages, the decision
to commit it is stored, and its transactions are ended: the two phases of the exactly-once sink of Spark.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.remoting.cluster import Cluster
from rocketmq_py.arrow.sink.rows import DELAYS, RowStamp
from rocketmq_py.arrow.sink.targets import SendSettings
from rocketmq_py.arrow.sink.task_keys import TaskKeys
from rocketmq_py.cli.archive.manifest import Manifest
from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.spark.decision_store.decisions import Decisions
from rocketmq_py.spark.sink.exactly_once import Committer, Preparation, Prepared
from rocketmq_py.store.fs.os_files import OsFileSystem

BATCH = 5000
_PER_FILE = 10_000_000
"""Batch numbers that a file of the archive has; files are added to an archive, so later batches get later numbers."""
_COLUMNS = ("body", "tags", "keys", "properties", "flag", "queueId")
_READ = ("brokerName", "queueId", "body", "tags", "keys", "properties", "flag", "storeTimestamp")
_PROPERTIES = pa.map_(pa.string(), pa.string())

Place = tuple[str, int]
"""Broker and queue id that a message had."""


class Replay(msgspec.Struct):
    """What is the same in all runs of a replay.

    :ivar query_id: identifies it in the messages' properties.
    :ivar since: send messages stored then or later, ms since 1970; None for all.
    :ivar until: send messages stored before; None for all.
    :ivar batch: messages of a batch.
    :ivar delivered: number of messages of the batches before the one with number ``following``.
    """

    query_id: str
    topic: str
    since: int | None
    until: int | None
    batch: int
    following: int = 0
    delivered: int = 0


class Batch(NamedTuple):
    """Messages that are committed together; ``number`` is higher than those of all batches before."""

    number: int
    rows: pa.RecordBatch


def opened(path: Path, topic: str, since: int | None, until: int | None, rate: int | None) -> Replay:
    """Return the replay whose state is in the file ``path``; a new one if there is none.

    :raises CommandFailure: it was started with other times.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Replay)
    except FileNotFoundError:
        batch = BATCH if rate is None else max(1, min(BATCH, rate))
        found = Replay(secrets.token_hex(8), topic, since, until, batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        keep(path, found)
    except (OSError, msgspec.DecodeError) as e:
        raise CommandFailure(f"{path} cannot be read: {e}") from e
    if (found.since, found.until) != (since, until):
        raise CommandFailure(
            f"a replay to topic {topic} was begun with other times: repeat its --from and --to, or remove {path.parent}"
            " to send everything again"
        )
    return found


def keep(path: Path, state: Replay) -> None:
    """Store the state of a replay.

    :raises OSError: the disk is full or fails.
    """
    OsFileSystem().write(path, msgspec.json.encode(state))


def batches(directory: Path, manifest: Manifest, state: Replay) -> Iterator[Batch]:
    """Yield the batches from ``state.following`` on, the same in every run.

    :raises CommandFailure: a file of the archive cannot be read.
    """
    for number, part in enumerate(manifest.parts):
        if (number + 1) * _PER_FILE <= state.following:
            continue
        try:
            with pq.ParquetFile(directory / part.name) as file:
                found = (chosen(one, state) for one in file.iter_batches(state.batch, columns=list(_READ)))
                for index, rows in enumerate(sized(found, state.batch)):
                    if number * _PER_FILE + index >= state.following:
                        yield Batch(number * _PER_FILE + index, rows)
        except (OSError, pa.ArrowInvalid) as e:
            raise CommandFailure(f"{directory / part.name} cannot be read: {e}") from e


def chosen(rows: pa.RecordBatch, state: Replay) -> pa.RecordBatch:
    """Return the rows that were stored in the time of a replay."""
    for bound, within in ((state.since, pc.greater_equal), (state.until, pc.less)):
        if bound is not None:
            times = rows.column("storeTimestamp")
            rows = rows.filter(within(times, pa.scalar(bound * 1000).cast(times.type)))
    return rows


def sized(found: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Divide rows into batches of ``size``; the last one may be smaller."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for one in found:
        at = 0
        while at < one.num_rows:
            piece = one.slice(at, size - count)
            waiting.append(piece)
            at, count = at + piece.num_rows, count + piece.num_rows
            if count == size:
                yield _joined(waiting)
                waiting, count = [], 0
    if count:
        yield _joined(waiting)


def _joined(rows: list[pa.RecordBatch]) -> pa.RecordBatch:
    (batch,) = pa.Table.from_batches(rows).combine_chunks().to_batches()
    return batch


def targets(manifest: Manifest, queues: int) -> dict[Place, int]:
    """Return the queue id for the messages of each queue in the archive, so that each keeps its order."""
    places = sorted({(one.broker, one.queue_id) for part in manifest.parts for one in part.stretches})
    return {place: index % queues for index, place in enumerate(places)}


def message_rows(rows: pa.RecordBatch, queue_ids: Mapping[Place, int]) -> pa.RecordBatch:
    """Return rows of an archive as those of messages to send."""
    places = zip(rows.column("brokerName").to_pylist(), rows.column("queueId").to_pylist(), strict=True)
    numbers = pa.array([queue_ids[place] for place in places], pa.int32())
    kept = {name: rows.column(name) for name in _COLUMNS if name not in ("queueId", "properties")}
    columns = {**kept, "properties": _without_delays(rows.column("properties")), "queueId": numbers}
    return pa.RecordBatch.from_arrays([columns[name] for name in _COLUMNS], list(_COLUMNS))


def _without_delays(properties: Any) -> Any:
    """Return properties without those of a delay that is over."""
    if not pc.any(pc.is_in(properties.keys, value_set=pa.array(sorted(DELAYS)))).as_py():
        return properties
    return pa.array(
        [[pair for pair in one or () if pair[0] not in DELAYS] for one in properties.to_pylist()], _PROPERTIES
    )


def queues_of(settings: SendSettings, topic: str) -> int:
    """Return the number of writable queues of a topic on one broker.

    :raises RocketMQError: the topic does not exist, or no name server responds.
    """
    with closing(Cluster(settings.namesrv, settings.timeout, settings.retries, settings.security)) as cluster:
        return 1 + max(queue.queue_id for queue in cluster.writable(topic).addresses)


def replay(
    directory: Path, manifest: Manifest, path: Path, state: Replay, settings: SendSettings, timeout: float,
    paced: Callable[[int], None],
) -> int:  # fmt: skip
    """Send what a replay has not sent yet; return the number of messages.

    :param path: file of the replay's state; decisions are beside it.
    :param timeout: seconds to wait for checks of brokers after a crash.
    :param paced: called with the number of messages after each batch.
    :raises RocketMQError: a broker does not respond; the next run goes on here.
    """
    decisions = Decisions.at(str(path.parent / "decisions"))
    committer = Committer(settings, decisions, timeout)
    queue_ids = targets(manifest, queues_of(settings, state.topic))
    made, sent = decisions.latest(), 0
    for one in batches(directory, manifest, state):
        if made is not None and made.batch_id >= one.number:  # a run ended before all of it was delivered
            prepared = Prepared(state.query_id, "none")
        else:
            prepared = _prepared(state, one, message_rows(one.rows, queue_ids), settings)
        committer.commit([prepared], one.number)
        state.following, state.delivered = one.number + 1, state.delivered + one.rows.num_rows
        keep(path, state)
        sent += one.rows.num_rows
        paced(one.rows.num_rows)
    return sent


def _prepared(state: Replay, batch: Batch, rows: pa.RecordBatch, settings: SendSettings) -> Prepared:
    keys = TaskKeys()
    stamp = RowStamp(state.query_id, str(batch.number), 0)
    bad = BadRecordPolicy(Mode.FAILFAST, "")
    preparation = Preparation(_COLUMNS, state.topic, stamp, settings, keys.one, keys.reserve, bad)
    return preparation.batches([rows])


class Pace:
    """Waits after each batch so that at most ``rate`` messages are sent in a second; None does not wait.

    :param rate: messages a second.
    :param tell: called with the number of messages of each batch.
    """

    def __init__(self, rate: int | None, tell: Callable[[int], None]) -> None:
        self._rate = rate
        self._tell = tell
        self._due = time.monotonic()

    def __call__(self, count: int) -> None:
        self._tell(count)
        if self._rate is not None:
            now = time.monotonic()
            self._due = max(self._due, now - count / self._rate) + count / self._rate
            time.sleep(max(0.0, self._due - now))
