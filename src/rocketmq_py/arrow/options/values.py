"""Parsers of option values: each turns an option's text into a value, or raises ConfigError. No IO."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.arrow.options.offsets import Boundary, Offsets, from_document, moments_of_document, queues_of_document
from rocketmq_py.arrow.options.selection import Assigned, Matching, Topics
from rocketmq_py.errors import BadHeader, ConfigError, shortened
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.names import check_topic

Parse = Callable[[str], Any]
"""A function that returns the value of an option's text, or raises ConfigError saying what is expected."""


def boolean(text: str) -> bool:
    """Parse ``true`` or ``false``, in any case."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ConfigError("true or false is expected")
    return value


def positive(text: str) -> int:
    """Parse a whole number above 0."""
    value = natural(text)
    if value == 0:
        raise ConfigError("a whole number above 0 is expected")
    return value


def natural(text: str) -> int:
    """Parse a whole number, 0 or above."""
    if not re.fullmatch(r"[0-9]+", text.strip()):
        raise ConfigError("a whole number, 0 or above, is expected")
    return int(text)


_SECONDS_OF_OUR_TIME = range(10**9, 10**11)
"""Numbers refused as milliseconds since 1970, where they fall in 1970 to 1973: as seconds they mean 2001 to 5138."""


def milliseconds(text: str) -> int:
    """Parse a time in milliseconds since 1970; refuse numbers that are evidently seconds."""
    if not re.fullmatch(r"[0-9]+", text.strip()):
        raise ConfigError("milliseconds since 1970 are expected")
    if int(text) in _SECONDS_OF_OUR_TIME:
        raise ConfigError("these are seconds, milliseconds since 1970 are expected")
    return int(text)


_SPAN_UNITS = {
    **dict.fromkeys(("s", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


def moment(text: str) -> int:
    """Parse a time: milliseconds since 1970, or a time span before now such as ``-10 minutes``.

    Returns the milliseconds; for a time span, the negative number of milliseconds, as :class:`Times` has it.
    """
    if not text.strip().startswith("-"):
        return milliseconds(text)
    found = re.fullmatch(r"-\s*([0-9]+)\s*([a-z]+)", text.strip().lower())
    unit = _SPAN_UNITS.get(found[2]) if found else None
    if found is None or unit is None or not int(found[1]):
        raise ConfigError("milliseconds since 1970 or a time span before now are expected, as -30 seconds, -10 minutes,"
                          " -2 hours or -1 day")  # fmt: skip
    return -int(found[1]) * unit


def words(text: str) -> str:
    """Return the text unchanged; refuse text that is empty or blank."""
    if not text.strip():
        raise ConfigError("it is empty")
    return text


def addresses(text: str) -> tuple[str, ...]:
    """Parse addresses ``host:port`` of name servers, separated by ``;`` or ``,``."""
    found = tuple(part.strip() for part in re.split("[;,]", text) if part.strip())
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"{address!r} is no host:port")
    if not found:
        raise ConfigError("host:port of at least one name server is expected")
    return found


def topics(text: str) -> Topics:
    """Parse names of topics, separated by commas; duplicates are dropped."""
    found = tuple(dict.fromkeys(check_topic(part.strip()) for part in text.split(",") if part.strip()))
    if not found:
        raise ConfigError("at least one topic is expected")
    return Topics(found)


def pattern(text: str) -> Matching:
    """Compile a regular expression that full topic names must match."""
    try:
        return Matching(re.compile(words(text)))
    except re.error as e:
        raise ConfigError(f"it is no regular expression: {e}") from e


def assignment(text: str) -> Assigned:
    """Parse the queues to read, as JSON ``{topic: {broker: [queue, ...]}}``."""
    return Assigned(queues_of_document(_json(text, "JSON {topic: {broker: [queue, ...]}}")))


def _json(text: str, expected: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as e:
        raise ConfigError(f"{expected} is expected: {e}") from e


GROUP = "group"
"""The value of ``startingOffsets`` that means: start at the committed offsets of the consumer group ``groupId``."""


def offsets(text: str) -> Boundary | Offsets:
    """Parse ``earliest`` or ``latest``, for all queues, or JSON ``{topic: {broker: {queue: offset}}}``."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Boundary(word)
    return from_document(_json(text, "earliest, latest or JSON {topic: {broker: {queue: offset}}}"))


