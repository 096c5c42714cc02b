"""What Spark's Python processes do before PySpark: connect early, import early. For ``PYTHONPATH`` of tests.

A process of a streaming source connects to Spark before it imports PySpark.
Spark gives such a process 10 s to connect, a constant that no setting changes, and then fails the query with "Python
worker failed to connect back". The process imports PySpark first, which takes longer on a machine that runs the other
tests, too. Spark starts only these processes with the name of a socket in their environment.

For everything else Spark has a daemon for each kind of worker, and forks it: three or four times for each query. The
daemon imports what its workers need, which takes each of them 0.7 to 1.2 seconds of a core otherwise.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec

_PATH = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")


def _connect(path: str) -> None:
    """Connect to Spark; the socket with which PySpark connects to this path later gets the connection."""
    import socket

    early = socket.socket(socket.AF_UNIX)
    try:
        early.connect(path)
    except OSError:  # a process that a worker has started: Spark listens no longer
        early.close()
        return

    def connect(later: socket.socket, address: str) -> None:
        if address != path:
            super(socket.socket, later).connect(address)
            return
        del socket.socket.connect
        os.dup2(early.fileno(), later.fileno(), inheritable=False)
        early.close()
        later.settimeout(later.gettimeout())

    setattr(socket.socket, "connect", connect)  # noqa: B010 - until PySpark has connected


def _import_for(worker: str) -> None:
    """Import the slow part of what workers of this kind import, as far as it is installed."""
    for name in ("pyarrow", "pyspark_rocketmq", *(["pandas"] if worker == "pyspark.worker" else [])):
        if find_spec(name) is not None:
            import_module(name)


if _PATH:
    _connect(_PATH)
elif sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    _import_for(sys.orig_argv[-1])
