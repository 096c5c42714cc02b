"""The options of the data source: their names, what they mean, their defaults, and what is wrong with a value.

Pure: knows no Spark and no network. Names follow Spark's Kafka source where the idea is the same. Spark gives option
names in lower case; errors use the spelling of the documentation.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, TypeVar

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import check_group, check_topic
from rocketmq_py.spark.offsets import Boundary, Offsets, from_document


class Use(Enum):
    """What the data source is asked to do."""

    READ_ANY = "a read"
    READ = "a batch read"
    READ_STREAM = "a streaming read"
    WRITE = "a write"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of ``spark.read`` and ``spark.readStream``.

    :ivar namesrv: name servers, ``host:port``, separated by ``;`` or ``,``. Required.
    :ivar subscribe: topics to read, separated by commas. Required.
    :ivar starting_offsets: ``earliest``, ``latest`` (not in a batch read) or JSON
        ``{topic: {broker: {queue: offset}}}`` naming every queue, where -2 is earliest and -1 latest. Default: earliest
        for a batch read, latest for a stream. A stream looks at it once; a restart goes on from its checkpoint.
    :ivar ending_offsets: ``latest`` (default) or JSON as above; batch read only.
    :ivar fail_on_data_loss: fail when messages asked for are no longer there (default true); otherwise warn and skip.
    :ivar max_offsets_per_trigger: at most so many messages in one micro-batch, shared out by the lag of the queues.
        Default: no limit. PySpark 4.2 or later.
    :ivar include_properties: add the column ``properties`` (default false).
    :ivar offset_lookup_interval_ms: ask the brokers for new ends at most once in so many milliseconds (default 100);
        Spark asks an idle stream's source every 12 ms.
    :ivar pulls_in_flight: pulls under way at once for one queue (default 32).
    :ivar request_timeout_ms: how long to wait for an answer (default 10000).
    :ivar num_retries: attempts after the first one, with a growing pause, before a read fails (default 7).
    """

    namesrv: tuple[str, ...]
    subscribe: tuple[str, ...]
    starting_offsets: Boundary | Offsets | None = None
    ending_offsets: Boundary | Offsets = Boundary.LATEST
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    include_properties: bool = False
    offset_lookup_interval_ms: int = 100
    pulls_in_flight: int = 32
    request_timeout_ms: int = 10_000
    num_retries: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of ``df.write`` and ``df.writeStream``.

    :ivar namesrv: as for reading.
    :ivar topic: the topic of every row; without it each row needs a column ``topic``.
    :ivar producer_group: the group the messages are sent under (default ``spark_sink``).
    :ivar max_batch_bytes: rows of one queue are sent together up to so many bytes (default 262144).
    :ivar sends_in_flight: sends under way at once from one task (default 8).
    :ivar request_timeout_ms: how long to wait for an answer (default 10000).
    :ivar num_retries: attempts after the first one, with a growing pause and on another broker where the row is not
        bound to a queue, before the write fails (default 7).
    """

    namesrv: tuple[str, ...]
    topic: str | None = None
    producer_group: str = "spark_sink"
    max_batch_bytes: int = 256 * 1024
    sends_in_flight: int = 8
    request_timeout_ms: int = 10_000
    num_retries: int = 7


# -- values


def _boolean(text: str) -> bool:
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ConfigError("true or false is expected")
    return value


def _positive(text: str) -> int:
    value = _natural(text)
    if value == 0:
        raise ConfigError("a whole number above 0 is expected")
    return value


def _natural(text: str) -> int:
    if not re.fullmatch(r"[0-9]+", text.strip()):
        raise ConfigError("a whole number, 0 or above, is expected")
    return int(text)


def _addresses(text: str) -> tuple[str, ...]:
    addresses = tuple(part.strip() for part in re.split("[;,]", text) if part.strip())
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"{address!r} is no host:port")
    if not addresses:
        raise ConfigError("host:port of at least one name server is expected")
    return addresses


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(check_topic(part.strip()) for part in text.split(",") if part.strip()))
    if not topics:
        raise ConfigError("at least one topic is expected")
    return topics


def _offsets(text: str) -> Boundary | Offsets:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Boundary(word)
    try:
        document = json.loads(text)
    except ValueError as e:
        raise ConfigError(f"earliest, latest or JSON {{topic: {{broker: {{queue: offset}}}}}} is expected: {e}") from e
    return from_document(document)


def _ending(text: str) -> Boundary | Offsets:
    position = _offsets(text)
    if position is Boundary.EARLIEST or (isinstance(position, dict) and Boundary.EARLIEST.number in position.values()):
        raise ConfigError("earliest (-2) is no end to read up to")
    return position


_SHARED: dict[str, Callable[[str], Any]] = {
    "namesrv": _addresses,
    "requestTimeoutMs": _positive,
    "numRetries": _natural,
}
_READ: dict[str, Callable[[str], Any]] = _SHARED | {
    "subscribe": _topics,
    "startingOffsets": _offsets,
    "endingOffsets": _ending,
    "failOnDataLoss": _boolean,
    "maxOffsetsPerTrigger": _positive,
    "includeProperties": _boolean,
    "offsetLookupIntervalMs": _natural,
    "pullsInFlight": _positive,
}
_WRITE: dict[str, Callable[[str], Any]] = _SHARED | {
    "topic": check_topic,
    "producerGroup": check_group,
    "maxBatchBytes": _positive,
    "sendsInFlight": _positive,
}
_FORBIDDEN = {
    Use.READ: ("maxOffsetsPerTrigger", "offsetLookupIntervalMs"),
    Use.READ_STREAM: ("endingOffsets",),
}
_ENGINE = frozenset(
    {"checkpointlocation", "queryname", "asyncprogresstrackingenabled", "asyncprogresstrackingcheckpointintervalms",
     "_asyncprogresstrackingoverridesinkssupportcheck", "pathoptionbeforewrite"}
)  # fmt: skip
"""What Spark itself reads from the options of a query or a table; not ours to judge."""


# -- the whole


def check_options(options: Mapping[str, str]) -> None:
    """Refuse unknown names and impossible values before it is known what the options are for.

    :raises ConfigError: naming the option, its value, and the nearest name there is.
    """
    known = {name.lower(): (name, parse) for name, parse in (_READ | _WRITE).items()}
    for key, text in options.items():
        if key.lower() in _ENGINE:
            continue
        if key.lower() not in known:
            raise _unknown(key, "the rocketmq data source", [name for name, _ in known.values()])
        name, parse = known[key.lower()]
        _parse(name, parse, text)


def read_options(options: Mapping[str, str], use: Use) -> ReadOptions:
    """The options of a read.

    :raises ConfigError: an option is unknown, wrong, missing, or not for this use.
    """
    given = _collect(options, _READ, use)
    for name in _FORBIDDEN.get(use, ()):
        if _snake(name) in given:
            raise ConfigError(f"option {name} is not for {use.value}")
    if use is Use.READ and given.get("starting_offsets") is Boundary.LATEST:
        raise ConfigError("option startingOffsets=latest is not for a batch read: there would be nothing to read")
    return _build(ReadOptions, given, use)


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """The options of a write.

    :raises ConfigError: an option is unknown, wrong or missing.
    """
    return _build(WriteOptions, _collect(options, _WRITE, Use.WRITE), Use.WRITE)


def _collect(options: Mapping[str, str], known: Mapping[str, Callable[[str], Any]], use: Use) -> dict[str, Any]:
    by_lower = {name.lower(): name for name in known}
    given: dict[str, Any] = {}
    for key, text in options.items():
        if key.lower() in _ENGINE:
            continue
        name = by_lower.get(key.lower())
        if name is None:
            raise _unknown(key, use.value, list(known))
        given[_snake(name)] = _parse(name, known[name], text)
    return given


def _parse(name: str, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ConfigError as e:
        raise ConfigError(f"option {name}={text!r}: {e}") from e


_Options = TypeVar("_Options", ReadOptions, WriteOptions)


def _build(kind: type[_Options], given: dict[str, Any], use: Use) -> _Options:
    for required in ("namesrv", "subscribe"):
        if required in {field.name for field in fields(kind)} and required not in given:
            raise ConfigError(f"option {required} is required for {use.value} with format rocketmq")
    return kind(**given)


def _unknown(key: str, where: str, names: list[str]) -> ConfigError:
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(_NEAR.get(key.lower(), key.lower()), list(by_lower), n=1, cutoff=0.5)
    hint = f"did you mean {by_lower[near[0]]}?" if near else f"known options: {', '.join(sorted(names))}"
    return ConfigError(f"unknown option {key!r} for {where}; {hint}")


_NEAR = {
    "path": "subscribe",
    "topics": "subscribe",
    "nameserver": "namesrv",
    "nameserveraddress": "namesrv",
    "kafka.bootstrap.servers": "namesrv",
    "bootstrap.servers": "namesrv",
    "includeheaders": "includeproperties",
}
"""Names people bring from elsewhere, too far from ours for spelling alone."""


def _snake(name: str) -> str:
    return re.sub("([A-Z])", lambda m: "_" + m[1].lower(), name)