def starting(text: str) -> Boundary | Offsets | str:
    """Parse ``startingOffsets``: ``group``, returned as :data:`GROUP`, or what :func:`offsets` accepts."""
    if text.strip().lower() == GROUP:
        return GROUP
    try:
        return offsets(text)
    except ConfigError as e:
        raise ConfigError(str(e).replace("earliest, latest or JSON", "earliest, latest, group or JSON")) from e


def ending(text: str) -> Boundary | Offsets:
    """Parse ``endingOffsets``: as :func:`offsets`, but earliest (-2) is refused."""
    position = offsets(text)
    if position is Boundary.EARLIEST or (isinstance(position, dict) and Boundary.EARLIEST.number in position.values()):
        raise ConfigError("earliest (-2) is no end to read up to")
    return position


def times(text: str) -> dict[MessageQueue, int]:
    """Parse a time for each queue, as JSON ``{topic: {broker: {queue: time}}}``, with times as of :func:`moment`."""
    document = _json(text, "JSON {topic: {broker: {queue: milliseconds since 1970}}}")
    return moments_of_document(document, moment)


def or_latest(text: str) -> bool:
    """Parse ``startingOffsetsByTimestampStrategy``: True for ``latest``, False for ``error``."""
    chosen = {"error": False, "latest": True}.get(text.strip().lower())
    if chosen is None:
        raise ConfigError("error or latest is expected")
    return chosen


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """Parse a time span with a unit, such as ``30s`` or ``15m``; return seconds."""
    found = re.fullmatch(r"\s*([0-9]+)\s*(ms|s|m|min|h|d)\s*", text.lower())
    if not found:
        raise ConfigError("a time span is expected, as 500ms, 30s, 15m, 2h or 1d")
    return int(found[1]) * _UNITS[found[2]]


_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def byte_size(text: str) -> int:
    """Parse a number of bytes above 0, alone or with a unit as in ``64m``; units are powers of 1024, as in Spark."""
    found = re.fullmatch(r"\s*([0-9]+)\s*([kmgt]?)b?\s*", text.lower())
    if not found or not int(found[1]):
        raise ConfigError("a number of bytes above 0 is expected, as 1048576, 512k, 64m or 1g")
    return int(found[1]) * _SIZES[found[2]]


def tags(text: str) -> tuple[str, ...]:
    """Parse a tag expression ``a || b`` into tags; empty for ``*``, which matches all messages."""
    try:
        return tuple(dict.fromkeys(SubscriptionData.parse("", words(text), 0).tags_set))
    except BadHeader as e:
        raise ConfigError(str(e)) from e


def sql(text: str) -> str:
    """Check that brokers can parse an SQL92 filter expression; return it unchanged."""
    from rocketmq_py.core.sql92 import compile_sql  # every worker imports this module, few need the language

    unread = compile_sql(words(text)).unread.strip()
    if unread:
        raise ConfigError(f"brokers do not read its end, {shortened(unread)!r}")
    return text


def mode(text: str) -> Mode:
    """Parse option ``mode``, how to treat bad records, in any case."""
    try:
        return Mode(text.strip().lower())
    except ValueError:
        raise ConfigError("PERMISSIVE, FAILFAST or DLQ is expected") from None


def decoder_choice(text: str) -> DecoderChoice:
    """Parse option ``decoder``, in any case."""
    try:
        return DecoderChoice(text.strip().lower())
    except ValueError:
        raise ConfigError("auto, numpy or compiled is expected") from None


def columns(text: str) -> tuple[str, ...]:
    """Parse names of columns, separated by commas; refuse duplicates. Whether the columns exist is not checked."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ConfigError("at least one column is expected")
    if len(set(found)) < len(found):
        raise ConfigError("a column is named twice")
    return found


def body_type(text: str) -> str:
    """Parse option ``bodyType``; return ``binary`` or ``string``."""
    if text.strip().lower() not in ("binary", "string"):
        raise ConfigError("binary or string is expected")
    return text.strip().lower()
