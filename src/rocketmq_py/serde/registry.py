"""Schema registries: where schemas have numbers. Confluent's API, which Apicurio and Karapace have, too."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple, Protocol

from rocketmq_py.errors import ConfigError, RocketMQError
from rocketmq_py.serde.base import BodyMismatch

_UNKNOWN_SECONDS = 30.0
_MOST_UNKNOWN = 1024
_MOST_KNOWN = 4096
_NOT_FOUND = 404


class RegistryError(RocketMQError):
    """A schema registry does not respond, or refuses a request; trying again may help."""

    retryable = True


class Schema(NamedTuple):
    """A schema as a registry keeps it.

    :ivar text: the schema; for PROTOBUF the file descriptor in base64, as Confluent's client writes it.
    :ivar kind: ``AVRO`` or ``PROTOBUF``.
    """

    text: str
    kind: str = "AVRO"


class Registry(Protocol):
    """Where schemas get their ids. Thread-safe, and can be pickled for Spark."""

    def register(self, subject: str, schema: Schema) -> int:
        """Return the id of a schema, which is registered under a subject if it is new there.

        :raises RegistryError: the registry does not respond, or the schema is not compatible with earlier ones.
        """

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id.

        :raises BodyMismatch: there is none.
        :raises RegistryError: the registry does not respond.
        """


class SchemaRegistry:
    """A registry with Confluent's API, asked with Confluent's client (``confluent-kafka[schemaregistry]``).

    Schemas are kept, and unknown ids are asked for again after 30 s only: messages can have any.

    :param url: its address, ``http://host:8081``.
    :param settings: further settings of Confluent's ``SchemaRegistryClient``, such as ``basic.auth.user.info``.
    """

    def __init__(self, url: str, **settings: Any) -> None:
        self._settings = {"url": url, **settings}
        self._lock = threading.Lock()
        self._client_or_none: Any = None
        self._known: dict[int, Schema] = {}
        self._registered: dict[tuple[str, Schema], int] = {}
        self._unknown: dict[int, float] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out connections, and what was learned."""
        return self._settings

    def __setstate__(self, settings: dict[str, Any]) -> None:
        self.__init__(**settings)  # type: ignore[misc]

    def register(self, subject: str, schema: Schema) -> int:
        """Return the id of a schema, which is registered under a subject if it is new there.

        :raises RegistryError: the registry does not respond, or the schema is not compatible with earlier ones.
        :raises ConfigError: Confluent's client is not installed.
        """
        client, made = self._client()
        with self._lock:
            found = self._registered.get((subject, schema))
            if found is None:
                try:
                    found = int(client.register_schema(subject, made(schema.text, schema.kind)))
                except Exception as e:  # its own errors, and those of the HTTP library that it uses
                    raise RegistryError(f"a schema of {subject} cannot be registered: {e}") from e
                self._registered[subject, schema] = found
            return found

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with an id.

        :raises BodyMismatch: there is none.
        :raises RegistryError: the registry does not respond.
        :raises ConfigError: Confluent's client is not installed.
        """
        known = self._known.get(schema_id)
        if known is not None:
            return known
        client, _ = self._client()
        with self._lock:
            if time.monotonic() - self._unknown.get(schema_id, -_UNKNOWN_SECONDS) < _UNKNOWN_SECONDS:
                raise BodyMismatch(f"the registry has no schema {schema_id}")
            try:
                found = client.get_schema(schema_id)
            except Exception as e:
                if getattr(e, "http_status_code", None) != _NOT_FOUND:
                    raise RegistryError(f"schema {schema_id} cannot be looked up: {e}") from e
                if len(self._unknown) >= _MOST_UNKNOWN:
                    self._unknown.clear()
                self._unknown[schema_id] = time.monotonic()
                raise BodyMismatch(f"the registry has no schema {schema_id}") from e
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[schema_id] = Schema(found.schema_str, found.schema_type or "AVRO")
            return self._known[schema_id]

    def _client(self) -> tuple[Any, Any]:
        """Return Confluent's client and its class of schemas."""
        try:
            from confluent_kafka import schema_registry
        except ImportError as e:
            raise ConfigError("a schema registry needs the extra: pip install 'rocketmq-py[serde]'") from e
        with self._lock:
            if self._client_or_none is None:
                self._client_or_none = schema_registry.SchemaRegistryClient(self._settings)
        return self._client_or_none, schema_registry.Schema
