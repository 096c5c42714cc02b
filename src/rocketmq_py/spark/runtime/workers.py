"""Python workers of Spark: processes that run task after task.

Knows how such a process looks from inside. Refuses to know what its tasks do.
"""

from __future__ import annotations

import gc
import sys
from functools import cache

_DAEMON = "pyspark.daemon"


def keep_imports() -> None:
    """Leave what has been imported out of garbage collection, once more after further imports; in workers alone.

    Spark has its workers collect garbage after every task, and the next one waits for that: 20 to 40 ms with PySpark,
    PyArrow and NumPy in memory, more than a small task takes. What Spark itself imports at the end of a first write
    (pandas) comes after that task began, and is left out when the second one begins.
    """
    _keep(len(sys.modules))


@cache
def _keep(modules: int) -> None:
    """Whether it was done is remembered: asking the collector takes as long as counting what was left out."""
    del modules
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == _DAEMON:
        gc.freeze()
