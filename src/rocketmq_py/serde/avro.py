"""Avro bodies, with the id of the writer's schema in front."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from struct import error as StructError
from typing import Any

import fastavro
from fastavro.read import SchemaResolutionError

from rocketmq_py.errors import ConfigError, shortened
from rocketmq_py.serde.base import BodyMismatch
from rocketmq_py.serde.confluent import framed, unframed
from rocketmq_py.serde.registry import Registry, Schema

_FAULTS = (EOFError, IndexError, KeyError, OverflowError, StructError, TypeError, ValueError, AssertionError)
"""What fastavro raises for bytes that are no value of their schema."""


class Avro:
    """Avro bodies: dicts and other plain values.

    A body is written with the writer's schema, whose id is in front of it, and read as one of this schema: fields that
    it lacks get their defaults, and others are dropped, by Avro's rules of schema evolution.

    :param schema: the schema of encoded values, and that of decoded ones, as JSON text or as Python values.
    :param registry: where schemas get their ids.
    :param subject: the subject under which the schema is registered; None: the topic, ``-value``.
    :raises ConfigError: it is no schema.
    """

    def __init__(self, schema: str | Mapping[str, Any], registry: Registry, subject: str | None = None) -> None:
        self._text = schema if isinstance(schema, str) else json.dumps(schema)
        self._registry = registry
        self._subject = subject
        self._reader = _parsed(self._text)
        self._writers: dict[int, Any] = {}

    def __reduce__(self) -> tuple[type[Avro], tuple[str, Registry, str | None]]:
        return Avro, (self._text, self._registry, self._subject)

    def encode(self, value: Any, topic: str) -> bytes:
        """Return the body for a value; registers the schema on first use.

        :raises BodyMismatch: the value does not fit the schema.
        :raises RegistryError: the registry does not respond, or refuses the schema.
        """
        schema_id = self._registry.register(self._subject or f"{topic}-value", Schema(self._text, "AVRO"))
        out = BytesIO()
        try:
            fastavro.schemaless_writer(out, self._reader, value, strict=True)
        except (*_FAULTS, AttributeError) as e:
            raise BodyMismatch(f"{shortened(repr(value))} does not fit the schema: {e!r}") from e
        return framed(schema_id, out.getvalue())

    def decode(self, body: bytes) -> Any:
        """Return the value of a body.

        :raises BodyMismatch: the body has no value of its schema, or one that cannot be read as this schema.
        :raises RegistryError: the registry does not respond.
        """
        schema_id, payload = unframed(body)
        stream = BytesIO(payload)
        try:
            found = fastavro.schemaless_reader(stream, self._writer(schema_id), self._reader)
        except (*_FAULTS, SchemaResolutionError) as e:
            raise BodyMismatch(f"the body is no value of schema {schema_id}, or not of the reader's: {e!r}") from e
        if stream.tell() != len(payload):
            raise BodyMismatch(f"{len(payload) - stream.tell()} bytes follow the value of schema {schema_id}")
        return found

    def _writer(self, schema_id: int) -> Any:
        if schema_id not in self._writers:
            schema = self._registry.schema(schema_id)
            if schema.kind != "AVRO":
                raise BodyMismatch(f"schema {schema_id} is of kind {schema.kind}, not AVRO")
            self._writers[schema_id] = _parsed(schema.text)
        return self._writers[schema_id]


def _parsed(text: str) -> Any:
    try:
        return fastavro.parse_schema(json.loads(text))
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as e:
        raise ConfigError(f"{shortened(text)} is no Avro schema: {e!r}") from e
