"""The pipeline of examples/pipeline on ten days of flights."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from unittest.mock import MagicMock

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from examples.pipeline import __main__ as program, report, schemas, streams, tables
from examples.pipeline.checks import Check, checks, in_gold
from examples.pipeline.flights import CUT, JSON, LATE, REPEATED, year
from examples.pipeline.streams import Pipeline
from rocketmq_py.errors import ConfigError
from rocketmq_py.serde import Avro, BodyMismatch, RegistryError, Schema
from rocketmq_py.spark import ProgressListener, ProgressLog
from rocketmq_py.spark.source.stream import SUPPORTS_ADMISSION
from rocketmq_py.testing import Cluster
from tests.schema_registry import SchemaServer, schema_server
from tests.spark.standalone import QUICK_JVM, Standalone, archive, environment, zipped_package

ROOT = Path(__file__).parents[2]
DAYS = 10
needs_admission = pytest.mark.skipif(
    not SUPPORTS_ADMISSION, reason="before PySpark 4.2 availableNow has no micro-batch for windows that are due"
)


class Run(NamedTuple):
    pipeline: Pipeline
    flights: pd.DataFrame
    figures: report.Figures
    log: Path
    registry: SchemaServer


@pytest.fixture(scope="module")
def done(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The pipeline after its run, with a schema registry."""
    data, figures, flights = tmp_path_factory.mktemp("pipeline"), report.Figures(), year(DAYS)
    listener = ProgressListener(figures, ProgressLog(data / "progress.jsonl"))
    spark.streams.addListener(listener)
    with Cluster() as cluster, schema_server() as server:
        p = Pipeline(cluster.namesrv, data, *schemas.old_and_new(server.url))
        program.run(p, flights)
        figures.await_ends(program.QUERIES)
        spark.streams.removeListener(listener)
        yield Run(p, flights, figures, data / "progress.jsonl", server)


@pytest.mark.long
@needs_admission
def test_the_numbers_agree(done: Run) -> None:
    found = checks(done.pipeline, done.flights, done.figures.late)
    assert len(found) == 13
    assert [str(check) for check in found if not check.holds] == []


@pytest.mark.long
@needs_admission
def test_other_flights_are_noticed(done: Run) -> None:
    found = checks(done.pipeline, done.flights.iloc[1:], done.figures.late + 1)
    wrong = {check.claim for check in found if not check.holds}
    assert {"silver has each flight that can be read once", "... their miles", "... flights of each carrier"} <= wrong
    assert {"bronze has each message", "flights too late for gold, which silver has"} <= wrong


@pytest.mark.long
def test_everything_that_goes_wrong_has_happened(done: Run) -> None:
    fates = done.flights["fate"].value_counts()
    assert all(fates[fate] > 0 for fate in (LATE, REPEATED, JSON, CUT))
    counted, too_late = in_gold(done.flights)
    came_late = done.flights["fate"] == LATE
    assert 0 < too_late < came_late.sum() + fates[JSON]
    assert counted["fate"].eq(LATE).any()
    assert done.registry.subjects == {"flights-value": [1, 2]}


@pytest.mark.long
@needs_admission
def test_a_repeated_micro_batch_changes_no_table(done: Run) -> None:
    before = {name: DeltaTable(str(done.pipeline.data / name)).to_pandas() for name in ("bronze", "silver", "gold")}
    for name in ("tables", "gold"):
        commits = done.pipeline.checkpoint(name) / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for path in (commits / str(last), commits / f".{last}.crc"):
            path.unlink()
    streams.write_tables(done.pipeline)
    streams.write_gold(done.pipeline)
    for name, rows in before.items():
        after = DeltaTable(str(done.pipeline.data / name)).to_pandas()
        assert len(after) == len(rows) > 0, name


@pytest.mark.long
def test_lag_and_rates_are_shown(done: Run) -> None:
    head, *rows = report.lines(done.figures.batches)
    assert "rows/s" in head
    assert [row.split()[0] for row in rows] == ["tables", "carrier_days", "gold", "replay"]
    assert rows[0].split()[-1] == "0"
    page = done.pipeline.data / "report.html"
    report.write_page(done.log, page)
    assert "carrier_days" in page.read_text()


@pytest.mark.long
def test_dead_letters_say_why(done: Run) -> None:
    p = done.pipeline
    read = p.spark.read.format("rocketmq").options(namesrv=p.namesrv, subscribe=streams.DEAD_LETTERS)
    rows = read.option("includeProperties", "true").load().select("properties", "keys").collect()
    reasons = {row["keys"]: row.properties["DLQ_REASON"] for row in rows}
    by_fate = done.flights.set_index("id")["fate"]
    assert {by_fate[key] for key in reasons} == {JSON, CUT}
    assert all(("zero byte" in reason) == (by_fate[key] == JSON) for key, reason in reasons.items())
    assert {row.properties["DLQ_ORIGIN_TOPIC"] for row in rows} == {streams.FLIGHTS}
    assert all(row.properties["place"].split()[1].isdigit() for row in rows)


