"""Topics as Arrow data, without Spark: for pandas, Polars, DuckDB and whatever else reads Arrow.

Example::

    from rocketmq_py import arrow

    table = arrow.read("orders", namesrv="host:9876", start="-1 hour").read_all()

Needs ``rocketmq-py[arrow]``. pandas and Polars are imported only by :func:`to_pandas` and :func:`scan`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketmq_py.arrow.polars_scan import scan as scan
    from rocketmq_py.arrow.topics import read as read, to_pandas as to_pandas
    from rocketmq_py.arrow.writing import write as write

__all__ = ["read", "scan", "to_pandas", "write"]

_MODULES = {"read": "topics", "scan": "polars_scan", "to_pandas": "topics", "write": "writing"}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: Spark's processes import this package, and need none of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
