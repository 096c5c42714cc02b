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
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from struct import Struct, error
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

import msgspec

from rocketmq_py.errors import CorruptBody

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT = Struct("<f")
_MAX_VARINT_BYTES = 10
_U64 = (1 << 64) - 1

_Read = Callable[[bytes, int, int, dict[str, Any]], int]
"""Decodes a field at a position of bytes up to an end into a dictionary; returns what follows."""
_Write = Callable[[bytearray, Any], None]


class ProtoMessage(msgspec.Struct, kw_only=True):
    """Base of messages."""

    def encode(self) -> bytes:
        """Return the message as bytes."""
        out = bytearray()
        _encode(out, self)
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a message.

        :raises CorruptBody: the bytes are no message of this class.
        """
        try:
            found: Self = _decode(cls, data, 0, len(data))
            return found
        except (IndexError, error, UnicodeDecodeError) as e:
            raise CorruptBody(f"a {cls.__name__} cannot be decoded: {e}") from None


# -- decoding


def _decode(cls: type[Any], data: bytes, pos: int, end: int) -> Any:
    readers = _readers(cls)  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    while pos < end:
        tag = data[pos]
        pos += 1
        if tag & 0x80:
            tag, pos = _varint(data, pos - 1)
        read = readers.get(tag)
        pos = read(data, pos, end, values) if read is not None else _skip(data, pos, tag)
    if pos != end:
        raise CorruptBody(f"a {cls.__name__} ends within a field")
    return cls(**values)


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


def _length(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """Return begin and end of a field with a length."""
    size = data[pos]
    pos += 1
    if size & 0x80:
        size, pos = _varint(data, pos - 1)
    if size > end - pos:
        raise CorruptBody("a field is longer than its message")
    return pos, pos + size


def _skip(data: bytes, pos: int, tag: int) -> int:
    kind = tag & 7
    if tag >> 3 == 0:
        raise CorruptBody("a field with the number 0")
    if kind == _VARINT:
        return _varint(data, pos)[1]
    if kind == _BYTES:
        return _length(data, pos, len(data))[1]
    if kind in (_FIXED32, _FIXED64):
        return pos + (4 if kind == _FIXED32 else 8)
    raise CorruptBody(f"a field of the unknown kind {kind}")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _int_reader(name: str) -> _Read:
    def read(data: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        del end
        value = data[pos]
        pos += 1
        if value & 0x80:
            value, pos = _varint(data, pos - 1)
            value = _signed(value)
        values[name] = value
        return pos

    return read


def _bool_reader(name: str) -> _Read:
    def read(data: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        del end
        value, pos = _varint(data, pos)
        values[name] = value != 0
        return pos

    return read


def _float_reader(name: str) -> _Read:
    def read(data: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        del end
        values[name] = _FLOAT.unpack_from(data, pos)[0]
        return pos + 4

    return read


def _text_reader(name: str) -> _Read:
    def read(data: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        begin, pos = _length(data, pos, end)
        values[name] = data[begin:pos].decode()
        return pos

    return read


def _bytes_reader(name: str) -> _Read:
    def read(data: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        begin, pos = _length(data, pos, end)
        values[name] = data[begin:pos]
        return pos

    return read


def _message_reader(name: str, cls: type[Any]) -> _Read:
    def read(data: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        begin, pos = _length(data, pos, end)
        values[name] = _decode(cls, data, begin, pos)
        return pos

    return read


def _map_reader(name: str) -> _Read:
    def read(data: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        begin, pos = _length(data, pos, end)
        entry = _decode(_MapEntry, data, begin, pos)
        values.setdefault(name, {})[entry.key] = entry.value
        return pos

    return read


def _list_reader(name: str, read_one: _Read) -> _Read:
    def read(data: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        found: list[Any] = values.setdefault(name, [])
        one: dict[str, Any] = {}
        pos = read_one(data, pos, end, one)
        found.append(one[name])
        return pos

    return read


def _packed_reader(name: str) -> _Read:
    def read(data: bytes, pos: int, end: int, values: dict[str, Any]) -> int:
        found: list[int] = values.setdefault(name, [])
        begin, pos = _length(data, pos, end)
        while begin < pos:
            value, begin = _varint(data, begin)
            found.append(_signed(value))
        if begin != pos:
            raise CorruptBody("a list of numbers ends within a number")
        return pos

    return read


class _MapEntry(ProtoMessage):
    key: str = ""
    value: str = ""


_SINGLE: dict[Any, tuple[int, Callable[[str], _Read]]] = {
    int: (_VARINT, _int_reader), bool: (_VARINT, _bool_reader), float: (_FIXED32, _float_reader),
    str: (_BYTES, _text_reader), bytes: (_BYTES, _bytes_reader),
}  # fmt: skip


@cache
def _readers(cls: type[Any]) -> dict[int, _Read]:
    """Return what decodes each field, by the tag before it."""
    readers: dict[int, _Read] = {}
    for number, (name, kind, _) in enumerate(_declared(cls), 1):
        item = get_args(kind)[0] if get_origin(kind) is list else None
        if get_origin(kind) is dict:
            readers[number << 3 | _BYTES] = _map_reader(name)
            continue
        wire_type, reader = _single(name, item or kind)
        readers[number << 3 | wire_type] = _list_reader(name, reader) if item else reader
        if item is int:
            readers[number << 3 | _BYTES] = _packed_reader(name)
    return readers


def _single(name: str, kind: Any) -> tuple[int, _Read]:
    found = _SINGLE.get(kind)
    return (_BYTES, _message_reader(name, kind)) if found is None else (found[0], found[1](name))


def _declared(cls: type[Any]) -> list[tuple[str, Any, bool]]:
    """Return name, type without None, and presence of each field."""
    hints = get_type_hints(cls)
    declared = []
    for name in cls.__struct_fields__:
        kind = hints[name]
        has_presence = False
        if get_origin(kind) in (Union, types.UnionType):
            [kind] = [one for one in get_args(kind) if one is not types.NoneType]
            has_presence = True
        declared.append((name, kind, has_presence))
    return declared


# -- encoding


def _encode(out: bytearray, message: ProtoMessage) -> None:
    for name, default, write in _writers(type(message)):
        value = getattr(message, name)
        if value is not None and value != default:
            write(out, value)


def put_varint(out: bytearray, value: int) -> None:
    """Append a number."""
    value &= _U64
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_bytes(out: bytearray, data: bytes | bytearray) -> None:
    put_varint(out, len(data))
    out += data


def _put_text(out: bytearray, text: str) -> None:
    _put_bytes(out, text.encode("utf-8", "replace"))


def _put_message(out: bytearray, message: ProtoMessage) -> None:
    inner = bytearray()
    _encode(inner, message)
    _put_bytes(out, inner)


def _put_float(out: bytearray, value: float) -> None:
    out += _FLOAT.pack(value)


_PUT: dict[Any, _Write] = {int: put_varint, bool: put_varint, float: _put_float, str: _put_text, bytes: _put_bytes}
_ABSENT = object()


@cache
def _writers(cls: type[Any]) -> list[tuple[str, Any, _Write]]:
    """Return name, the value that is not encoded, and what encodes the others, of each field."""
    writers: list[tuple[str, Any, _Write]] = []
    for number, (name, kind, has_presence) in enumerate(_declared(cls), 1):
        if get_origin(kind) is list:
            writers.append((name, [], _list_writer(number, get_args(kind)[0])))
        elif get_origin(kind) is dict:
            writers.append((name, {}, _map_writer(number)))
        else:
            default = _ABSENT if has_presence else kind()
            writers.append((name, default, _writer(number, kind)))
    return writers


def _tag(number: int, kind: Any) -> bytes:
    out = bytearray()
    put_varint(out, number << 3 | _SINGLE.get(kind, (_BYTES,))[0])
    return bytes(out)


def _writer(number: int, kind: Any) -> _Write:
    tag, put = _tag(number, kind), _PUT.get(kind, _put_message)

    def write(out: bytearray, value: Any) -> None:
        out += tag
        put(out, value)

    return write


def _list_writer(number: int, kind: Any) -> _Write:
    if kind is not int:
        write_one = _writer(number, kind)

        def write(out: bytearray, value: Any) -> None:
            for one in value:
                write_one(out, one)

        return write
    tag = _tag(number, bytes)

    def write_packed(out: bytearray, value: Any) -> None:
        packed = bytearray()
        for one in value:
            put_varint(packed, one)
        out.extend(tag)
        _put_bytes(out, packed)

    return write_packed


def _map_writer(number: int) -> _Write:
    tag = _tag(number, bytes)

    def write(out: bytearray, value: Any) -> None:
        for key, text in value.items():
            out.extend(tag)
            _put_message(out, _MapEntry(key=key, value=text))

    return write
