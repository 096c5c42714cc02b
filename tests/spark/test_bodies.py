"""Bodies as columns: the forms that clients use, in Spark; and Spark's own readers behind the prefix of a registry."""

from __future__ import annotations

from pyspark.sql import Row, SparkSession

from rocketmq_py.serde import Avro, Protobuf, SchemaRegistry
from rocketmq_py.spark import from_body
from tests.schema_registry import schema_server

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "number", "type": "long"}, {"name": "item", "type": "string", "default": "tea"}],
}


def test_json_avro_and_protobuf_become_columns(spark: SparkSession) -> None:
    from google.protobuf.type_pb2 import Field

    with schema_server() as server:
        registry = SchemaRegistry(server.url)
        avro, proto = Avro(SCHEMA, registry), Protobuf(Field, registry)
        bodies = {
            "json": [b'{"number": 1, "item": "cake"}', b"{"],
            "avro": [avro.encode({"number": 2, "item": "cake"}, "t"), b"no avro"],
            "proto": [proto.encode(Field(number=3, name="cake"), "f"), b""],
        }
        kinds = {"json": dict, "avro": avro, "proto": proto}
        schemas = {
            "json": "number bigint, item string",
            "avro": "item string, number bigint",
            "proto": "number int, name string",
        }
        for form, (good, bad) in bodies.items():
            frame = spark.createDataFrame([(bytearray(good),), (bytearray(bad),), (None,)], "body binary")
            found = [row.value for row in frame.select(from_body(kinds[form], schemas[form]).alias("value")).collect()]
            assert found[1:] == [None, None], form
            assert found[0] == Row(**{
                "json": {"number": 1, "item": "cake"}, "avro": {"item": "cake", "number": 2},
                "proto": {"number": 3, "name": "cake"},
            }[form])  # fmt: skip
