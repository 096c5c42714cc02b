"""A setting of the garbage collector in Spark's Python workers, processes that run many tasks one after another."""

from __future__ import annotations

import gc
import sys
from functools import cache

_DAEMON = "pyspark.daemon"


def keep_imports() -> None:
    """Exclude the modules imported by now from garbage collection (:func:`gc.freeze`), in Python workers only.

    Spark makes its workers collect garbage after every task, and the next task waits for that: 20 to 40 ms with
    PySpark, PyArrow and NumPy in memory, more than a small task takes. Called at the start of every task, since Spark
    imports more modules later (pandas, at the end of the first write).
    """
    _keep(len(sys.modules))


@cache
def _keep(modules: int) -> None:
    """Call :func:`gc.freeze` in a Python worker. Cached, so that it runs once for each number of modules.

    Finding out from the garbage collector whether it is necessary would take as long as freezing.
    """
    del modules
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == _DAEMON:
        gc.freeze()
