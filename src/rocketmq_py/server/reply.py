"""The answer of a handler, and its encoding as a frame.

The header is always JSON, even if that of the request was binary: in Apache RocketMQ, too, each side encodes headers in
the form that it is configured for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, cast, get_args

import msgspec
from msgspec import UNSET, UnsetType

from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.wire.command import RESPONSE_FLAG, VERSION
from rocketmq_py.wire.frame import pack_lengths

Buffer: TypeAlias = bytes | bytearray | memoryview

_FEW_PIECES = 4
"""A body of more buffers than this is joined to one: gathering many small buffers costs more than copying them."""

_SMALL_BODY = 16 * 1024
"""A body up to this size is copied behind its header: one buffer is cheaper to write than two."""

_encode = msgspec.json.Encoder().encode


class Reply(msgspec.Struct, gc=False):
    """The answer to a request.

    :param code: a ResponseCode; 0 is success.
    :param remark: text for people, usually an error message.
    :param header: typed header fields.
    :param ext: further header fields.
    :param body: one buffer, or several that are written one after the other.
    """

    code: int = 0
    remark: str | None = None
    header: Header | None = None
    ext: dict[str, str] | None = None
    body: Buffer | Sequence[Buffer] = b""


class Hold(msgspec.Struct, frozen=True):
    """What a handler returns to answer later: when something arrives for ``key``, or else at ``deadline_ms``.

    ``deadline_ms`` is in milliseconds since the epoch. ``payload`` is the data with which ``on_hold`` makes the answer.
    """

    key: Hashable
    deadline_ms: int
    payload: Any = None


class RunReply(NamedTuple):
    """The answers to consecutive sends of a run, which were handled together.

    ``stop`` is the index in the run after the last of them. ``opaques`` returns the numbers of the requests to answer,
    without one-way requests. ``encode`` returns the frames of all answers as one buffer. ``held`` says until when they
    wait; None if they are sent at once. ``messages`` returns the answers for gRPC, given their encoded status.
    """

    stop: int
    opaques: Callable[[], list[int]]
    encode: Callable[[], Buffer]
    held: RunHold | None = None
    messages: Callable[[bytes], list[bytes]] | None = None


class RunHold(NamedTuple):
    """The wait of the answers to sends of a run, which end together.

    ``hold`` is that of all of them: a reply of code 0 without fields stands for :attr:`RunReply.encode`. Any other
    reply gives its code and remark to ``fail``, which returns the frames of all answers with these.
    """

    hold: Hold
    fail: Callable[[int, str | None], Buffer]


def encode_reply(reply: Reply, opaque: int) -> bytes:
    """Return the frame of an answer to the request numbered ``opaque``, as one buffer."""
    return b"".join(reply_buffers(reply, opaque))


def reply_buffers(reply: Reply, opaque: int) -> Sequence[Buffer]:
    """Return the frame of an answer to the request numbered ``opaque``, as buffers to be written in order."""
    remark = reply.remark
    fields = reply.ext or UNSET if reply.header is None else _fields(reply, reply.header)
    head = _encode(_Head(reply.code, opaque, fields, UNSET if remark is None else remark))
    size = len(head)
    body = reply.body
    if not body:
        return (pack_lengths(4 + size, size) + head,)
    if type(body) is bytes or type(body) is memoryview:  # a check of the union of types takes longer than the rest
        length = len(body)
        if length > _SMALL_BODY:
            return (pack_lengths(4 + size + length, size) + head, body)
        if type(body) is bytes:
            return (pack_lengths(4 + size + length, size) + head + body,)
    return _large(head, (body,) if isinstance(body, Buffer) else body)


def _large(head: bytes, pieces: Sequence[Buffer]) -> Sequence[Buffer]:
    size = len(head)
    length = sum(map(len, pieces))
    head = pack_lengths(4 + size + length, size) + head
    if len(pieces) > _FEW_PIECES or length <= _SMALL_BODY:
        return (head, b"".join(pieces))
    return (head, *pieces)


class _Head(msgspec.Struct, gc=False):
    """The JSON header of an answer; members that are unset are left out."""

    code: int
    opaque: int
    extFields: Any = UNSET  # noqa: N815 - the name on the wire
    remark: str | UnsetType = UNSET
    flag: int = RESPONSE_FLAG
    language: str = "PYTHON"
    serializeTypeCurrentRPC: str = "JSON"  # noqa: N815
    version: int = VERSION


def _fields(reply: Reply, header: Header) -> Any:
    """Return the header fields of a reply with a typed header as an object that msgspec encodes to JSON strings."""
    if reply.ext:
        return header.to_ext() | reply.ext
    cls = type(header)
    texts = _TEXTS.get(cls)
    if texts is None:
        texts = _TEXTS[cls] = _compile_texts(cls)
    return texts(header)


_TEXTS: dict[type[Header], Callable[[Header], msgspec.Struct]] = {}
"""Cache of the functions that :func:`_compile_texts` makes, by header class."""


def _compile_texts(cls: type[Header]) -> Callable[[Header], msgspec.Struct]:
    """Return a function that converts a header of ``cls`` to a struct of the same fields as strings or None.

    Header fields are strings on the wire, and msgspec encodes such a struct in C. The function is compiled from source
    text, like methods of dataclasses: for every answer, a loop over the fields would take three times as long.
    """
    fields = msgspec.structs.fields(cls)
    twin = msgspec.defstruct(
        f"{cls.__name__}Texts",
        [(field.name, str | None, None) for field in fields],
        rename={field.name: field.encode_name for field in fields},
        omit_defaults=True,
        gc=False,
    )
    source = f"lambda h: twin({', '.join(_as_text(field) for field in fields)})"
    return cast("Callable[[Header], msgspec.Struct]", eval(source, {"twin": twin}))  # noqa: S307 - source made here


def _as_text(field: msgspec.structs.FieldInfo) -> str:
    """Return the source of an expression for a field of header ``h`` as a string or None.

    Fields are strings, booleans or numbers.
    """
    value = f"h.{field.name}"
    kinds = _kinds(field.type)
    if str in kinds:
        return value
    text = f"('true' if {value} else 'false')" if bool in kinds else f"str({value})"
    return f"None if {value} is None else {text}" if NoneType in kinds else text


def _kinds(annotation: Any) -> frozenset[Any]:
    """Return the types of a field: int, its bounds and NoneType for ``Annotated[int, ...] | None``."""
    if get_args(annotation):
        return frozenset().union(*map(_kinds, get_args(annotation)))
    return frozenset({annotation})
