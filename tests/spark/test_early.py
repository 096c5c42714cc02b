"""The processes of streaming sources connect to Spark before they import PySpark, in tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("worker", "imported"), [("pyspark.worker", True), ("pyspark.sql.worker.other", False)])
def test_a_daemon_imports_what_its_workers_need(tmp_path: Path, worker: str, *, imported: bool) -> None:
    (tmp_path / "pyspark").mkdir()
    for name in ("pyspark/__init__.py", "pyarrow.py", "pyspark_rocketmq.py", "pandas.py"):
        (tmp_path / name).touch()
    told = "import sys; print([n in sys.modules for n in ('pyarrow', 'pyspark_rocketmq', 'pandas')])"
    (tmp_path / "pyspark" / "daemon.py").write_text(told)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([EARLY, str(tmp_path)])}
    done = subprocess.run([sys.executable, "-m", "pyspark.daemon", worker], env=env, check=True, capture_output=True)
    assert done.stdout.decode() == f"[True, True, {imported}]\n"
