"""Spark's names for the columns: the default schema, and what is wrong with a schema a user gives.

A user's schema picks columns: what it leaves out is neither decoded nor handed to Spark.
"""

from __future__ import annotations

import difflib
from typing import Any

import pyarrow as pa
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
from rocketmq_py.spark.decode import COLUMNS

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
}
"""Type of each column a read can give, in the order of the default schema."""


def default_schema(include_properties: bool) -> StructType:
    """The columns of a read without a schema of the user's."""
    names = [name for name in READ_TYPES if include_properties or name != "properties"]
    return StructType([StructField(name, READ_TYPES[name]) for name in names])


def arrow_schema(schema: StructType) -> Any:
    """The Arrow schema of what is read for Spark's ``schema``; Spark insists on exactly this one.

    :raises ConfigError: a column is unknown, of another type, or said to be never null although it may be.
    """
    for field in schema.fields:
        expected = READ_TYPES.get(field.name)
        if expected is None:
            raise ConfigError(_unknown_column(field.name))
        if field.dataType != expected:
            raise ConfigError(
                f"column {field.name} is of type {expected.simpleString()}, the schema says"
                f" {field.dataType.simpleString()}. Read it so and cast it afterwards"
            )
        if not field.nullable and field.name in ("tags", "keys"):
            raise ConfigError(f"column {field.name} may be null, the schema must not say NOT NULL")
    return pa.schema([pa.field(f.name, COLUMNS[f.name].kind, nullable=f.nullable) for f in schema.fields])


def _unknown_column(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), {known.lower(): known for known in READ_TYPES}, n=1)
    by_lower = {known.lower(): known for known in READ_TYPES}
    hint = f"did you mean {by_lower[near[0]]}?" if near else f"known columns: {', '.join(READ_TYPES)}"
    return f"unknown column {name!r} in the schema of a read; {hint}"
