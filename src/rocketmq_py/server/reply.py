"""The answer of a handler, and its encoding as a frame.

The header is always JSON, whatever form the request had: Apache RocketMQ does the same, each side writes in its own
configured form.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import NoneType
from typing import Annotated, Any, NamedTuple, TypeAlias, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.wire.command import RESPONSE_FLAG, VERSION
from rocketmq_py.wire.frame import pack_lengths

Buffer: TypeAlias = bytes | bytearray | memoryview

_FEW_PIECES = 4
"""More pieces than this are joined: gathering many small buffers costs more than copying them."""

_SMALL_BODY = 16 * 1024
"""A body up to this size is copied behind its header: one buffer is cheaper to write than two."""

_encode = msgspec.json.Encoder().encode


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


class RunReply(NamedTuple):
    """The answers to many requests at once, which have been handled.

    ``stop`` is the number after the last of them; ``opaques`` are the numbers to answer, of which one-way requests
    have none; ``encode`` makes the frames.
    """

    stop: int
    opaques: Callable[[], list[int]]
    encode: Callable[[], Buffer]


def encode_reply(reply: Reply, opaque: int) -> bytes:
    """The whole frame of an answer to the request numbered ``opaque``, as one buffer."""
    return b"".join(reply_buffers(reply, opaque))


def reply_buffers(reply: Reply, opaque: int) -> Sequence[Buffer]:
    """The frame of an answer to the request numbered ``opaque``, in one or more buffers."""
    remark = reply.remark
    head = _encode(_Head(reply.code, opaque, _fields(reply), UNSET if remark is None else remark))
    size = len(head)
    body = reply.body
    if not body:
        return (pack_lengths(4 + size, size) + head,)
    if type(body) is bytes and len(body) <= _SMALL_BODY:
        return (pack_lengths(4 + size + len(body), size) + head + body,)
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


def _fields(reply: Reply) -> Any:
    """The header fields: something msgspec encodes to an object of strings, or UNSET if there are none."""
    header = reply.header
    if header is None:
        return reply.ext or UNSET
    if reply.ext:
        return header.to_ext() | reply.ext
    cls = type(header)
    texts = _TEXTS.get(cls)
    if texts is None:
        texts = _TEXTS[cls] = _compile_texts(cls)
    return texts(header)


_TEXTS: dict[type[Header], Callable[[Header], msgspec.Struct]] = {}
"""By header class, what turns a header into its twin whose fields are all strings. Derived from declarations only."""


def _compile_texts(cls: type[Header]) -> Callable[[Header], msgspec.Struct]:
    """A function from a header of ``cls`` to a struct of the same fields, all strings or None.

    Header fields travel as strings; encoding the twin writes them, escapes included, in C. The function is compiled as
    dataclasses compile theirs: a loop over the fields takes three times as long, on every answer.
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
    """The expression for one field of header ``h`` as a string or None; every type but text and bool is a number."""
    value = f"h.{field.name}"
    kinds = _kinds(field.type)
    if str in kinds:
        return value
    text = f"('true' if {value} else 'false')" if bool in kinds else f"str({value})"
    return f"None if {value} is None else {text}" if NoneType in kinds else text


def _kinds(annotation: Any) -> frozenset[type]:
    """The types of a field, without their bounds: ``Annotated[int, ...] | None`` is an int or None."""
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    if get_args(annotation):
        return frozenset().union(*map(_kinds, get_args(annotation)))
    return frozenset({annotation})
