"""The texts of options and what they mean: numbers, addresses, names, offsets, and what is wrong with them.

Pure: knows no Spark, no network and not which option takes which value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.names import check_topic
from rocketmq_py.spark.offsets import Boundary, Offsets, from_document

Parse = Callable[[str], Any]
"""Makes the value of an option of its text; ConfigError says what is expected instead."""


def boolean(text: str) -> bool:
    """``true`` or ``false``."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ConfigError("true or false is expected")
    return value


def positive(text: str) -> int:
    """A whole number above 0."""
    value = natural(text)
    if value == 0:
        raise ConfigError("a whole number above 0 is expected")
    return value


def natural(text: str) -> int:
    """A whole number, 0 or above."""
    if not re.fullmatch(r"[0-9]+", text.strip()):
        raise ConfigError("a whole number, 0 or above, is expected")
    return int(text)


def words(text: str) -> str:
    """Any text that says something."""
    if not text.strip():
        raise ConfigError("it is empty")
    return text


def addresses(text: str) -> tuple[str, ...]:
    """Addresses of name servers."""
    found = tuple(part.strip() for part in re.split("[;,]", text) if part.strip())
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"{address!r} is no host:port")
    if not found:
        raise ConfigError("host:port of at least one name server is expected")
    return found


def topics(text: str) -> tuple[str, ...]:
    """Topics, each once."""
    found = tuple(dict.fromkeys(check_topic(part.strip()) for part in text.split(",") if part.strip()))
    if not found:
        raise ConfigError("at least one topic is expected")
    return found


def offsets(text: str) -> Boundary | Offsets:
    """Offsets of every queue, or the end of a queue that is meant for all."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Boundary(word)
    try:
        document = json.loads(text)
    except ValueError as e:
        raise ConfigError(f"earliest, latest or JSON {{topic: {{broker: {{queue: offset}}}}}} is expected: {e}") from e
    return from_document(document)


def ending(text: str) -> Boundary | Offsets:
    """As :func:`offsets`, for an end to read up to."""
    position = offsets(text)
    if position is Boundary.EARLIEST or (isinstance(position, dict) and Boundary.EARLIEST.number in position.values()):
        raise ConfigError("earliest (-2) is no end to read up to")
    return position
