"""Python workers of Spark: processes that run task after task.

Knows how such a process looks from inside. Refuses to know what its tasks do.
"""

from __future__ import annotations

import gc
import sys
from functools import cache

_DAEMON = "pyspark.daemon"


@cache
def keep_imports() -> None:
    """Leave what has been imported out of garbage collection, once in the life of a worker; elsewhere do nothing.

    Spark has its workers collect garbage after every task, and the next one waits for that: 20 to 40 ms with PySpark,
    PyArrow and NumPy in memory, more than a small task takes. Whether it was done is remembered: asking the collector
    takes as long as it takes to count what was left out.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == _DAEMON:
        gc.freeze()
