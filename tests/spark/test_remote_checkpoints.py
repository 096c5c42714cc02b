"""An exactly-once stream whose checkpoint is on HDFS: ``kill -9`` of the driver after its decision."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.spark.decision_store.decisions import Decision, DecisionError, Decisions
from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION
from tests.spark.crashes import ELSEWHERE, Case, Runs
from tests.spark.hdfs import Hdfs, fetch

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.name != "posix", reason="kills processes"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    jars = Path(os.environ.get("HDFS_JARS") or tmp_path_factory.mktemp("jars"))
    if reason := fetch(jars):
        pytest.skip(reason)
    cluster = Hdfs(jars, tmp_path_factory.mktemp("hdfs"))
    yield cluster
    cluster.stop()


def decision(number: int, attempt: str) -> Decision:
    return Decision("q", number, frozenset({attempt}))


def test_records_are_created_once_and_not_replaced(hdfs: Hdfs) -> None:
    decisions = Decisions.at(f"{hdfs.uri}/one place/rocketmq")
    assert decisions.latest() is None
    for number in range(4):
        decisions.make(decision(number, "a"))
    assert decisions.latest() == decision(3, "a")
    assert len(decisions._store.names()) == 2, "the last two are kept, and no draft"
    with pytest.raises(FileExistsError, match="already exists"):
        decisions._store.create(f"{3:020d}.json", b"")
    assert decisions.latest() == decision(3, "a")


def test_a_silent_name_node_is_an_error() -> None:
    with pytest.raises(DecisionError, match=r"cannot be read: java\.net\.ConnectException"):
        Decisions.at("hdfs://localhost:1/rocketmq").latest()


@pytest.mark.skipif(not SUPPORTS_ADMISSION, reason="needs PySpark 4.2")
def test_rows_survive_the_death_of_a_driver(hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = f"{hdfs.uri}/checkpoints/copy"
    monkeypatch.setenv(ELSEWHERE, checkpoint)
    with Runs(tmp_path, "exactly-once") as runs:
        assert runs.run(Case("decided", "driver")), "the phase was not reached"
    assert Decisions.at(f"{checkpoint}/rocketmq").latest() is not None
    assert not (tmp_path / "checkpoint").exists()
