"""What a handler answers, and the bytes an answer becomes.

Knows the response form of a JSON header. Refuses to know handlers and connections. Answers are always JSON, whatever
form the request had: so does Apache RocketMQ, whose every side writes in its own configured form.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from rocketmq_py.protocol.header import Header
from rocketmq_py.wire.command import VERSION
from rocketmq_py.wire.frame import pack_lengths

Buffer: TypeAlias = bytes | bytearray | memoryview

_FEW_PIECES = 4
"""More pieces than this are joined: gathering many small buffers costs more than copying them."""

_SMALL_BODY = 16 * 1024
"""A body up to this size is copied behind its header: one buffer is cheaper to write than two."""

_quote = msgspec.json.Encoder().encode


class Reply(msgspec.Struct, gc=False):
    """The answer to a request.

    :param code: a ResponseCode; 0 is success.
    :param remark: words for a human, mostly with an error.
    :param header: typed header fields.
    :param ext: further header fields.
    :param body: bytes, or pieces that are written one after the other without being joined by the handler.
    """

    code: int = 0
    remark: str | None = None
    header: Header | None = None
    ext: dict[str, str] | None = None
    body: Buffer | Sequence[Buffer] = b""


class Hold(msgspec.Struct, frozen=True):
    """A handler's wish to answer later, when something arrives for ``key`` or ``deadline_ms`` (wall clock) has come.

    ``payload`` is whatever its keeper needs to make the answer.
    """

    key: Hashable
    deadline_ms: int
    payload: Any = None


def encode_reply(reply: Reply, opaque: int) -> bytes:
    """The whole frame of an answer to the request numbered ``opaque``, as one buffer."""
    pieces: list[Buffer] = []
    write_reply(reply, opaque, pieces.append)
    return pieces[0] if len(pieces) == 1 and type(pieces[0]) is bytes else b"".join(pieces)


def write_reply(reply: Reply, opaque: int, write: Callable[[Buffer], None]) -> None:
    """Hand the frame of an answer to ``write`` in one or more pieces."""
    fields = ""
    if reply.header is not None or reply.ext or reply.remark is not None:
        fields = _members(reply)
    head = (
        f'{{"code":{reply.code:d},{fields}"flag":1,"language":"PYTHON","opaque":{opaque},'
        f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
    ).encode()
    size = len(head)
    body = reply.body
    if not body:
        write(pack_lengths(4 + size, size) + head)
    elif isinstance(body, bytes) and len(body) <= _SMALL_BODY:
        write(pack_lengths(4 + size + len(body), size) + head + body)
    else:
        _write_large(head, [body] if isinstance(body, Buffer) else body, write)


def _write_large(head: bytes, pieces: Sequence[Buffer], write: Callable[[Buffer], None]) -> None:
    size = len(head)
    length = sum(map(len, pieces))
    if len(pieces) > _FEW_PIECES or length <= _SMALL_BODY:
        pieces = [b"".join(pieces)]
    write(pack_lengths(4 + size + length, size) + head)
    for piece in pieces:
        write(piece)


def _members(reply: Reply) -> str:
    """The members of the JSON header that not every answer has, each with a comma behind it."""
    parts = []
    if reply.header is not None:
        parts = _header_fields(reply.header)
    if reply.ext:
        parts += [f"{_text(name)}:{_text(value)}" for name, value in reply.ext.items()]
    members = f'"extFields":{{{",".join(parts)}}},' if parts else ""
    return members if reply.remark is None else f'{members}"remark":{_text(reply.remark)},'


def _header_fields(header: Header) -> list[str]:
    """``"name":"value"`` of every field that is not None; numbers need no escaping, the rest is left to msgspec."""
    names, values = _shape(type(header))
    return [
        f'{name}"{value}"' if type(value) is int else f"{name}{_text(value)}"
        for name, value in zip(names, values(header), strict=True)
        if value is not None
    ]


def _text(value: Any) -> str:
    if value is True or value is False:
        return '"true"' if value else '"false"'
    return _quote(value if isinstance(value, str) else str(value)).decode()


@cache
def _shape(cls: type[Header]) -> tuple[tuple[str, ...], Callable[[Header], tuple[Any, ...]]]:
    """Quoted wire names of a header class, and what reads its values."""
    fields = cls.__struct_fields__
    names = tuple(f'"{name}":' for name in cls.__struct_encode_fields__)
    if len(fields) > 1:
        return names, attrgetter(*fields)
    return names, lambda header: tuple(getattr(header, name) for name in fields)
