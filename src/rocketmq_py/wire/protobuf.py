"""Protocol Buffers (proto3): messages as declared classes, encoded and decoded without a schema file.

A message is a class with annotated fields::

    class Address(ProtoMessage):
        host: str = ""
        port: int = 0

Fields are numbered from 1 in the order of declaration. ``int`` stands for int32, int64 and enums, ``float`` for
``float`` (32 bits). A field whose type includes None has presence (``optional``, messages, members of a ``oneof``): it
is encoded unless it is None. Others are encoded unless they have their default. Repeated fields are lists of strings,
integers or messages; maps are ``dict[str, str]``.

Unknown fields are skipped, and enum values are plain integers, so messages of newer versions can be read. Input is
bounded by its own length, the depth of messages in messages by the declarations.

Decoders and encoders are functions, made once for each class (:mod:`rocketmq_py.wire.protobuf_source`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct, error
from typing import Any, Self

import msgspec

from rocketmq_py.errors import CorruptBody
from rocketmq_py.wire.protobuf_source import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Field,
    decoder_source,
    encoder_source,
    fields_of,
)

_FLOAT = Struct("<f")
_MAX_VARINT_BYTES = 10
_U64 = (1 << 64) - 1

_Decode = Callable[[bytes, int, int], Any]
"""Decodes a message between two positions of bytes."""
_Encode = Callable[[bytearray, Any], None]
"""Appends the fields of a message."""


class ProtoMessage(msgspec.Struct, gc=False):
    """Base of messages."""

    def encode(self) -> bytes:
        """Return the message as bytes."""
        out = bytearray()
        _encoder(type(self))(out, self)
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a message.

        :raises CorruptBody: the bytes are no message of this class.
        """
        try:
            found: Self = _decoder(cls)(data, 0, len(data))
            return found
        except (IndexError, error, UnicodeDecodeError) as e:
            raise CorruptBody(f"a {cls.__name__} cannot be decoded: {e}") from None


class _MapEntry(ProtoMessage):
    key: str = ""
    value: str = ""


# -- what the functions made from source call


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _U64, pos
        shift += 7
        if shift >= 7 * _MAX_VARINT_BYTES:
            raise CorruptBody("a number of more than ten bytes")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _packed(data: bytes, pos: int, end: int) -> list[int]:
    found = []
    while pos < end:
        value, pos = _varint(data, pos)
        found.append(_signed(value))
    if pos != end:
        raise CorruptBody("a list of numbers ends within a number")
    return found


def _skip(data: bytes, pos: int, tag: int) -> int:
    """Return what follows a field that the class does not have."""
    kind = tag & 7
    if tag >> 3 == 0:
        raise CorruptBody("a field with the number 0")
    if kind == VARINT:
        return _varint(data, pos)[1]
    if kind == BYTES:
        size, pos = _varint(data, pos)
        return pos + size
    if kind in (FIXED32, FIXED64):
        return pos + (4 if kind == FIXED32 else 8)
    raise CorruptBody(f"a field of the unknown kind {kind}")


def _too_long() -> CorruptBody:
    return CorruptBody("a field is longer than its message")


def _ends_within_field(cls: type[Any]) -> CorruptBody:
    return CorruptBody(f"a {cls.__name__} ends within a field")


def put_varint(out: bytearray, value: int) -> None:
    """Append a number."""
    value &= _U64
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


# -- making the functions


@cache
def _decoder(cls: type[Any]) -> _Decode:
    """Return the function that decodes messages of a class."""
    fields = fields_of(cls)
    names: dict[str, Any] = {
        "cls": cls, "varint": _varint, "signed": _signed, "packed": _packed, "skip": _skip, "too_long": _too_long,
        "ends_within_field": _ends_within_field, "unpack_float": _FLOAT.unpack_from,
        "known": frozenset(tag for field in fields for tag in field.tags), "entry": _MapEntry,
    }  # fmt: skip
    found: _Decode = _made(cls, fields, decoder_source(fields), names, _decoder)
    return found


@cache
def _encoder(cls: type[Any]) -> _Encode:
    """Return the function that encodes messages of a class."""
    fields = fields_of(cls)
    names: dict[str, Any] = {"put_varint": put_varint, "pack_float": _FLOAT.pack, "entry": _MapEntry}
    found: _Encode = _made(cls, fields, encoder_source(fields), names, _encoder)
    return found


def _made(cls: type[Any], fields: list[Field], source: str, names: dict[str, Any], make: Callable[..., Any]) -> Any:
    """Return the function ``code`` of a source text, to which the functions of the inner messages are known."""
    for field in fields:
        inner = _MapEntry if field.is_map else field.kind if field.is_message else None
        if inner is not None:
            names[field.function] = make(inner)
    exec(compile(source, f"<{make.__name__} of {cls.__name__}>", "exec"), names)  # noqa: S102 - the source is made here
    return names["code"]
