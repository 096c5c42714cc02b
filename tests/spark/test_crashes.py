"""A few of the runs of ``python -m tests.spark.crashes``, in the session all tests share: its driver stays alive."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION
from tests.spark.crash_servers import Server
from tests.spark.crashes import Case, Runs, copy

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.name != "posix", reason="kills processes"),
    pytest.mark.skipif(not SUPPORTS_ADMISSION, reason="needs PySpark 4.2"),
]


CASES = [Case("write", "worker"), Case("stored", "worker"), Case("ends", "broker"), Case("decided", "worker")]


def test_rows_of_an_exactly_once_stream_survive_crashes(spark: SparkSession, tmp_path: Path) -> None:
    from tests.spark.crashing import CrashingDataSource

    class Session:
        """The shared session as a driver."""

        pids = ()

        def __init__(self, server: Server, work: Path, guarantee: str) -> None:
            self._query = (spark, server.namesrv, work, guarantee)

        def run(self) -> str:
            return copy(*self._query)

        def stop(self) -> None:
            """It is everybody's."""

    spark.dataSource.register(CrashingDataSource)
    with Runs(tmp_path, "exactly-once", Session) as runs:
        for case in CASES:
            assert runs.run(case), "the phase was not reached"
