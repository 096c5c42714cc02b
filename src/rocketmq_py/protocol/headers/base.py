"""Base of header declarations: snake_case fields here, camelCase strings on the wire.

A header is a class with annotated fields; names, defaults and required-ness follow from them. msgspec decodes it in C,
as part of a whole JSON header (``protocol.requests``) or from a dictionary of strings.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import msgspec

from rocketmq_py.protocol.coercion import convert_leniently


class Header(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """Base of all request and response headers.

    A field without a default is required; None is never encoded.
    """

    def to_ext(self) -> dict[str, str]:
        """Return the header fields as strings."""
        ext: dict[str, str] = {}
        for name, wire_name in _fields(type(self)):
            value = getattr(self, name)
            if value is not None:
                ext[wire_name] = value if type(value) is str else _text(value)
        return ext

    @classmethod
    def from_ext(cls, ext: dict[str, str]) -> Self:
        """Build the header from its fields; unknown ones are ignored.

        :raises BadHeader: a required field is missing or a value is of the wrong type.
        """
        try:
            return msgspec.convert(ext, cls, strict=False)
        except msgspec.ValidationError:
            return convert_leniently(ext, cls)


@cache
def _fields(cls: type[Header]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))


def _text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


class NoHeader(Header, kw_only=True):
    """A request without header fields of its own."""


class TopicHeader(Header, kw_only=True):
    """Base of requests about a topic, with fields that 5.x clients add; brokers use them for static topics only.

    :ivar bname: the broker the request is for. :ivar lo: False if the queue is a physical one, whatever the topic.
    """

    bname: str | None = None
    lo: bool | None = None
    ns: str | None = None
    nsd: bool | None = None
