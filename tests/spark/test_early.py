"""The processes of streaming sources connect to Spark before they import PySpark, in tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.conftest import EARLY

WORKER = """
import socket, sys
sys.stdin.readline()
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(60)
sock.connect(sys.argv[1])
with sock.makefile("rwb") as file:
    file.write(b"pid\\n")
    file.flush()
    sys.exit(file.readline() != b"go on\\n")
"""


def test_a_worker_is_connected_before_it_connects(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(1)
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, path], stdin=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHON_WORKER_FACTORY_SOCK_PATH": path, "PYTHONPATH": EARLY},
        )  # fmt: skip
        spark, _ = server.accept()
    (tmp_path / "socket").unlink()  # as Spark does
    with spark, spark.makefile("rwb") as file:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.close()
        assert file.readline() == b"pid\n"
        file.write(b"go on\n")
        file.flush()
        assert worker.wait() == 0


def test_what_a_worker_starts_does_not_connect(tmp_path: Path) -> None:
    path = str(tmp_path / "nobody")
    env = os.environ | {"PYTHON_WORKER_FACTORY_SOCK_PATH": path, "PYTHONPATH": EARLY}
    assert subprocess.run([sys.executable, "-c", "print(1)"], env=env, check=True, capture_output=True).stdout == b"1\n"
