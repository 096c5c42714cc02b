"""Turn values into message bodies and back, for clients and for Spark: JSON, Avro and Protobuf.

Example::

    from rocketmq_py import serde

    orders = serde.Json(Order)
    producer.send(Message("orders", orders.encode(Order(7, "tea"), "orders")))

    @consumer.on("orders", type=Order)
    def handle(order: Order) -> None: ...

Avro and Protobuf bodies have the form of Confluent's serializers: a zero byte, the schema's id in a registry in four
bytes, for Protobuf the indexes of the message type, then the value.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rocketmq_py.serde.base import BodyMismatch as BodyMismatch, Serde as Serde

if TYPE_CHECKING:
    from rocketmq_py.serde.avro import Avro as Avro
    from rocketmq_py.serde.json_bodies import Json as Json
    from rocketmq_py.serde.protobuf import Protobuf as Protobuf
    from rocketmq_py.serde.registry import (
        Registry as Registry,
        RegistryError as RegistryError,
        Schema as Schema,
        SchemaRegistry as SchemaRegistry,
    )

__all__ = ["Avro", "BodyMismatch", "Json", "Protobuf", "Registry", "RegistryError", "Schema", "SchemaRegistry", "Serde"]

_MODULES = {
    "Avro": "avro",
    "Json": "json_bodies",
    "Protobuf": "protobuf",
    **dict.fromkeys(("Registry", "RegistryError", "Schema", "SchemaRegistry"), "registry"),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: each form needs packages of its own."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
