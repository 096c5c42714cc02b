"""The declared pipeline of examples/, run by Spark's own command as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rocketmq_py import Message, Producer
from rocketmq_py.client.admin.blocking import Admin
from rocketmq_py.spark import ensure_java
from rocketmq_py.testing import Cluster
from tests.spark.standalone import QUICK_JVM, tool

pytest.importorskip("pyspark.pipelines", reason="needs PySpark 4.1")
pytestmark = pytest.mark.long
PROJECT = Path(__file__).parents[2] / "examples" / "declarative"
FLIGHTS = 60


@pytest.fixture
def namesrv() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.namesrv


def send_flights(namesrv: str, first: int) -> None:
    """Every third one is late."""
    with Producer(group="tests", namesrv=namesrv) as producer:
        for i in range(first, first + FLIGHTS):
            row = {"id": f"f{i}", "carrier": "AB"[i % 2], "origin": "JFK", "dep_delay": 200.0 if i % 3 == 0 else 1.0}
            producer.send(Message("flights", json.dumps(row).encode(), tags=row["carrier"], keys=row["id"]))


def project(folder: Path, namesrv: str) -> None:
    """The example, with its checkpoints in ``folder`` and another name server."""
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    spec = (folder / "spark-pipeline.yml").read_text()
    for old, new in (("file:///tmp/flights-pipeline", f"file://{folder}/storage"), ("127.0.0.1:9876", namesrv)):
        assert old in spec
        spec = spec.replace(old, new)
    (folder / "spark-pipeline.yml").write_text(spec)


def run_pipeline(folder: Path) -> None:
    ensure_java()
    done = subprocess.run(
        [tool("spark-pipelines"), "run"], cwd=folder,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": QUICK_JVM,
                          "SPARK_TESTING": "1"},  # the port of Spark Connect is any that is free
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def late_flights(namesrv: str) -> list[str]:
    with Admin(namesrv) as admin:
        found = [message for queue in admin.queues("late-flights") for message in admin.read(queue)]
    return sorted(str(message.keys) for message in found)


def test_a_declared_pipeline_reads_a_topic_and_writes_another(namesrv: str, tmp_path: Path) -> None:
    send_flights(namesrv, 0)
    folder = tmp_path / "pipeline"
    project(folder, namesrv)
    run_pipeline(folder)
    assert late_flights(namesrv) == sorted(f"f{i}" for i in range(0, FLIGHTS, 3))
    assert pq.read_table(folder / "spark-warehouse" / "departures").num_rows == FLIGHTS
    delays = pq.read_table(folder / "spark-warehouse" / "delays").to_pylist()
    assert {(row["carrier"], row["flights"]) for row in delays} == {("A", FLIGHTS // 2), ("B", FLIGHTS // 2)}
