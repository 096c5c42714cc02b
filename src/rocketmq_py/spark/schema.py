"""The default schema of a read, and checks of a user's schema.

A user's schema picks columns: others are neither decoded nor passed to Spark.
"""

from __future__ import annotations

import difflib
from typing import Any

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

from rocketmq_py.errors import ConfigError
from rocketmq_py.spark.decode.bad_records import CORRUPT_REASON, CORRUPT_RECORD
from rocketmq_py.spark.options.options import ReadOptions

READ_TYPES: dict[str, DataType] = {
    "topic": StringType(),
    "brokerName": StringType(),
    "queueId": IntegerType(),
    "queueOffset": LongType(),
    "body": BinaryType(),
    "tags": StringType(),
    "keys": StringType(),
    "bornTimestamp": TimestampType(),
    "storeTimestamp": TimestampType(),
    "reconsumeTimes": IntegerType(),
    "msgId": StringType(),
    "properties": MapType(StringType(), StringType()),
    CORRUPT_RECORD: BinaryType(),
    CORRUPT_REASON: StringType(),
}
"""Type of each column a read can give, in the order of the default schema. ``body`` may be a string, too."""

_WHEN_ASKED_FOR = frozenset({"properties", CORRUPT_RECORD, CORRUPT_REASON})
_OF_ANY_RECORD = frozenset({"topic", "brokerName", "queueId", "queueOffset"})
"""Columns that are known even if a message cannot be decoded."""

BODY = "body"


def default_schema(options: ReadOptions) -> StructType:
    """The columns of a read without a schema of the user's.

    :raises ConfigError: option ``columns`` names one there is not.
    """
    names = options.columns or [
        name
        for name in READ_TYPES
        if name not in _WHEN_ASKED_FOR or (name == "properties" and options.include_properties)
    ]
    for name in names:
        if name not in READ_TYPES:
            raise ConfigError(f"option columns has an {_unknown_column(name)}")
    kinds = {**READ_TYPES, BODY: StringType()} if options.body_type == "string" else READ_TYPES
    return StructType([StructField(name, kinds[name]) for name in names])


def check_read_schema(schema: StructType) -> StructType:
    """Return ``schema`` if a read can fill it.

    :raises ConfigError: a column is unknown, has another type, or is declared as not nullable although it may be null.
    """
    corrupt = {CORRUPT_RECORD, CORRUPT_REASON}
    nullable = {"tags", "keys", *corrupt}
    if corrupt.intersection(schema.fieldNames()):
        nullable = READ_TYPES.keys() - _OF_ANY_RECORD
    for field in schema.fields:
        expected = READ_TYPES.get(field.name)
        if expected is None:
            raise ConfigError(f"the schema of a read has an {_unknown_column(field.name)}")
        if field.dataType != expected and not (field.name == BODY and field.dataType == StringType()):
            raise ConfigError(
                f"column {field.name} is of type {expected.simpleString()}, the schema says"
                f" {field.dataType.simpleString()}. Read it so and cast it afterwards"
            )
        if not field.nullable and field.name in nullable:
            raise ConfigError(f"column {field.name} may be null, the schema must not say NOT NULL")
    return schema


def arrow_schema(schema: StructType) -> Any:
    """The Arrow schema for Spark's ``schema``; Spark accepts no other."""
    import pyarrow as pa

    from rocketmq_py.spark.decode import COLUMNS

    kinds = {name: column.kind for name, column in COLUMNS.items()}
    return pa.schema(
        [
            pa.field(f.name, pa.string() if f.dataType == StringType() else kinds[f.name], nullable=f.nullable)
            for f in schema.fields
        ]
    )


def _unknown_column(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), {known.lower(): known for known in READ_TYPES}, n=1)
    by_lower = {known.lower(): known for known in READ_TYPES}
    hint = f"did you mean {by_lower[near[0]]}?" if near else f"known columns: {', '.join(READ_TYPES)}"
    return f"unknown column {name!r}; {hint}"
