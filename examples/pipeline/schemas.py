"""The form of bodies: Avro, in two versions of one schema, with and without a schema registry."""

from __future__ import annotations

import json
from typing import Any

from rocketmq_py.serde import Avro, BodyMismatch, Registry, RegistryError, Schema, SchemaRegistry

_TEXT_OR_NULL = ["null", "string"]
_NUMBER_OR_NULL = ["null", "double"]
_OLD: list[dict[str, Any]] = [
    {"name": "id", "type": "string"},
    {"name": "scheduled", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "carrier", "type": "string"},
    {"name": "tailnum", "type": _TEXT_OR_NULL},
    {"name": "origin", "type": "string"},
    {"name": "dest", "type": "string"},
    {"name": "distance", "type": "int"},
    {"name": "dep_delay", "type": _NUMBER_OR_NULL},
]
_NEW: list[dict[str, Any]] = [*_OLD, {"name": "arr_delay", "type": _NUMBER_OR_NULL, "default": None}]
OLD, NEW = (json.dumps({"type": "record", "name": "Flight", "fields": fields}) for fields in (_OLD, _NEW))
"""The second version adds ``arr_delay``. It has a default, so readers of the new version read old bodies."""
COLUMNS = """id string, scheduled timestamp, carrier string, tailnum string, origin string, dest string, distance int,
             dep_delay double, arr_delay double"""


class BuiltInSchemas:
    """A registry without a server: the schemas of this program, numbered from 1. All programs must have the same."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    def register(self, subject: str, schema: Schema) -> int:
        """Return the number of a schema.

        :raises RegistryError: it is not one of the program's.
        """
        if schema.text not in self._texts:
            raise RegistryError(f"{subject}: the program does not have this schema; add it, or use a registry")
        return self._texts.index(schema.text) + 1

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with a number.

        :raises BodyMismatch: there is none.
        """
        if not 0 < schema_id <= len(self._texts):
            raise BodyMismatch(f"the program has no schema {schema_id}")
        return Schema(self._texts[schema_id - 1])


def old_and_new(registry_url: str | None) -> tuple[Avro, Avro]:
    """The two versions, with the registry at an address or without one."""
    registry: Registry = BuiltInSchemas(OLD, NEW) if registry_url is None else SchemaRegistry(registry_url)
    return Avro(OLD, registry), Avro(NEW, registry)
