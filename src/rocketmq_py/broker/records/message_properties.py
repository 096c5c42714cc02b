"""Properties that the broker adds to a message before it stores it.

It adds region, trace switch and cluster, and a unique key if there is none; it removes a POP receipt handle.
Common properties, which have none of a few special names, are not parsed: the broker's are appended to their text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from rocketmq_py.wire.java_hash import tags_code

_ENTRY_END = "\x02"
_UNIQ_KEY = "UNIQ_KEY\x01"
_KEYS = "KEYS\x01"
_CACHED = 4096

_HANDLED = ("DELAY\x01", "TIMER_", "TRAN_MSG\x01", "MSG_REGION\x01", "TRACE_ON\x01", "CLUSTER\x01", "POP_CK\x01",
            "INNER_NUM\x01", "_SYS_MSG_PRIORITY_\x01", _UNIQ_KEY, _KEYS, "\x01\x02")  # fmt: skip
"""Texts in properties that must be parsed. A match inside another name or value is harmless, but costs time."""
_BORN = "BORN_TIMESTAMP\x01"
_IN_TRANSACTION = "TRAN_MSG\x01true\x02"
_HANDLED_OF_HALVES = (*_HANDLED, "REAL_TOPIC\x01", "REAL_QID\x01", "__transactionId__\x01", "CHECK_IMMUNITY_TIME")
"""Texts in properties of half messages that must be parsed."""


class WrittenProperties(msgspec.Struct, gc=False):
    """Properties as stored, and the values used for filtering and the index."""

    text: str
    tags_code: int
    keys: str | None
    uniq_key: str
    group: str | None = None
    """The producer group of a half message."""


class _Others(NamedTuple):
    """Result of the analysis of a message's properties except unique key and keys.

    ``are_common`` is True if they need not be parsed, see :class:`PropertyWriter`.
    """

    are_common: bool
    tags_code: int = 0
    group: str | None = None
    """The producer group of a half message whose properties are common otherwise; None for other messages."""


class PropertyWriter:
    """Adds the broker's properties to those of messages.

    Most messages have common properties: none that the broker replaces, none with a special meaning such as a delay, a
    transaction or a POP receipt handle. These are not parsed: the broker's properties are appended to their text.
    Unique key and keys differ in every message; the other properties often do not, so the result of their analysis is
    cached.

    :param region: the broker's region.
    :param trace_on: True if clients should trace their messages.
    :param cluster: the broker's cluster.
    :param new_key: returns a new unique key.
    """

    def __init__(self, region: str, trace_on: bool, cluster: str, new_key: Callable[[], str]) -> None:
        self._added = {"MSG_REGION": region, "TRACE_ON": "true" if trace_on else "false", "CLUSTER": cluster}
        self.suffix = encode(self._added)
        """The broker's properties, encoded; appended to the properties of every message."""
        self._new_key = new_key
        self._seen: dict[str, _Others] = {}

    def write_common(self, properties: str, *, is_half: bool = False) -> WrittenProperties | None:
        """Append the broker's properties to common ones (see :class:`PropertyWriter`) without parsing.

        Returns None if the properties are not common, or have no unique key: the caller then uses :meth:`parse`.

        :param is_half: also accept a half message whose properties are common apart from TRAN_MSG.
        """
        before, _, rest = properties.partition(_UNIQ_KEY)
        uniq_key, end, after = rest.partition(_ENTRY_END)
        if not end or not uniq_key or (before and before[-1] != _ENTRY_END):
            return None
        keys: str | None = None
        others = before + after
        head, found, rest = others.partition(_KEYS)
        if found:
            keys, end, tail = rest.partition(_ENTRY_END)
            if not end or not keys or (head and head[-1] != _ENTRY_END):
                return None
            others = head + tail
        seen = self._seen.get(others) or self._analyse_cached(others)
        if not seen.are_common:
            if is_half and seen.group is not None:
                return WrittenProperties(properties + self.suffix, seen.tags_code, keys, uniq_key, seen.group)
            return None
        return WrittenProperties(properties + self.suffix, seen.tags_code, keys, uniq_key)

    def common_tags_code(self, others: str) -> int | None:
        """Return the tags code of common properties (see :class:`PropertyWriter`), 0 without tags; None if not common.

        :param others: the properties except unique key and keys.
        """
        seen = self._seen.get(others) or self._analyse_cached(others)
        return seen.tags_code if seen.are_common else None

    def half_fields(self, others: str) -> tuple[int, str] | None:
        """Return tags code and producer group of a half message; None unless its properties are common otherwise.

        :param others: the properties except unique key and keys.
        """
        seen = self._seen.get(others) or self._analyse_cached(others)
        return (seen.tags_code, seen.group) if seen.group is not None else None

    def _analyse_cached(self, others: str) -> _Others:
        if _BORN in others:
            others = _without_birth(others)
            known = self._seen.get(others)
            if known is not None:
                return known
        if len(self._seen) >= _CACHED:
            self._seen.clear()
        seen = self._seen[others] = _analyse(others)
        return seen

    def parse(self, properties: str) -> dict[str, str]:
        """Decode properties, remove the POP receipt handle, and add the broker's and a unique key if it is missing."""
        parsed = decode(properties)
        parsed.pop("POP_CK", None)
        parsed |= self._added
        if "UNIQ_KEY" not in parsed:
            parsed["UNIQ_KEY"] = self._new_key()
        return parsed


def _without_birth(others: str) -> str:
    """Return properties without the time of birth, which differs in each message of gRPC and changes nothing here."""
    head, _, rest = others.partition(_BORN)
    born, end, tail = rest.partition(_ENTRY_END)
    is_entry = end and born.isdecimal() and (not head or head[-1] == _ENTRY_END)
    return head + tail if is_entry else others


def _analyse(others: str) -> _Others:
    if not others:
        return _Others(True)
    if others[-1] != _ENTRY_END or others[0] == _ENTRY_END:
        return _Others(False)
    # Spelled out: where properties differ in every message, this runs for every message.
    a, b, c, d, e, f, g, h, i, j, k, l = _HANDLED  # noqa: E741
    p = others
    if (
        a in p
        or b in p
        or c in p
        or d in p
        or e in p
        or f in p
        or g in p
        or h in p
        or i in p
        or j in p
        or k in p
        or l in p
    ):
        return _analyse_half(others) if _IN_TRANSACTION in others else _Others(False)
    return _Others(True, tags_code(decode(others).get("TAGS")) if "TAGS\x01" in others else 0)


def _analyse_half(others: str) -> _Others:
    rest = others.replace(_IN_TRANSACTION, "", 1)
    properties = decode(others)
    if any(text in rest for text in _HANDLED_OF_HALVES) or properties.get("TRAN_MSG") != "true":
        return _Others(False)
    return _Others(False, tags_code(properties.get("TAGS")), properties.get("PGROUP"))


def decode(properties: str) -> dict[str, str]:
    """Decode properties to a dict. Entries without name or value are dropped, as in Java."""
    entries = (entry.partition("\x01") for entry in properties.split(_ENTRY_END))
    return {name: value for name, _, value in entries if name and value}


def encode(properties: Mapping[str, str]) -> str:
    """Encode properties in the form in which they are stored."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])


def written(properties: Mapping[str, str]) -> WrittenProperties:
    """Encode parsed properties for the store, together with tags code, keys and unique key."""
    code = tags_code(properties.get("TAGS"))
    return WrittenProperties(encode(properties), code, properties.get("KEYS"), properties.get("UNIQ_KEY", ""))
