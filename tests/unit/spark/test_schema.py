"""Columns of a read: the default ones, those that are chosen, and schemas that no read can have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.arrow.options.selection import Topics
from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.schema import arrow_schema, check_read_schema, default_schema

KINDS: dict[str, DataType] = {
    "topic": StringType(), "brokerName": StringType(), "queueId": IntegerType(), "queueOffset": LongType(),
    "body": BinaryType(), "tags": StringType(), "keys": StringType(), "bornTimestamp": TimestampType(),
    "storeTimestamp": TimestampType(), "reconsumeTimes": IntegerType(), "msgId": StringType(),
}  # fmt: skip
PROPERTIES = MapType(StringType(), StringType())


def default(**given: Any) -> dict[str, DataType]:
    schema = default_schema(ReadOptions(namesrv=("n:1",), selection=Topics(("t",)), **given))
    assert all(field.nullable for field in schema)
    return {field.name: field.dataType for field in schema}


def one(name: str, kind: DataType, *, nullable: bool = True) -> StructField:
    return StructField(name, kind, nullable)


def test_a_read_has_all_columns_but_the_expensive_ones() -> None:
    assert list(default().items()) == list(KINDS.items())
    assert list(default(include_properties=True)) == [*KINDS, "properties"]
    assert default(include_properties=True)["properties"] == PROPERTIES
    assert default(body_type="string") == KINDS | {"body": StringType()}


def test_columns_are_read_in_the_order_they_are_named() -> None:
    assert list(default(columns=("keys", "body", "_corrupt_record"))) == ["keys", "body", "_corrupt_record"]
    assert default(columns=("body", "queueId"), body_type="string") == {"body": StringType(), "queueId": IntegerType()}


def test_an_unknown_column_is_named_with_the_nearest_known() -> None:
    for name, hint in (
        ("offset", "did you mean queueOffset"), ("QUEUEID", "did you mean queueId"),
        ("zzz", "known columns: topic, br"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"^option columns has an unknown column '{name}'; {hint}"):
            default(columns=("body", name))
    with pytest.raises(ConfigError, match=r"^the schema of a read has an unknown column 'tag'; did you mean tags"):
        check_read_schema(StructType([one("tag", StringType())]))


def test_a_schema_names_the_types_that_a_read_has() -> None:
    given = StructType([*(one(name, kind) for name, kind in KINDS.items()), one("properties", PROPERTIES)])
    assert check_read_schema(given) is given
    check_read_schema(StructType([one("body", StringType())]))
    for name, kind, told in (
        ("queueId", LongType(), "column queueId is of type int, the schema says bigint"),
        ("queueId", StringType(), "column queueId is of type int, the schema says string"),
        ("topic", BinaryType(), "column topic is of type string, the schema says binary"),
        ("body", IntegerType(), "column body is of type binary, the schema says int"),
    ):
        with pytest.raises(ConfigError, match=f"^{told}. Read it so and cast it afterwards"):
            check_read_schema(StructType([one(name, kind)]))


def test_a_column_that_may_be_null_cannot_be_not_null() -> None:
    """With a column of corrupt records that are all but those that say where a message is."""

    def refused(*more: str) -> set[str]:
        found = set()
        fields = [one(name, BinaryType() if name == "_corrupt_record" else StringType()) for name in more]
        for name, kind in {**KINDS, "properties": PROPERTIES}.items():
            try:
                check_read_schema(StructType([one(name, kind, nullable=False), *fields]))
            except ConfigError as e:
                assert str(e) == f"column {name} may be null, the schema must not say NOT NULL"  # noqa: PT017
                found.add(name)
        return found

    assert refused() == {"tags", "keys"}
    everything = {*KINDS, "properties"} - {"topic", "brokerName", "queueId", "queueOffset"}
    assert refused("_corrupt_record") == refused("_corrupt_reason") == everything
    for name, kind in (("_corrupt_record", BinaryType()), ("_corrupt_reason", StringType())):
        with pytest.raises(ConfigError, match=f"column {name} may be null"):
            check_read_schema(StructType([one(name, kind, nullable=False)]))


def test_the_record_batches_have_the_types_that_spark_requires() -> None:
    given = StructType(
        [one("queueId", IntegerType(), nullable=False), one("body", StringType()), one("tags", StringType())]
    )
    assert arrow_schema(given) == pa.schema(
        [pa.field("queueId", pa.int32(), nullable=False), pa.field("body", pa.string()), pa.field("tags", pa.string())]
    )
    assert arrow_schema(StructType([one("body", BinaryType())])).field("body").type == pa.binary()
