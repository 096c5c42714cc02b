"""The PySpark data source ``rocketmq``: batch and streaming reads, batch and streaming writes.

Spark finds it by itself (through the top-level package ``pyspark_rocketmq``); nothing has to be registered::

    df = spark.readStream.format("rocketmq").option("namesrv", "host:9876").option("subscribe", "orders").load()

:func:`session_builder` gives a Spark session that also starts where no Java is installed. Importing this package does
not import PySpark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketmq_py.spark.jre import ensure_java as ensure_java, session_builder as session_builder

__all__ = ["ensure_java", "session_builder"]


def __getattr__(name: str) -> Any:
    """Import what starts Spark when it is used: every Python worker imports this package, and none starts Spark."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rocketmq_py.spark import jre

    return getattr(jre, name)
