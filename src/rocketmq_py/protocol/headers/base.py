"""Base of header classes: fields in snake_case here, strings with names in camelCase on the wire.

A header is a class with annotated fields, which define the names, the defaults and which fields are required. msgspec
decodes it in C: as part of a JSON header (:mod:`rocketmq_py.protocol.requests`) or from a dictionary of strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, Self

import msgspec

from rocketmq_py.protocol.coercion import convert_leniently


class Header(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """Base of all request and response headers.

    A field without a default is required. A field that is None is not encoded.
    """

    def to_ext(self) -> dict[str, str]:
        """Return the header fields as strings, by wire name."""
        fields = _fields(type(self))
        if fields is None:
            return {}
        values, wire_names = fields
        return {
            wire_name: value if type(value) is str else _text(value)
            for wire_name, value in zip(wire_names, values(self), strict=True)
            if value is not None
        }

    @classmethod
    def from_ext(cls, ext: dict[str, str]) -> Self:
        """Build the header from its fields as strings; unknown fields are ignored.

        :raises BadHeader: a required field is missing or a value is of the wrong type.
        """
        try:
            return msgspec.convert(ext, cls, strict=False)
        except msgspec.ValidationError:
            return convert_leniently(ext, cls)


@cache
def _fields(cls: type[Header]) -> tuple[Callable[[Header], Iterable[Any]], tuple[str, ...]] | None:
    """Return a function that reads all fields of a header, and their wire names; None if it has no fields."""
    names = cls.__struct_fields__
    if len(names) > 1:
        return attrgetter(*names), cls.__struct_encode_fields__
    return (lambda header: [getattr(header, names[0])], cls.__struct_encode_fields__) if names else None


def _text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


class NoHeader(Header, kw_only=True):
    """Header of requests that have no header fields."""


class TopicHeader(Header, kw_only=True):
    """Base of requests with the fields of Java's RpcRequestHeader, which 5.x clients add; used for static topics only.

    :ivar bname: name of the broker that the request is for.
    :ivar lo: False if the queue id is that of a physical queue, even if the topic is static.
    """

    bname: str | None = None
    lo: bool | None = None
    ns: str | None = None
    nsd: bool | None = None
