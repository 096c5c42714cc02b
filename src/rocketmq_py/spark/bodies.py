"""Bodies as columns: :func:`from_body`, with the forms of :mod:`rocketmq_py.serde` that clients use."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql.functions import col, udf
from pyspark.sql.types import DataType, StructType

from rocketmq_py.serde import BodyMismatch
from rocketmq_py.serde.of_type import serde_of


def from_body(kind: Any, schema: StructType | str, body: Column | str = "body") -> Column:
    """Return a column with the values of message bodies; null where a body does not fit.

    Bodies are decoded in Python, by the same code as in consumers. For JSON, Spark's own ``from_json`` is faster.

    :param kind: a type whose values are written in JSON, or a form of :mod:`rocketmq_py.serde`; executors must be able
        to import it.
    :param schema: the Spark schema of the values; fields that it does not name are left out.
    :param body: the column with the bodies, of type binary.
    :raises ConfigError: ``kind`` is neither.
    """
    serde = serde_of(kind)
    parse: Any = StructType.fromDDL
    wanted = parse(schema) if isinstance(schema, str) else schema

    def decoded(raw: Any) -> Any:
        if raw is None:
            return None
        try:
            return _row(serde.decode(bytes(raw)), wanted)
        except BodyMismatch:
            return None

    make: Any = udf
    column: Column = make(decoded, wanted, useArrow=False)(col(body) if isinstance(body, str) else body)
    return column


def _row(value: Any, schema: DataType) -> Any:
    """Return a value as Spark takes it: structs as tuples, in the order of the schema."""
    if not isinstance(schema, StructType) or value is None:
        return value
    return tuple(_row(_field(value, field.name), field.dataType) for field in schema.fields)


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)
