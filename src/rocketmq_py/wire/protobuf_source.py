"""The source text of functions that decode and encode one class of Protocol Buffers messages.

As methods of dataclasses are made: for each message, a loop over descriptions of its fields would take several times as
long. All names in the text are those of declared fields.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

_WIRE_TYPES = {int: VARINT, bool: VARINT, float: FIXED32, str: BYTES, bytes: BYTES}


class Field(NamedTuple):
    """A declared field.

    :ivar kind: the type of the field, or of one item of a list; str for maps.
    :ivar has_presence: it is encoded unless it is None.
    """

    number: int
    name: str
    kind: Any
    is_list: bool
    is_map: bool
    has_presence: bool

    @property
    def is_message(self) -> bool:
        """True for a message in the message, and for lists of them."""
        return self.kind not in _WIRE_TYPES

    @property
    def tag(self) -> int:
        """The number before the field, as it is encoded."""
        is_packed = self.is_list and self.kind is int
        wire_type = BYTES if self.is_map or is_packed else _WIRE_TYPES.get(self.kind, BYTES)
        return self.number << 3 | wire_type

    @property
    def tags(self) -> list[int]:
        """The numbers before the field that a decoder knows: those of a list of numbers may be packed or not."""
        return [self.tag, self.number << 3 | VARINT] if self.is_list and self.kind is int else [self.tag]

    @property
    def function(self) -> str:
        """The name of the function for the inner messages of the field."""
        return f"inner{self.number}"


def fields_of(cls: type[Any]) -> list[Field]:
    """Return the fields of a class of messages."""
    hints = get_type_hints(cls)
    fields = []
    for number, name in enumerate(cls.__struct_fields__, 1):
        kind = hints[name]
        has_presence = get_origin(kind) in (Union, types.UnionType)
        if has_presence:
            [kind] = [one for one in get_args(kind) if one is not types.NoneType]
        origin = get_origin(kind)
        item = get_args(kind)[0] if origin in (list, dict) else kind
        fields.append(Field(number, name, item, origin is list, origin is dict, has_presence))
    return fields


# -- decoding

_NEXT_TAG = ["tag = data[pos]", "pos += 1", "if tag > 127:", "    tag, pos = varint(data, pos - 1)"]
_LENGTH = [
    "size = data[pos]", "pos += 1", "if size > 127:", "    size, pos = varint(data, pos - 1)", "stop = pos + size",
    "if stop > end:", "    raise too_long()",
]  # fmt: skip


def decoder_source(fields: list[Field]) -> str:
    """Return the source of ``code(data, pos, end)``, which returns the message between two positions.

    Clients encode fields in the order of their numbers. So each field's code is followed by that of the next one, and a
    usual message is decoded in one pass of the loop, without a search for the code of a field.
    """
    lines = ["def code(data, pos, end):"]
    lines += [f"    v{field.number} = {_empty(field)}" for field in fields]
    lines += ["    if pos < end:", *_indented(2, _NEXT_TAG), "        while True:"]
    following = ["if pos >= end:", "    break", *_NEXT_TAG]
    for field in fields:
        for tag in field.tags:
            lines.append(f"            if tag == {tag}:")
            lines += _indented(4, [*_reading(field, tag), *following])
    lines += _indented(3, ["if tag not in known:", *_indented(1, ["pos = skip(data, pos, tag)", *following])])
    lines += ["    if pos != end:", "        raise ends_within_field(cls)"]
    lines.append(f"    return cls({', '.join(f'v{field.number}' for field in fields)})")
    return "\n".join(lines)


def _indented(levels: int, lines: list[str]) -> list[str]:
    return ["    " * levels + line for line in lines]


def _empty(field: Field) -> str:
    if field.is_list:
        return "[]"
    if field.is_map:
        return "{}"
    return "None" if field.has_presence or field.is_message else repr(field.kind())


def _reading(field: Field, tag: int) -> list[str]:
    """Return the lines that decode a field at ``pos``, and move ``pos`` behind it."""
    name = f"v{field.number}"
    if field.is_map:
        return [*_LENGTH, f"pair = {field.function}(data, pos, stop)", f"{name}[pair.key] = pair.value", "pos = stop"]
    if field.is_list and field.kind is int and tag & 7 == BYTES:
        return [*_LENGTH, f"{name} += packed(data, pos, stop)", "pos = stop"]
    if field.is_list:
        return [*_reading_one(field, "one"), f"{name}.append(one)"]
    return _reading_one(field, name)


def _reading_one(field: Field, name: str) -> list[str]:
    if field.kind is int:
        return [
            f"{name} = data[pos]", "pos += 1", f"if {name} > 127:", f"    {name}, pos = varint(data, pos - 1)",
            f"    {name} = signed({name})",
        ]  # fmt: skip
    if field.kind is bool:
        return ["number, pos = varint(data, pos)", f"{name} = number != 0"]
    if field.kind is float:
        return [f"{name} = unpack_float(data, pos)[0]", "pos += 4"]
    value = {str: "data[pos:stop].decode()", bytes: "data[pos:stop]"}.get(
        field.kind, f"{field.function}(data, pos, stop)"
    )
    return [*_LENGTH, f"{name} = {value}", "pos = stop"]


# -- encoding


def encoder_source(fields: list[Field]) -> str:
    """Return the source of ``code(out, message)``, which appends the fields of a message to a bytearray."""
    lines = ["def code(out, message):"]
    for field in fields:
        lines.append(f"    value = message.{field.name}")
        lines.append("    if value is not None:" if field.has_presence else "    if value:")
        lines += _indented(2, list(_writing(field)))
    lines.append("    return None")
    return "\n".join(lines)


def _writing(field: Field) -> Iterator[str]:
    """Yield the lines that append a field, ``value``."""
    if field.is_map:
        yield "for key, text in value.items():"
        yield from _indented(1, ["raw = bytearray()", f"{field.function}(raw, entry(key, text))", *_put_raw(field)])
    elif field.is_list and field.kind is int:
        yield from ["raw = bytearray()", "for one in value:", "    put_varint(raw, one)", *_put_raw(field)]
    elif field.is_list:
        yield "for one in value:"
        yield from _indented(1, _writing_one(field, "one"))
    else:
        yield from _writing_one(field, "value")


def _writing_one(field: Field, name: str) -> list[str]:
    if field.kind is int:
        return [
            f"out += {_encoded(field.tag)!r}", f"if 0 <= {name} < 128:", f"    out.append({name})", "else:",
            f"    put_varint(out, {name})",
        ]  # fmt: skip
    if field.kind is bool:
        return [f"out += {_encoded(field.tag)!r}", f"out.append(1 if {name} else 0)"]
    if field.kind is float:
        return [f"out += {_encoded(field.tag)!r}", f"out += pack_float({name})"]
    if field.kind is str:
        return [f"raw = {name}.encode('utf-8', 'replace')", *_put_raw(field)]
    if field.kind is bytes:
        return [f"raw = {name}", *_put_raw(field)]
    return ["raw = bytearray()", f"{field.function}(raw, {name})", *_put_raw(field)]


def _put_raw(field: Field) -> list[str]:
    """Return the lines that append a field of the bytes ``raw``."""
    return [
        "size = len(raw)", f"out += {_encoded(field.tag)!r}", "if size < 128:", "    out.append(size)", "else:",
        "    put_varint(out, size)", "out += raw",
    ]  # fmt: skip


def _encoded(tag: int) -> bytes:
    """Return a tag as it is before a field: fields have numbers below 2048."""
    return bytes((tag,)) if tag < 128 else bytes((tag & 0x7F | 0x80, tag >> 7))