def test_a_table_has_each_micro_batch_once(tmp_path: Path) -> None:
    path, rows = tmp_path / "t", pa.table({"id": ["a", "b"]})
    for query, batch in (("q", 0), ("q", 0), ("q", 1), ("q", 0), ("another", 0)):
        tables.append_once(path, rows, query, batch)
    assert DeltaTable(str(path)).to_pyarrow_table().num_rows == 6


def test_a_table_has_each_key_once(tmp_path: Path) -> None:
    for ids in (["a", "b"], ["b", "c"], []):
        tables.insert_new(tmp_path / "t", pa.table({"id": pa.array(ids, pa.string())}), "id")
    assert sorted(DeltaTable(str(tmp_path / "t")).to_pyarrow_table()["id"].to_pylist()) == ["a", "b", "c"]


def test_bodies_without_a_registry() -> None:
    old, new = (pickle.loads(pickle.dumps(avro)) for avro in schemas.old_and_new(None))
    flight = {
        "id": "x", "scheduled": 0, "carrier": "UA", "tailnum": None, "origin": "JFK", "dest": "LAX", "distance": 1,
        "dep_delay": 2.0,
    }  # fmt: skip
    assert new.decode(old.encode(flight, "t"))["arr_delay"] is None
    assert new.decode(new.encode({**flight, "arr_delay": 3.0}, "t"))["arr_delay"] == 3.0
    for number in (0, 3):
        with pytest.raises(BodyMismatch, match=f"no schema {number}"):
            new.decode(b"\0\0\0\0%c" % number)
    with pytest.raises(RegistryError, match="does not have this schema"):
        schemas.BuiltInSchemas(schemas.OLD).register("t-value", Schema(schemas.NEW))
    with pytest.raises(ConfigError):
        Avro("{}", schemas.BuiltInSchemas())


def test_a_wrong_number_is_the_exit_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_session", "run", "ProgressListener"):
        monkeypatch.setattr(program, name, MagicMock())
    monkeypatch.setattr(report.Figures, "await_ends", MagicMock())
    monkeypatch.setattr(report, "write_page", MagicMock())
    for found, status in ((1, 0), (2, 1)):
        monkeypatch.setattr(program, "checks", lambda *_, found=found: [Check("one", 1, found)])
        given = ["--data", str(tmp_path / "data"), "--namesrv", "127.0.0.1:1", "--days", "5"]
        result = CliRunner().invoke(program.main, given)
        assert result.exit_code == status, result.output
        assert ("FAIL one: 2, not 1" in result.output) == (status == 1)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    result = CliRunner().invoke(program.main, ["--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "name another folder" in result.output
    assert (tmp_path / "precious").exists()


@pytest.mark.long
@needs_admission
@pytest.mark.timeout(600)
@pytest.mark.parametrize("remote", [None, "local[2]"], ids=["local", "connect"])
def test_the_command(tmp_path: Path, remote: str | None) -> None:
    given = {"JDK_JAVA_OPTIONS": QUICK_JVM, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    if remote is not None:
        given |= {"SPARK_REMOTE": remote, "SPARK_TESTING": "1"}  # the server takes any port
    ran = subprocess.run(
        [sys.executable, "-m", "examples.pipeline", "--days", "5", "--data", str(tmp_path / "data")],
        cwd=ROOT, env={**os.environ, **given}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("ok   ") == 13


@pytest.mark.long
@needs_admission
@pytest.mark.timeout(900)
def test_the_program_on_a_cluster_of_two_workers(tmp_path: Path) -> None:
    """The exit status of the program says that its numbers agree."""
    with ExitStack() as stack:
        cluster = Standalone(tmp_path / "standalone", stack)
        packed = archive(environment(tmp_path / "packed", "fastavro"), tmp_path / "env.tar.gz", with_package=True)
        examples = zipped_package(tmp_path / "examples.zip", "examples", root=ROOT)
        words = ["--archives", f"{packed}#env", "--py-files", str(examples)]
        program = "from examples.pipeline.__main__ import main\nmain()\n"
        cluster.submit(program, "./env/bin/python", words, "--days", "5", "--data", str(tmp_path / "data"))
    assert DeltaTable(str(tmp_path / "data" / "gold")).to_pyarrow_table().num_rows > 0
