"""Base of JSON bodies, and the data version that several of them share.

Members have the names of Apache RocketMQ's body classes in snake_case. Decoding accepts fastjson's dialect. Encoding
gives strict JSON, which all clients and servers accept, unless a function's description says otherwise.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.coercion import convert_leniently
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.integers import Int64

_NULL = b"null"
_NESTED = frozenset((dict, list))


class Body(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=False):
    """Base of all bodies; members that are None are left out, as in fastjson."""

    def encode(self) -> bytes:
        """Encode as strict compact JSON with sorted keys."""
        tree = msgspec.to_builtins(self, str_keys=True)
        data = fastjson.dumps(tree)
        # A look at the bytes is a tenth of a walk through a large tree.
        return data if _NULL not in data else fastjson.dumps(without_nulls(tree))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode strict JSON or fastjson's dialect; unknown members are ignored, null members get their default.

        :raises BadHeader: the data is not JSON, a member is of the wrong type, or a required one is missing.
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
        """Build the body from a parsed JSON value.

        :raises BadHeader: a member is of the wrong type, or a required one is missing.
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
    """Return a parsed JSON value without the members that are None, at every depth."""
    if isinstance(value, dict):
        return {
            k: without_nulls(v) if type(v) in _NESTED and v else v for k, v in value.items() if v is not None
        }  # fmt: skip
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value


class DataVersion(Body, kw_only=True):
    """Version of a table that brokers exchange; two versions are the same if all members are equal.

    ``counter`` increases with every change; ``timestamp`` is the time of the last change in milliseconds.
    """

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0

    def bump(self, now_ms: int) -> DataVersion:
        return DataVersion(counter=self.counter + 1, state_version=self.state_version, timestamp=now_ms)
