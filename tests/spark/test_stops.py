"""A few short rounds of ``python -m tests.spark.stops``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION
from tests.spark.stop_servers import our_servers
from tests.spark.stops import Rounds

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.name != "posix", reason="stops processes"),
    pytest.mark.skipif(not SUPPORTS_ADMISSION, reason="needs PySpark 4.2"),
    pytest.mark.timeout(600),
]


def test_rows_survive_stops(tmp_path: Path) -> None:
    with our_servers(tmp_path, slave_reads=True, acting=True) as servers, Rounds(tmp_path, servers, 7, 4.0) as rounds:
        for _ in range(4):
            rounds.round()
