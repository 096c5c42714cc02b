"""What a broker adds to a message's properties before it stores them.

Region, trace switch and cluster always, a unique key when there is none; a POP receipt is taken out. The common case
never leaves the text the properties came in: it looks for the few names that matter and appends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

_NAME_END = "\x01"
_ENTRY_END = "\x02"

_HANDLED = ("DELAY\x01", "TIMER_", "TRAN_MSG\x01", "MSG_REGION\x01", "TRACE_ON\x01", "CLUSTER\x01", "POP_CK\x01",
            "INNER_NUM\x01", "\x01\x02")  # fmt: skip
"""Texts that make a message uncommon; they may occur inside another name or value, which only costs time."""


class Stamped(NamedTuple):
    """Properties as stored, and the values that decide about filtering and the index."""

    text: str
    tags: str | None
    keys: str | None
    uniq_key: str


class Stamper:
    """Stamps properties.

    :param region: the broker's region.
    :param trace_on: whether clients are to trace their messages.
    :param cluster: the broker's cluster.
    :param new_key: makes a unique key.
    """

    def __init__(self, region: str, trace_on: bool, cluster: str, new_key: Callable[[], str]) -> None:
        self._added = {"MSG_REGION": region, "TRACE_ON": "true" if trace_on else "false", "CLUSTER": cluster}
        self._suffix = encode(self._added)
        self._new_key = new_key

    def stamp(self, properties: str) -> Stamped | None:
        """The stamped properties of a common message; None when :meth:`parse` must have a look."""
        if properties[-1:] != _ENTRY_END or properties[0] == _ENTRY_END:
            return None
        # Spelled out: a loop over the names costs twice as much, and this runs for every message.
        p = properties
        a, b, c, d, e, f, g, h, i = _HANDLED
        if a in p or b in p or c in p or d in p or e in p or f in p or g in p or h in p or i in p:
            return None
        tags, keys, uniq_key = find(p, "TAGS\x01"), find(p, "KEYS\x01"), find(p, "UNIQ_KEY\x01")
        if uniq_key is None:
            uniq_key = self._new_key()
            return Stamped(f"{p}UNIQ_KEY\x01{uniq_key}\x02{self._suffix}", tags, keys, uniq_key)
        return Stamped(p + self._suffix, tags, keys, uniq_key)

    def parse(self, properties: str) -> dict[str, str]:
        """The stamped properties of any message, one by one."""
        parsed = decode(properties)
        parsed.pop("POP_CK", None)
        parsed |= self._added
        if "UNIQ_KEY" not in parsed:
            parsed["UNIQ_KEY"] = self._new_key()
        return parsed


def find(properties: str, name: str) -> str | None:
    """The value of a property in its stored form; ``name`` ends with the separator."""
    at = properties.find(name)
    if at > 0 and properties[at - 1] != _ENTRY_END:  # the end of another name
        at = properties.find(_ENTRY_END + name) + 1 or -1
    if at < 0:
        return None
    at += len(name)
    end = properties.find(_ENTRY_END, at)
    return properties[at:end] if end >= 0 else properties[at:]


def decode(properties: str) -> dict[str, str]:
    """Properties one by one; entries without name or value are dropped, as Java drops them."""
    entries = (entry.partition(_NAME_END) for entry in properties.split(_ENTRY_END))
    return {name: value for name, _, value in entries if name and value}


def encode(properties: Mapping[str, str]) -> str:
    """The stored form of properties."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])


def stamped(properties: Mapping[str, str]) -> Stamped:
    """Parsed properties in the form the store takes."""
    return Stamped(encode(properties), properties.get("TAGS"), properties.get("KEYS"), properties.get("UNIQ_KEY", ""))
