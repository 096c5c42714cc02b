"""JSON bodies of declared types, by msgspec; of pydantic models, by pydantic."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from rocketmq_py.errors import ConfigError, shortened
from rocketmq_py.serde.base import BodyMismatch

T = TypeVar("T")


class Json(Generic[T]):
    """JSON bodies: values of a type.

    :param kind: a ``msgspec.Struct``, dataclass, ``TypedDict``, builtin type or a union of such, or a pydantic model.
    :raises ConfigError: the type cannot be read from JSON.
    """

    def __init__(self, kind: type[T] | Any) -> None:
        self._kind: Any = kind
        self._is_model = hasattr(kind, "model_validate_json")
        if not self._is_model:
            try:
                self._decoder = msgspec.json.Decoder(kind)
            except TypeError as e:
                raise ConfigError(f"values of {kind!r} cannot be read from JSON: {e}") from e

    def __reduce__(self) -> tuple[type[Json[T]], tuple[Any]]:
        return Json, (self._kind,)

    def encode(self, value: T, topic: str = "") -> bytes:
        """Return the JSON text of a value.

        :raises BodyMismatch: the value has no JSON form.
        """
        del topic
        try:
            if self._is_model:
                return str(value.model_dump_json()).encode()  # type: ignore[attr-defined]
            return msgspec.json.encode(value)
        except (AttributeError, TypeError, ValueError) as e:
            raise BodyMismatch(f"{shortened(repr(value))} cannot be written as JSON: {e}") from e

    def decode(self, body: bytes) -> T:
        """Return the value of a JSON text.

        :raises BodyMismatch: it is no JSON, or of another form.
        """
        try:
            found = self._kind.model_validate_json(body) if self._is_model else self._decoder.decode(body)
        except (ValueError, RecursionError) as e:  # those of msgspec and of pydantic are ValueErrors
            raise BodyMismatch(f"the body is no {getattr(self._kind, '__name__', self._kind)}: {e}") from e
        return found  # type: ignore[no-any-return]
