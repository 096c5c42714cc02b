"""Topics as lazy frames of Polars: :func:`scan`.

Polars passes the columns, the condition and the number of rows that a query needs. Conditions on queues, offsets, store
times and tags reduce what is read; Polars' whole condition is applied to the rows in any case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from rocketmq_py.arrow.source.pruning import Pruning
from rocketmq_py.arrow.topics import ReadSettings, planned, read_options, read_schema
from rocketmq_py.errors import ConfigError

_NAMES = {
    "Eq": "EqualTo",
    "Gt": "GreaterThan",
    "GtEq": "GreaterThanOrEqual",
    "Lt": "LessThan",
    "LtEq": "LessThanOrEqual",
}
_TURNED = {"Eq": "Eq", "Gt": "Lt", "GtEq": "LtEq", "Lt": "Gt", "LtEq": "GtEq"}
_CLOSED = {"Both": ("GtEq", "LtEq"), "Left": ("GtEq", "Lt"), "Right": ("Gt", "LtEq"), "None": ("Gt", "Lt")}
_UNITS = {"Milliseconds": 1000, "Microseconds": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def scan(topic: str | Sequence[str] | re.Pattern[str], **settings: Unpack[ReadSettings]) -> Any:
    """Return a Polars ``LazyFrame`` of a topic; each query of it reads what is in the topic then.

    Of a query's condition, comparisons of ``topic``, ``brokerName``, ``queueId``, ``queueOffset``, ``storeTimestamp``
    and ``tags`` with constants reduce what is read; only columns that the query uses are decoded.

    :param settings: as of :func:`~rocketmq_py.arrow.read`.
    :raises ConfigError: a setting is illegal, or Polars is not installed.
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as e:
        raise ConfigError("arrow.scan() needs polars: pip install polars") from e
    schema = read_schema(settings)
    read_options(topic, settings)

    def source(with_columns: list[str] | None, predicate: Any, n_rows: int | None, _: int | None) -> Iterator[Any]:
        wanted = list(schema.names) if with_columns is None else with_columns
        used = set(wanted) | set(() if predicate is None else predicate.meta.root_names())
        names = [name for name in schema.names if name in used] or schema.names[:1]
        changed = settings | {"columns": names}
        left = n_rows
        for batch in planned(topic, changed, None if predicate is None else pruning_of(predicate)).reader():
            frame: Any = pl.from_arrow(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            frame = frame.select(wanted) if left is None else frame.select(wanted).head(left)
            yield frame
            if left is not None and (left := left - frame.height) <= 0:
                return

    nothing: Any = pl.from_arrow(schema.empty_table())
    return register_io_source(source, schema=nothing.schema, validate_schema=True)


def pruning_of(predicate: Any) -> Pruning:
    """Return what a condition of Polars says about the messages to read; parts that it does not know say nothing."""
    pruning = Pruning()
    with suppress(Exception):  # the form of the document is Polars' own; without it more is read, and nothing is lost
        _add(json.loads(predicate.meta.serialize(format="json")), pruning)
    return pruning


def _add(node: Any, pruning: Pruning) -> None:
    if binary := node.get("BinaryExpr"):
        left, op, right = binary["left"], binary["op"], binary["right"]
        if op == "And":
            _add(left, pruning)
            _add(right, pruning)
        elif "Literal" in left and op in _TURNED:
            _compare(right, _TURNED[op], left, pruning)
        else:
            _compare(left, op, right, pruning)
    elif function := node.get("Function"):
        kind = function["function"].get("Boolean", {})
        if isinstance(kind, dict) and "IsBetween" in kind:
            column, low, high = function["input"]
            for op, bound in zip(_CLOSED[kind["IsBetween"]["closed"]], (low, high), strict=True):
                _compare(column, op, bound, pruning)
        elif isinstance(kind, dict) and "IsIn" in kind:
            column, found = function["input"]
            pruning.add(column["Column"], "In", _members(found["Literal"]["Scalar"]["List"]))


def _compare(column: Any, op: str, literal: Any, pruning: Pruning) -> None:
    if "Column" in column and "Literal" in literal and op in _NAMES:
        value = _value(literal["Literal"])
        if value is not None:
            pruning.add(column["Column"], _NAMES[op], value)


def _value(literal: Any) -> Any:
    """Return the constant of a literal; None if it is of a kind that no supported column has."""
    ((kind, value),) = (literal.get("Scalar") or literal.get("Dyn") or {"": None}).items()
    if kind == "Datetime":
        number, unit, zone = value
        return None if zone is None or unit not in _UNITS else _EPOCH + timedelta(microseconds=number * _UNITS[unit])
    return value if type(value) in (int, str) else None


def _members(encoded: Sequence[int]) -> list[Any]:
    """Return the elements of a list literal, which is encoded as an Arrow stream."""
    import pyarrow as pa

    (column,) = pa.ipc.open_stream(bytes(encoded)).read_all().columns
    return [one for row in column.to_pylist() for one in (row if isinstance(row, list) else [row])]
