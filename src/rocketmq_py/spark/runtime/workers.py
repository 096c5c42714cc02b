"""Settings of Spark's Python workers: processes that run task after task."""

from __future__ import annotations

import gc
import sys
from functools import cache

_DAEMON = "pyspark.daemon"


def keep_imports() -> None:
    """Exclude imported modules from garbage collection; in Python workers only, and again after further imports.

    Spark has its workers collect garbage after every task, and the next one waits for that: 20 to 40 ms with PySpark,
    PyArrow and NumPy in memory, more than a small task takes. What Spark itself imports at the end of a first write
    (pandas) comes after that task began, and is left out when the second one begins.
    """
    _keep(len(sys.modules))


@cache
def _keep(modules: int) -> None:
    """Freeze once per number of modules: to ask the collector would take as long as to freeze again."""
    del modules
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == _DAEMON:
        gc.freeze()
