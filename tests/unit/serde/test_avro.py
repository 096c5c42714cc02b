"""Avro and Protobuf bodies with a schema registry: what is written, evolution in both directions, hostile bodies."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.type_pb2 import Enum, Field, Type

from rocketmq_py.errors import ConfigError
from rocketmq_py.serde import Avro, BodyMismatch, Protobuf, RegistryError, SchemaRegistry
from rocketmq_py.serde.protobuf import place_of
from tests.schema_registry import SchemaServer, schema_server

FIELDS = [{"name": "number", "type": "long"}, {"name": "item", "type": "string"}]
ORDER = {"type": "record", "name": "Order", "fields": FIELDS}
WITH_PRICE = {**ORDER, "fields": [*FIELDS, {"name": "price", "type": "int", "default": 5}]}
WITHOUT_ITEM = {**ORDER, "fields": FIELDS[:1]}
OTHER = {**ORDER, "fields": [{"name": "number", "type": "long"}, {"name": "needed", "type": "string"}]}


@pytest.fixture(scope="module")
def server() -> Iterator[SchemaServer]:
    with schema_server() as running:
        yield running


@pytest.fixture
def registry(server: SchemaServer) -> SchemaRegistry:
    return SchemaRegistry(server.url)


def test_a_value_comes_back_and_its_schema_is_registered_once(server: SchemaServer, registry: SchemaRegistry) -> None:
    serde = Avro(ORDER, registry)
    server.requests.clear()
    bodies = [serde.encode({"number": i, "item": "tea"}, "orders") for i in range(3)]
    assert bodies[2][:1] + bodies[2][5:] == b"\0" + b"\x04\x06tea"
    assert [serde.decode(body) for body in bodies] == [{"number": i, "item": "tea"} for i in range(3)]
    assert server.subjects["orders-value"] == [int.from_bytes(bodies[0][1:5], "big")]
    assert len(server.requests) <= 2
    assert pickle.loads(pickle.dumps(serde)).decode(bodies[1]) == {"number": 1, "item": "tea"}
    Avro(json.dumps(ORDER), registry, subject="mine").encode({"number": 1, "item": "x"}, "orders")
    assert "mine" in server.subjects


def test_the_registry_is_asked_once_for_the_schema_of_many_bodies(registry: SchemaRegistry) -> None:
    body = Avro(ORDER, registry).encode({"number": 1, "item": "tea"}, "orders")
    serde = Avro(ORDER, registry)
    serde.decode(body)
    serde._registry = None  # type: ignore[assignment]
    assert serde.decode(body) == {"number": 1, "item": "tea"}


def test_schemas_evolve_in_both_directions(registry: SchemaRegistry) -> None:
    old, new, short = (Avro(schema, registry) for schema in (ORDER, WITH_PRICE, WITHOUT_ITEM))
    was, now = old.encode({"number": 1, "item": "tea"}, "t"), new.encode({"number": 2, "item": "tea", "price": 9}, "t")
    assert new.decode(was) == {"number": 1, "item": "tea", "price": 5}
    assert old.decode(now) == {"number": 2, "item": "tea"}
    assert short.decode(now) == {"number": 2}
    with pytest.raises(BodyMismatch, match="not of the reader's"):
        Avro(OTHER, registry).decode(was)


def test_bodies_that_do_not_fit(server: SchemaServer, registry: SchemaRegistry) -> None:
    serde = Avro(ORDER, registry)
    body = serde.encode({"number": 1, "item": "tea"}, "t")
    wrong = [body[:-1], body + b"x", body[:5], body[:6] + b"\xff" * 9, b"\0\0\0\x7f\xff" + body[5:], b"text", b"",
             body[:5] + b"\xff" * 20, body[:7] + b"\xff\xff"]  # fmt: skip
    for one in wrong:
        with pytest.raises(BodyMismatch):
            serde.decode(one)
    server.requests.clear()
    for _ in range(5):
        with pytest.raises(BodyMismatch, match="the registry has no schema 32767"):
            serde.decode(b"\0\0\0\x7f\xff")
    assert server.requests == [], "an unknown id is not asked for again and again"
    for value in ({"number": "x", "item": "y"}, {"number": 1}, {"number": 1, "item": "t", "more": 1}, 3):
        with pytest.raises(BodyMismatch, match="does not fit the schema"):
            serde.encode(value, "t")
    with pytest.raises(ConfigError, match="is no Avro schema"):
        Avro('{"type": "rec"}', registry)
    with pytest.raises(BodyMismatch, match="is of kind AVRO, not PROTOBUF"):
        Protobuf(Timestamp, registry).decode(body)


def test_a_registry_that_does_not_answer_is_no_mismatch() -> None:
    with schema_server() as gone:
        gone_url = gone.url
    registry = SchemaRegistry(gone_url, **{"max.retries": 0})
    with pytest.raises(RegistryError) as raised:
        Avro(ORDER, registry).decode(b"\0\0\0\0\1ab")
    assert raised.value.retryable
    with pytest.raises(RegistryError, match="t-value cannot be registered"):
        Avro(ORDER, registry).encode({"number": 1, "item": "tea"}, "t")


def test_a_schema_that_the_registry_refuses(registry: SchemaRegistry) -> None:
    with pytest.raises(RegistryError, match="incompatible"):
        Avro(ORDER, registry).encode({"number": 1, "item": "tea"}, "closed")


def test_protobuf_messages(server: SchemaServer, registry: SchemaRegistry) -> None:
    serde = Protobuf(Field, registry)
    assert (place_of(Type.DESCRIPTOR), place_of(Field.DESCRIPTOR), place_of(Enum.DESCRIPTOR)) == ([0], [1], [2])
    body = serde.encode(Field(name="n", number=7), "fields")
    assert body[5:7] == b"\x02\x02", "the second message of its file"
    assert serde.decode(body) == Field(name="n", number=7)
    assert Protobuf(Type, registry).encode(Type(name="t"), "types")[5:6] == b"\0"
    assert pickle.loads(pickle.dumps(serde)).decode(body) == Field(name="n", number=7)
    assert server.schemas[server.subjects["fields-value"][0] - 1]["schemaType"] == "PROTOBUF"
    with pytest.raises(BodyMismatch, match=r"message type \[1\] of schema \d+, not \[2\]"):
        Protobuf(Enum, registry).decode(body)
    for wrong in (body[:5], body[:7] + b"\xff\xff", body[:-1], b""):
        with pytest.raises(BodyMismatch):
            serde.decode(wrong)
    with pytest.raises(BodyMismatch, match="is no Field"):
        serde.encode(Enum(), "fields")  # type: ignore[arg-type]
    avro = Avro(ORDER, registry).encode({"number": 1, "item": "tea"}, "t")
    with pytest.raises(BodyMismatch, match="not AVRO"):
        Avro(ORDER, registry).decode(body)
    assert avro


def test_a_protobuf_message_without_a_required_field_is_refused(registry: SchemaRegistry) -> None:
    from google.protobuf.descriptor_pb2 import UninterpretedOption

    serde = Protobuf(UninterpretedOption.NamePart, registry)
    with pytest.raises(BodyMismatch, match=r"a NamePart cannot be written: .*name_part"):
        serde.encode(UninterpretedOption.NamePart(is_extension=True), "parts")
    whole = UninterpretedOption.NamePart(name_part="n", is_extension=True)
    assert serde.decode(serde.encode(whole, "parts")) == whole


def test_a_nested_message_type_has_a_longer_place() -> None:
    from google.protobuf.descriptor_pb2 import DescriptorProto

    assert place_of(DescriptorProto.ExtensionRange.DESCRIPTOR) == [*place_of(DescriptorProto.DESCRIPTOR), 0]
