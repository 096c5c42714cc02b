"""Read topics as streams of Arrow record batches: :func:`read`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypedDict, Unpack

import pyarrow as pa

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.column_names import DEFAULT_COLUMNS
from rocketmq_py.arrow.decode import COLUMNS
from rocketmq_py.arrow.options import values
from rocketmq_py.arrow.options.offsets import Boundary, Position, Times
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.options.security import Security
from rocketmq_py.arrow.options.selection import Matching, Selection, Topics
from rocketmq_py.arrow.options.stores import StoreDirectory, checked, default_name
from rocketmq_py.arrow.ranges import report_losses
from rocketmq_py.arrow.remoting.queues import LocatedRange
from rocketmq_py.arrow.source.origins import origin_of
from rocketmq_py.arrow.source.planning import plan_read
from rocketmq_py.arrow.source.pruning import Pruning
from rocketmq_py.arrow.source.reading import read_ranges
from rocketmq_py.client.name_servers import name_server_addresses
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.names import check_topic
from rocketmq_py.tls import Tls, client_context
from rocketmq_py.wire.signing import Credentials

Place: TypeAlias = str | datetime | Mapping[MessageQueue, int] | None
"""Where a read starts or ends: ``earliest``, ``latest``, a time, a time span before now, or offsets."""


class ReadSettings(TypedDict, total=False):
    """Settings of :func:`read`, all optional; the function describes them."""

    namesrv: str | Sequence[str] | None
    store: str | Path | Mapping[str, str | Path] | None
    commit_log: str | Path | None
    start: Place
    end: Place
    tags: str
    sql: str | None
    columns: Sequence[str] | None
    text: bool
    mode: str
    fail_on_data_loss: bool
    timeout: float
    retries: int
    tls: Tls
    credentials: Credentials | None


def read(topic: str | Sequence[str] | re.Pattern[str], **settings: Unpack[ReadSettings]) -> pa.RecordBatchReader:
    """Read what is in a topic now, as a stream of Arrow record batches.

    The ends of all queues are looked up at once; messages are fetched while the stream is consumed, queue after queue
    and in the order of each queue. No consumer group is joined, and no offset is committed.

    :param topic: a topic, several, or a compiled regular expression that whole names match.
    :param namesrv: name servers as of the clients; None takes NAMESRV_ADDR from the environment.
    :param store: the directory of a broker's store, or its URI (``s3://bucket/store``), to be read instead of brokers
        and without ``namesrv``; for several, or to say what column ``brokerName`` has, a mapping of broker names to
        directories. See :ref:`read-a-store`.
    :param commit_log: directory of the commit log if it is not in the one store.
    :param start: where to start: ``"earliest"`` (default), a time of storing (``datetime``, or a time span before now
        such as ``"-10 minutes"``), or the offset of every queue.
    :param end: where to end, exclusive: ``"latest"`` (default), or as ``start``.
    :param tags: only messages with one of these tags, ``"a || b"``; brokers filter.
    :param sql: only messages whose properties match this SQL92 expression; brokers filter.
    :param columns: the columns, as those of the Spark source; default: those that a Spark read has by default.
    :param text: column ``body`` is a string instead of bytes.
    :param mode: ``"FAILFAST"`` (default) fails at a message that cannot be decoded, ``"PERMISSIVE"`` skips it, or makes
        it a row if ``columns`` names ``_corrupt_reason``.
    :param fail_on_data_loss: fail (default) or log a warning if messages were deleted meanwhile.
    :param timeout: seconds to wait for a response.
    :param retries: attempts after the first one.
    :param tls: as of the clients.
    :param credentials: sign requests with these.
    :raises ConfigError: a setting is illegal.
    :raises RocketMQError: the topic does not exist, or a broker does not respond; also while the stream is consumed.
    """
    return planned(topic, settings).reader()


def to_pandas(topic: str | Sequence[str] | re.Pattern[str], **settings: Unpack[ReadSettings]) -> Any:
    """Read what is in a topic now as a pandas data frame; parameters as of :func:`read`."""
    return read(topic, **settings).read_pandas()


class TopicRead(NamedTuple):
    """A planned read, not fetched yet."""

    options: ReadOptions
    schema: pa.Schema
    ranges: list[LocatedRange]

    @property
    def offsets(self) -> int:
        """The number of offsets to read; filters and gaps leave fewer messages."""
        return sum(one.range.size for one in self.ranges)

    def reader(self) -> pa.RecordBatchReader:
        """Return the stream of record batches."""
        return pa.RecordBatchReader.from_batches(self.schema, read_ranges(self.ranges, self.options, self.schema))


def planned(
    topic: str | Sequence[str] | re.Pattern[str], settings: ReadSettings, pruning: Pruning | None = None
) -> TopicRead:
    """Plan a read; parameters as of :func:`read`.

    :param pruning: conditions that every row must meet; messages that cannot meet them are not read.
    """
    options = read_options(topic, settings)
    if pruning is not None and pruning.tags and not options.tags and options.sql is None:
        options = replace(options, tags=pruning.tags)
    schema = read_schema(settings)
    with closing(origin_of(options)) as origin:
        plan, queues = plan_read(options, origin, pruning)
        report_losses(plan.losses, options.fail_on_data_loss)
        return TopicRead(options, schema, origin.located(plan.ranges, queues))


def read_schema(settings: ReadSettings) -> pa.Schema:
    """Return the Arrow schema of a read.

    :raises ConfigError: a column does not exist.
    """
    names = settings.get("columns")
    if names is None:
        names = DEFAULT_COLUMNS
    for name in names:
        if name not in COLUMNS:
            raise ConfigError(f"unknown column {name!r}; known columns: {', '.join(COLUMNS)}")
    if not names or len(set(names)) < len(names):
        raise ConfigError("columns names none, or one twice")
    text = settings.get("text", False)
    return pa.schema([(name, pa.string() if text and name == "body" else COLUMNS[name].kind) for name in names])


def read_options(topic: str | Sequence[str] | re.Pattern[str], settings: ReadSettings) -> ReadOptions:
    """Return the options of a read from the parameters of :func:`read`.

    :raises ConfigError: a setting is illegal.
    """
    unknown = sorted(settings.keys() - ReadSettings.__annotations__.keys())
    if unknown:
        raise ConfigError(f"unknown setting {unknown[0]!r}; known: {', '.join(ReadSettings.__annotations__)}")
    tags, sql = settings.get("tags", "*"), settings.get("sql")
    if sql is not None and tags != "*":
        raise ConfigError("tags and sql are both given: choose one; in SQL the tag of a message is TAGS")
    mode = values.mode(settings.get("mode", "FAILFAST"))
    if mode is Mode.DLQ:
        raise ConfigError("mode=DLQ is for Spark: read with mode PERMISSIVE and column _corrupt_reason")
    stores = _stores(settings)
    start, end = place("start", settings.get("start")), place("end", settings.get("end"))
    return ReadOptions(
        namesrv=() if stores else tuple(name_server_addresses(settings.get("namesrv"))),
        selection=_selection(topic),
        stores=stores,
        start=start,
        end=Boundary.LATEST if end is None else end,
        tags=values.tags(tags),
        sql=None if sql is None else values.sql(sql),
        mode=mode,
        fail_on_data_loss=settings.get("fail_on_data_loss", True),
        request_timeout_ms=int(settings.get("timeout", 10.0) * 1000),
        num_retries=settings.get("retries", 7),
        security=Security(tls=client_context(settings.get("tls")), credentials=settings.get("credentials")),
    )


def _stores(settings: ReadSettings) -> tuple[StoreDirectory, ...]:
    store, commit_log = settings.get("store"), settings.get("commit_log")
    if store is None:
        if commit_log is not None:
            raise ConfigError("commit_log is of use with store only")
        return ()
    for name in ("namesrv", "timeout", "retries", "tls", "credentials"):
        if settings.get(name) is not None:
            raise ConfigError(f"{name} is of use without store only: a store is read without a broker")
    named = store if isinstance(store, Mapping) else {default_name(str(store)): store}
    if commit_log is not None and len(named) != 1:
        raise ConfigError("commit_log is of use with one store only")
    log = None if commit_log is None else str(commit_log)
    return checked(StoreDirectory(name, str(root), log) for name, root in named.items())


def place(name: str, given: Place) -> Position | None:
    """Return the position for parameter ``name`` of a read; None if it is not given.

    :raises ConfigError: it has another form.
    """
    if given is None:
        return None
    if isinstance(given, datetime):
        return Times(int(given.timestamp() * 1000), None, or_latest=True)
    if isinstance(given, Mapping):
        return dict(given)
    if given.strip().startswith("-"):
        return Times(values.moment(given), None, or_latest=True)
    if given not in ("earliest", "latest"):
        raise ConfigError(
            f"{name}={given!r}: earliest, latest, a time, a time span as '-10 minutes' or offsets expected"
        )
    return Boundary(given)


def _selection(topic: str | Sequence[str] | re.Pattern[str]) -> Selection:
    if isinstance(topic, re.Pattern):
        return Matching(topic)
    names = (topic,) if isinstance(topic, str) else tuple(topic)
    if not names:
        raise ConfigError("at least one topic is expected")
    return Topics(tuple(dict.fromkeys(map(check_topic, names))))
