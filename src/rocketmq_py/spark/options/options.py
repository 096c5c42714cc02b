"""Parse and check the options of the data source. No IO.

Options that Spark's Kafka source has, too, have the same name here. Spark passes option names in lower case; errors use
the spelling of the documentation. Modules ``read``, ``write`` and ``shared`` of this folder define meanings and
defaults.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.options.offsets import Boundary
from rocketmq_py.arrow.options.read import BATCH_ONLY, READ, STREAM_ONLY, ReadOptions, resolve_read
from rocketmq_py.arrow.options.shared import SECRETS, check_dlq_topic, take_security
from rocketmq_py.arrow.options.values import Parse
from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.options.write import WRITE, Guarantee, WriteOptions, take_checkpoint

__all__ = ["ReadOptions", "Use", "WriteOptions", "check_options", "read_options", "write_options"]


class Use(Enum):
    """What the data source is used for; the value is the phrase for error messages."""

    READ_ANY = "a read"
    READ = "a batch read"
    READ_STREAM = "a streaming read"
    WRITE = "a write"
    WRITE_STREAM = "a streaming write"


_FORBIDDEN = {Use.READ: STREAM_ONLY, Use.READ_STREAM: BATCH_ONLY}
_ENGINE = frozenset(
    {"checkpointlocation", "queryname", "asyncprogresstrackingenabled", "asyncprogresstrackingcheckpointintervalms",
     "_asyncprogresstrackingoverridesinkssupportcheck", "pathoptionbeforewrite"}
)  # fmt: skip
"""Names, in lower case, of options that Spark itself reads; this package does not check them."""
_OF_TABLES = frozenset({"comment", "collation", "external", "is_managed_location", "location", "owner", "provider"})
"""Names of properties of a table that Spark passes as options when the table is created."""
_NO_OPTIONS = (
    "has no options. Spark does not pass the OPTIONS of a table to a data source in Python: add them to the statement,"
    " as in SELECT ... FROM orders WITH (`namesrv` = 'host:9876', `subscribe` = 'orders'), or use a temporary view"
)


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options with unknown names or invalid values, before Spark says whether they are for a read or a write.

    :raises ConfigError: names the option and its value; for an unknown name, also the most similar option.
    """
    known = {name.lower(): (name, parse) for name, parse in (READ | WRITE).items()}
    for key, text in options.items():
        if _is_of_spark(key):
            continue
        if key.lower() not in known:
            raise _unknown(key, "the rocketmq data source", [name for name, _ in known.values()])
        name, parse = known[key.lower()]
        _parse(name, parse, text)


def read_options(options: Mapping[str, str], use: Use) -> ReadOptions:
    """Return the parsed options of a read.

    :raises ConfigError: an option is unknown, invalid, missing, or not allowed for ``use``.
    """
    given = _collect(options, READ, use)
    for name in _FORBIDDEN.get(use, ()):
        if _snake(name) in given:
            raise ConfigError(f"option {name} is not for {use.value}")
    resolve_read(given, use.value)
    if use is Use.READ_STREAM:
        given.setdefault("mode", Mode.PERMISSIVE)
    built = _build(ReadOptions, given, use)
    if use is Use.READ and built.start is Boundary.LATEST:
        raise ConfigError("option startingOffsets=latest is not for a batch read: there would be nothing to read")
    return built


def write_options(options: Mapping[str, str], use: Use = Use.WRITE) -> WriteOptions:
    """Return the parsed options of a write.

    :raises ConfigError: an option is unknown, invalid, missing, or not allowed for ``use``.
    """
    given = _collect(options, WRITE, use)
    if given.get("delivery_guarantee") is Guarantee.EXACTLY_ONCE:
        if use is Use.WRITE:
            raise ConfigError(
                "option deliveryGuarantee=exactly-once is for streams, whose checkpoint knows what was written: use"
                " writeStream with trigger(availableNow=True)"
            )
        take_checkpoint(given, options)
    check_dlq_topic(given)
    if use is Use.WRITE_STREAM:
        given.setdefault("mode", Mode.PERMISSIVE)
    return _build(WriteOptions, given, use)


def _collect(options: Mapping[str, str], known: Mapping[str, Parse], use: Use) -> dict[str, Any]:
    by_lower = {name.lower(): name for name in known}
    given: dict[str, Any] = {}
    for key, text in options.items():
        if _is_of_spark(key):
            continue
        name = by_lower.get(key.lower())
        if name is None:
            raise _unknown(key, use.value, list(known))
        given[_snake(name)] = _parse(name, known[name], text)
    if not given:
        raise ConfigError(f"{use.value} with format rocketmq {_NO_OPTIONS}")
    take_security(given)
    return given


def _is_of_spark(key: str) -> bool:
    """Return True for the name of an option that is not for this package."""
    name = key.lower()
    return name in _ENGINE or name in _OF_TABLES or name.startswith("option.")


def _parse(name: str, parse: Parse, text: str) -> Any:
    try:
        return parse(text)
    except ConfigError as e:
        shown = "" if name in SECRETS else f"={text!r}"
        raise ConfigError(f"option {name}{shown}: {e}") from e


_Options = TypeVar("_Options", ReadOptions, WriteOptions)


def _build(kind: type[_Options], given: dict[str, Any], use: Use) -> _Options:
    if "namesrv" not in given:
        other = " (or storePath, to read files)" if use in (Use.READ, Use.READ_ANY) else ""
        raise ConfigError(f"option namesrv is required for {use.value} with format rocketmq{other}")
    return kind(**given)


def _unknown(key: str, where: str, names: list[str]) -> ConfigError:
    by_lower = {name.lower(): name for name in names}
    near = [name for name in _NEAR.get(key.lower(), "").split() if name in by_lower]
    near = near or difflib.get_close_matches(key.lower(), list(by_lower), n=1, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(by_lower[name] for name in near)}?"
        if near
        else f"known options: {', '.join(sorted(names))}"
    )
    return ConfigError(f"unknown option {key!r} for {where}; {hint}")


_NEAR = {
    "path": "subscribe topic",
    "store": "storepath",
    "storepathrootdir": "storepath",
    "topic": "subscribe",
    "topics": "subscribe topic",
    "subscribe": "topic",
    "nameserver": "namesrv",
    "nameserveraddress": "namesrv",
    "kafka.bootstrap.servers": "namesrv",
    "bootstrap.servers": "namesrv",
    "includeheaders": "includeproperties",
    "kafka.group.id": "groupid",
    "group.id": "groupid",
    "consumergroup": "groupid",
    "subexpression": "tags",
    "tag": "tags",
    "filter": "sql",
    "topicpattern": "subscribepattern",
    "kafka.security.protocol": "tls",
    "ssl": "tls",
    "pullbatchsize": "pullsinflight",
    "pulltimeoutms": "requesttimeoutms",
}
"""Unknown names, such as Kafka's, to the options that the error suggests, separated by spaces (read, write)."""


def _snake(name: str) -> str:
    return re.sub("([A-Z])", lambda m: "_" + m[1].lower(), name)
