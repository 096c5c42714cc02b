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

from rocketmq_py.arrow.bad_records import CORRUPT_REASON, CORRUPT_RECORD
from rocketmq_py.arrow.column_names import DEFAULT_COLUMNS
from rocketmq_py.arrow.options.read import ReadOptions
from rocketmq_py.errors import ConfigError

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
    "flag": IntegerType(),
    "transactionId": StringType(),
    "bornHost": StringType(),
    "storeHost": StringType(),
    "commitLogOffset": LongType(),
    "storeSize": IntegerType(),
    CORRUPT_RECORD: BinaryType(),
    CORRUPT_REASON: StringType(),
}
"""Spark type of each column a read can return. ``body`` may also be a string."""

_OF_ANY_RECORD = frozenset({"topic", "brokerName", "queueId", "queueOffset"})
"""Columns that have a value even in the row of a message that cannot be decoded."""

BODY = "body"


def default_schema(options: ReadOptions) -> StructType:
    """Return the columns of a read for which the user gives no schema.

    :raises ConfigError: option ``columns`` names an unknown column.
    """
    names = options.columns or (*DEFAULT_COLUMNS, *(["properties"] if options.include_properties else []))
    for name in names:
        if name not in READ_TYPES:
            raise ConfigError(f"option columns has an {_unknown_column(name)}")
    kinds = {**READ_TYPES, BODY: StringType()} if options.body_type == "string" else READ_TYPES
    return StructType([StructField(name, kinds[name]) for name in names])


def check_read_schema(schema: StructType) -> StructType:
    """Return the user's ``schema`` unchanged if a read can produce all its columns.

    :raises ConfigError: a column is unknown, has another type, or is declared as not nullable although it may be null.
    """
    corrupt = {CORRUPT_RECORD, CORRUPT_REASON}
    nullable = {"tags", "keys", "transactionId", *corrupt}
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
    """Return the Arrow schema of the record batches that Spark requires for the Spark schema ``schema``."""
    import pyarrow as pa

    from rocketmq_py.arrow.decode import COLUMNS

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
