"""What every header declaration shares: snake_case fields here, camelCase strings on the wire.

A header is a class with annotated fields; names, defaults and required-ness follow from them. Decoding is done by
msgspec in C, either as part of a whole JSON header (``requests``) or from a dictionary of strings.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import msgspec

from rocketmq_py.errors import BadHeader


class Header(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """Base of all request and response headers.

    A field without a default is required; None is never written.
    """

    def to_ext(self) -> dict[str, str]:
        """The header fields as they travel."""
        ext: dict[str, str] = {}
        for name, wire_name in _fields(type(self)):
            value = getattr(self, name)
            if value is not None:
                ext[wire_name] = value if type(value) is str else _text(value)
        return ext

    @classmethod
    def from_ext(cls, ext: dict[str, str]) -> Self:
        """The header of fields as they travelled; unknown ones are ignored.

        :raises BadHeader: a required field is missing or a value is of the wrong kind.
        """
        try:
            return msgspec.convert(ext, cls, strict=False)
        except msgspec.ValidationError as e:
            raise BadHeader(f"{cls.__name__}: {e}") from e


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
    """Fields 5.x clients add to requests about a topic; brokers outside static topics ignore them."""

    bname: str | None = None
    ns: str | None = None
    nsd: bool | None = None
