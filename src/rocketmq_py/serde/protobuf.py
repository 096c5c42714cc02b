"""Protobuf bodies, with the id of the writer's schema and the place of the message type in front."""

from __future__ import annotations

import base64
from typing import Any, Generic, TypeVar

from google.protobuf.message import DecodeError, EncodeError, Message

from rocketmq_py.errors import shortened
from rocketmq_py.serde.base import BodyMismatch
from rocketmq_py.serde.confluent import decode_indexes, encode_indexes, framed, unframed
from rocketmq_py.serde.registry import Registry, Schema

M = TypeVar("M", bound=Message)


class Protobuf(Generic[M]):
    """Protobuf bodies: messages of one generated class.

    Fields that the class does not know are kept as unknown ones, and missing ones have their defaults.

    :param kind: the generated class.
    :param registry: where schemas get their ids.
    :param subject: the subject under which the schema is registered; None: the topic, ``-value``.
    """

    def __init__(self, kind: type[M], registry: Registry, subject: str | None = None) -> None:
        self._kind = kind
        self._registry = registry
        self._subject = subject
        self._indexes = place_of(kind.DESCRIPTOR)
        self._prefix = encode_indexes(self._indexes)
        text = base64.b64encode(kind.DESCRIPTOR.file.serialized_pb).decode()
        self._schema = Schema(text, "PROTOBUF")

    def __reduce__(self) -> tuple[type[Protobuf[M]], tuple[type[M], Registry, str | None]]:
        return Protobuf, (self._kind, self._registry, self._subject)

    def encode(self, value: M, topic: str) -> bytes:
        """Return the body for a message; registers the schema on first use.

        :raises BodyMismatch: it is of another class, or a required field is missing.
        :raises RegistryError: the registry does not respond, or refuses the schema.
        """
        if not isinstance(value, self._kind):
            raise BodyMismatch(f"{shortened(repr(value))} is no {self._kind.__name__}")
        schema_id = self._registry.register(self._subject or f"{topic}-value", self._schema)
        try:
            return framed(schema_id, self._prefix + value.SerializeToString())
        except EncodeError as e:
            raise BodyMismatch(f"a {self._kind.__name__} cannot be written: {e}") from e

    def decode(self, body: bytes) -> M:
        """Return the message of a body.

        :raises BodyMismatch: the body is no message, or one of another type of the schema.
        :raises RegistryError: the registry does not respond.
        """
        schema_id, rest = unframed(body)
        schema = self._registry.schema(schema_id)
        if schema.kind != "PROTOBUF":
            raise BodyMismatch(f"schema {schema_id} is of kind {schema.kind}, not PROTOBUF")
        indexes, payload = decode_indexes(rest)
        if indexes != self._indexes:
            raise BodyMismatch(f"the body has message type {indexes} of schema {schema_id}, not {self._indexes}")
        try:
            found: M = self._kind.FromString(payload)
        except DecodeError as e:
            raise BodyMismatch(f"the body is no {self._kind.__name__}: {e}") from e
        return found


def place_of(descriptor: Any) -> list[int]:
    """Return the place of a message type in its file: its index, after those of the types that contain it."""
    if descriptor.containing_type is None:
        return [list(descriptor.file.message_types_by_name.values()).index(descriptor)]
    outer = descriptor.containing_type
    return [*place_of(outer), list(outer.nested_types).index(descriptor)]
