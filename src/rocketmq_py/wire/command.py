"""Commands: encoding and decoding of request and response headers, as JSON and in the ROCKETMQ binary form.

Layouts: RemotingCommand, RemotingSerializable and RocketMQSerializable of Apache RocketMQ. The codes are defined in
:mod:`rocketmq_py.protocol.codes`.
"""

from __future__ import annotations

from struct import Struct, error as StructError
from typing import Any

import msgspec

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.frame import JSON, ROCKETMQ, Frame, encode_frame
from rocketmq_py.wire.integers import Int32

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2

LANGUAGES = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS",
             "RUST", "NODE_JS")  # fmt: skip
"""Names of Java's LanguageCode; the index of a name is its code in the binary header."""

VERSION = 513
"""The version that this package sends in headers: the ordinal of 5.5.0 in Apache RocketMQ's MQVersion."""


class Command(msgspec.Struct, gc=False):
    """A decoded request or response.

    ``ext`` has the header fields specific to the code (``extFields``), all strings. ``opaque`` is the request number
    that a response repeats; the two sides of a connection number their requests independently.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    ext: dict[str, str] = {}
    body: bytes = b""
    language: str = "PYTHON"
    version: int = VERSION

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)


class _JsonHeader(msgspec.Struct, gc=False):
    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    remark: str | None = None
    extFields: dict[str, str] | None = None  # noqa: N815  (as it travels)
    language: str | int | None = "JAVA"
    version: Int32 = 0


class _LooseHeader(_JsonHeader, gc=False):
    """A header whose ``extFields`` may have values of any type; each value is kept as its JSON text."""

    extFields: dict[str, msgspec.Raw] | None = None  # type: ignore[assignment]  # noqa: N815


_MAX_DIALECT = 64 * 1024
"""Limit in bytes for a header that is not strict JSON, because parsing the dialect takes about 2 µs per character."""

_decode_json = msgspec.json.Decoder(_JsonHeader, strict=False).decode
_decode_loose = msgspec.json.Decoder(_LooseHeader, strict=False).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode
_decode_value = msgspec.json.Decoder().decode
_encode_json = msgspec.json.Encoder().encode


def encode_command(command: Command, serialize_type: int = JSON) -> bytes:
    """Encode a command as a frame, with the header in JSON or ROCKETMQ form."""
    header = encode_json_header(command) if serialize_type == JSON else encode_binary_header(command)
    return encode_frame(header, command.body, serialize_type)


def decode_command(frame: Frame) -> Command:
    """Decode the command of a frame.

    :raises CorruptFrame: the header is malformed or its serialize type is unknown.
    """
    if frame.serialize_type == JSON:
        return decode_json_header(frame.header, frame.body)
    if frame.serialize_type == ROCKETMQ:
        return decode_binary_header(frame.header, frame.body)
    raise CorruptFrame(f"unknown serialize type {frame.serialize_type}; known are 0 (JSON) and 1 (ROCKETMQ)")


# -- JSON


def encode_json_header(command: Command) -> bytes:
    """Encode the header of a command as JSON; a remark of None is left out."""
    return _encode_json(
        {
            "code": command.code,
            "extFields": command.ext,
            "flag": command.flag,
            "language": command.language,
            "opaque": command.opaque,
            **({} if command.remark is None else {"remark": command.remark}),
            "serializeTypeCurrentRPC": "JSON",
            "version": command.version,
        }
    )


def decode_json_header(header: bytes, body: bytes = b"") -> Command:
    """Decode a JSON header as leniently as fastjson: field values may be numbers, the language may be its ordinal.

    Bytes that are not UTF-8 are read as U+FFFD, as fastjson 1 does; fastjson 2 refuses them in fields it reads. If a
    member occurs twice, the last one counts.

    :raises CorruptFrame: the header is malformed.
    """
    try:
        raw = _decode_json(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raw = _decode_odd(header)
    return Command(
        raw.code, raw.opaque, raw.flag, raw.remark, raw.extFields or {}, body, language_name(raw.language), raw.version
    )


def decode_ext(fields: bytes | msgspec.Raw) -> dict[str, str]:
    """Decode the JSON text of ``extFields`` to strings, by the rules of :func:`decode_json_header`.

    :raises ValueError: the text is malformed.
    """
    text = bytes(fields).decode("utf-8", "replace").encode()
    try:
        return _texts(_decode_fields(text))
    except RecursionError as e:
        raise ValueError("nested too deeply") from e


def _decode_odd(header: bytes) -> _JsonHeader:
    """Decode a header with field values that are not strings, or with bytes that are not UTF-8.

    The hot path of :mod:`rocketmq_py.protocol.requests` must never accept a header that is refused here. In both,
    msgspec skips members that are not declared, so both accept the same JSON in these members.
    """
    text = header.decode("utf-8", "replace").encode()
    try:
        loose = _decode_loose(text)
    except (msgspec.DecodeError, RecursionError):
        return _decode_dialect(text)
    ext = _texts(loose.extFields)
    return _JsonHeader(loose.code, loose.opaque, loose.flag, loose.remark, ext, loose.language, loose.version)


def _texts(fields: dict[str, msgspec.Raw] | None) -> dict[str, str]:
    """Convert the JSON values of header fields to strings; null values are left out."""
    raws = ((name, bytes(value)) for name, value in (fields or {}).items())
    return {name: _raw_text(raw) for name, raw in raws if raw != b"null"}


def _raw_text(value: bytes) -> str:
    """Return a JSON value as a header field: a string decoded, an object or list as compact JSON, others as written."""
    if value[:1] == b'"':
        return str(_decode_value(value))
    if value[:1] not in (b"{", b"["):
        return value.decode()
    try:
        return fastjson.dumps(_decode_value(value)).decode()
    except (msgspec.DecodeError, RecursionError):  # it contains a number out of range, or is nested too deeply
        return value.decode()


def _decode_dialect(header: bytes) -> _JsonHeader:
    """Decode a header in fastjson's dialect; much slower than the other decoders.

    :raises CorruptFrame: the header is malformed, or too long for a header that is not strict JSON.
    """
    if len(header) > _MAX_DIALECT:
        raise CorruptFrame(f"a JSON header of {len(header)} bytes is not strict JSON")
    try:
        tree = fastjson.loads(header)
        ext = tree.get("extFields") or {}
        tree["extFields"] = {name: _text(value) for name, value in ext.items() if value is not None}
        return msgspec.convert(tree, _JsonHeader, strict=False)
    except (ValueError, AttributeError, RecursionError) as e:
        raise CorruptFrame(f"a JSON header of {len(header)} bytes cannot be understood: {e}") from e


def _text(value: Any) -> str:
    return value if isinstance(value, str) else fastjson.dumps(value).decode()


def language_name(language: str | int | None) -> str:
    """Return the name of a language given by name or ordinal; unknown ones become ``OTHER``."""
    if isinstance(language, str):
        return language if language in LANGUAGES else LANGUAGES[int(language)] if _ordinal(language) else "OTHER"
    return LANGUAGES[language] if language is not None and 0 <= language < len(LANGUAGES) else "OTHER"


def _ordinal(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 4 and int(text) < len(LANGUAGES)


# -- ROCKETMQ

_FIXED = Struct(">hbhiii")
_I32 = Struct(">i")
_I16 = Struct(">h")


def encode_binary_header(command: Command) -> bytes:
    """Encode a header in the ROCKETMQ form. As in Java, codes are cut to 16 bits, so POP requests need JSON headers."""
    remark = (command.remark or "").encode()
    entries = b"".join(
        _I16.pack(len(name)) + name + _I32.pack(len(value)) + value
        for name, value in ((n.encode(), v.encode()) for n, v in command.ext.items())
    )
    code = (command.code + 0x8000) % 0x10000 - 0x8000
    language = LANGUAGES.index(command.language)
    fixed = _FIXED.pack(code, language, command.version, command.opaque, command.flag, len(remark))
    return fixed + remark + _I32.pack(len(entries)) + entries


def decode_binary_header(header: bytes, body: bytes = b"") -> Command:
    """Decode a header in the ROCKETMQ form.

    :raises CorruptFrame: the header is malformed.
    """
    try:
        code, language, version, opaque, flag, remark_length = _FIXED.unpack_from(header)
        position = _FIXED.size
        remark, position = _take(header, position, remark_length)
        (ext_length,) = _I32.unpack_from(header, position)
        ext = _decode_entries(header, position + 4, ext_length)
    except (StructError, UnicodeDecodeError) as e:
        raise CorruptFrame(f"a ROCKETMQ header of {len(header)} bytes cannot be understood: {e}") from e
    return Command(code, opaque, flag, remark or None, ext, body, language_name(language), version)


def _decode_entries(header: bytes, position: int, length: int) -> dict[str, str]:
    end = position + length
    if length < 0 or end > len(header):
        raise CorruptFrame(f"header fields of {length} bytes do not fit into a header of {len(header)} bytes")
    ext: dict[str, str] = {}
    while position < end:
        name, position = _take(header, position + 2, _I16.unpack_from(header, position)[0])
        value, position = _take(header, position + 4, _I32.unpack_from(header, position)[0])
        if name and value:
            ext[name] = value
    return ext


def _take(header: bytes, position: int, length: int) -> tuple[str, int]:
    end = position + length
    if length < 0 or end > len(header):
        raise CorruptFrame(f"a field of {length} bytes does not fit into a header of {len(header)} bytes")
    return header[position:end].decode(), end
