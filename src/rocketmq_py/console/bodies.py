"""Message bodies as text for people: JSON laid out, other text as it is, bytes as a hex dump."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

SHOWN_BYTES = 64 * 1024
"""Bytes of a body that a page shows unless all of it is asked for."""

_MOST_PARSED = 1024 * 1024
"""Longer JSON is shown as it is: laying it out would take the loop for long."""

_HEX_WIDTH = 16
_SURROGATE = re.compile("[\ud800-\udfff]")

AUTO, TEXT, JSON, HEX = "auto", "text", "json", "hex"
DECODERS = (AUTO, JSON, TEXT, HEX)


class Shown(NamedTuple):
    """A body as text.

    :ivar decoder: how it was decoded: ``json``, ``text`` or ``hex``.
    :ivar shown: number of bytes that ``text`` stands for.
    :ivar size: number of bytes of the body; more than ``shown`` if it is cut.
    """

    text: str
    decoder: str
    shown: int
    size: int

    @property
    def is_cut(self) -> bool:
        return self.shown < self.size


def show(body: bytes, decoder: str = AUTO, limit: int | None = SHOWN_BYTES) -> Shown:
    """Return a body as text.

    JSON is laid out only if it is complete, so that what is shown is what was sent.

    :param decoder: one of DECODERS; a body that the decoder cannot read is shown by the next one.
    :param limit: number of bytes to show; None for all.
    """
    part = body[:limit]
    if decoder in (AUTO, JSON) and len(part) == len(body) <= _MOST_PARSED:
        laid_out = json_text(body)
        if laid_out is not None:
            return Shown(laid_out, JSON, len(body), len(body))
    if decoder != HEX:
        text = _as_text(part, is_cut=len(part) < len(body))
        if text is not None:
            return Shown(text[0], TEXT, text[1], len(body))
        if decoder == TEXT:
            return Shown(part.decode("utf-8", "replace"), TEXT, len(part), len(body))
    return Shown(hex_dump(part), HEX, len(part), len(body))


class Literal(str):
    """A number as its sender wrote it."""

    __slots__ = ()


class Pairs(list[tuple[str, object]]):
    """The members of an object in their order; a key may be there twice."""


def json_text(body: bytes, change: Callable[[object], object] = lambda tree: tree) -> str | None:
    """Return a body that is a JSON object or array with a line for each member and item; None if it is none.

    :param change: returns the tree to lay out for that of the body. Its numbers are :class:`Literal`, its objects
        :class:`Pairs`.
    """
    if body[:1] not in (b"{", b"[") and body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        # Decimals stay as they were written: a float would lose digits.
        tree = json.loads(body, parse_float=Literal, parse_int=Literal, object_pairs_hook=Pairs)
        return _laid_out(change(tree), "")
    except (ValueError, RecursionError):
        return None


def _laid_out(value: object, indent: str) -> str:
    deeper = indent + "  "
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, Pairs):
        lines = [f"{deeper}{_quoted(name)}: {_laid_out(one, deeper)}" for name, one in value]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}" if lines else "{}"
    if isinstance(value, list):
        lines = [deeper + _laid_out(one, deeper) for one in value]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]" if lines else "[]"
    return _quoted(value)


def _quoted(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Half of a pair of surrogates is no character: it stays the escape that it was.
    return text if _SURROGATE.search(text) is None else json.dumps(value)


def whole_text(body: bytes) -> str | None:
    """Return a body as text; None if it is not UTF-8 or has control characters."""
    found = _as_text(body, is_cut=False)
    return None if found is None else found[0]


def _as_text(part: bytes, *, is_cut: bool) -> tuple[str, int] | None:
    """Return ``part`` as text and its length in bytes; None if it is not UTF-8 or has control characters."""
    for cut in range(4 if is_cut else 1):  # the cut may be in the middle of a character
        try:
            text = part[: len(part) - cut].decode()
        except UnicodeDecodeError:
            continue
        if any(character < " " and character not in "\t\r\n" for character in text):
            return None
        return text, len(part) - cut
    return None


def hex_dump(data: bytes) -> str:
    """Return lines of offset, 16 bytes in hexadecimal, and their printable ASCII characters."""
    lines = []
    for start in range(0, len(data), _HEX_WIDTH):
        row = data[start : start + _HEX_WIDTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<{3 * _HEX_WIDTH - 1}}  {text}")
    return "\n".join(lines)


def preview(body: bytes, width: int = 80) -> str:
    """Return the start of a body in one line, for tables."""
    text = body[: 4 * width].decode("utf-8", "replace")
    line = _in_one_line(text)[:width]
    return line + ("…" if len(body) > len(line.encode()) else "")


def preview_of_text(text: str, width: int = 80) -> str:
    """Return the start of a text in one line, without the white space between its parts."""
    line = " ".join(_in_one_line(text).split())
    return line[:width] + ("…" if len(line) > width else "")


def _in_one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
