"""Base of JSON bodies, and the data version that several of them share.

Names are those of Apache RocketMQ's body classes in snake_case. Decoding accepts fastjson's dialect; encoding is strict
JSON, which every peer reads, unless a function says otherwise.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.coercion import convert_leniently
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.integers import Int64

_NULL = b"null"


class Body(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=False):
    """Base of all bodies; members that are None are left out, as in fastjson."""

    def encode(self) -> bytes:
        """Encode as strict compact JSON with sorted keys."""
        tree = msgspec.to_builtins(self, str_keys=True)
        data = fastjson.dumps(tree)
        return fastjson.dumps(without_nulls(tree)) if _NULL in data else data

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode JSON in either dialect; unknown members are ignored, null ones take their default.

        :raises BadHeader: the data is not JSON or a member is of the wrong type.
        """
        try:
            tree = fastjson.loads(data)
            return cls.convert(tree) if _NULL in bytes(data) else cls._converted(tree, tree)
        except ValueError as e:
            raise BadHeader(f"body of {len(data)} bytes is no {cls.__name__}: {e}") from e
        except RecursionError as e:
            raise BadHeader(f"body of {len(data)} bytes is no {cls.__name__}: it is nested too deeply") from e

    @classmethod
    def convert(cls, tree: Any) -> Self:
        """Build the body from a parsed value.

        :raises BadHeader: a member is of the wrong type.
        """
        return cls._converted(without_nulls(tree), tree)

    @classmethod
    def _converted(cls, without: Any, tree: Any) -> Self:
        """As :meth:`convert`, given the value without nulls too."""
        try:
            return msgspec.convert(without, cls, strict=False)
        except msgspec.ValidationError:
            return convert_leniently(tree, cls)


def without_nulls(value: Any) -> Any:
    """Return the value without members that are null, at every depth."""
    if isinstance(value, dict):
        return {
            k: without_nulls(v) if isinstance(v, dict | list) else v for k, v in value.items() if v is not None
        }  # fmt: skip
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value


class DataVersion(Body, kw_only=True):
    """Version of a table that brokers share: it increases with every change and is compared as a whole."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0

    def bump(self, now_ms: int) -> DataVersion:
        return DataVersion(counter=self.counter + 1, state_version=self.state_version, timestamp=now_ms)
