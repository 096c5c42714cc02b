"""Let a Python process of a streaming source connect to Spark before it imports PySpark. For ``PYTHONPATH`` of tests.

Spark gives such a process 10 s to connect, a constant that no setting changes, and then fails the query with "Python
worker failed to connect back". The process imports PySpark first, which takes longer on a machine that runs the other
tests, too. Spark starts only these processes with the name of a socket in their environment.
"""

from __future__ import annotations

import os

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


if _PATH:
    _connect(_PATH)
