"""Topics as Arrow data, against a cluster: what is read, how much of it is pulled, and other libraries on top."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from rocketmq_py import Message, Producer, arrow
from rocketmq_py.arrow import topics
from rocketmq_py.arrow.source.pruning import Pruning
from rocketmq_py.errors import ConfigError, MessageIllegal, NoRouteError
from rocketmq_py.testing import Cluster
from rocketmq_py.wire.compression import CompressionType

ROWS = 400


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with Cluster(enable_property_filter=True) as cluster:
        cluster.create_topic("written")
        with Producer("arrow", cluster.namesrv) as producer:
            for i in range(ROWS):
                producer.send(Message("orders", b"%d" % i, tags="AB"[i % 2], properties={"n": str(i)}))
        yield cluster.namesrv


def bodies(table: pa.Table) -> list[int]:
    return sorted(int(one) for one in table.column("body").to_pylist())


def test_a_read_gives_every_message_once(namesrv: str) -> None:
    table = arrow.read("orders", namesrv=namesrv).read_all()
    assert bodies(table) == list(range(ROWS))
    assert "properties" not in table.column_names
    places = list(zip(*(table.column(name).to_pylist() for name in ("queueId", "queueOffset")), strict=True))
    assert places == sorted(places), "queue after queue, each in order"


def test_a_read_of_chosen_columns_and_messages(namesrv: str) -> None:
    found = arrow.read("orders", namesrv=namesrv, tags="A", columns=["body", "tags"], text=True).read_all()
    assert found.schema == pa.schema([("body", pa.string()), ("tags", pa.string())])
    assert bodies(found) == list(range(0, ROWS, 2))
    found = arrow.read("orders", namesrv=namesrv, sql="n > 396", columns=["body"]).read_all()
    assert bodies(found) == [397, 398, 399]


def test_a_read_that_starts_or_ends_elsewhere(namesrv: str) -> None:
    def rows(**where: object) -> int:
        return arrow.read("orders", namesrv=namesrv, columns=["queueId"], **where).read_all().num_rows

    queues = {one.range.queue: one.range for one in topics.planned("orders", {"namesrv": namesrv}).ranges}
    assert rows(start={queue: one.stop - 3 for queue, one in queues.items()}) == 3 * len(queues)
    assert rows(end=dict.fromkeys(queues, 2)) == 2 * len(queues)
    assert rows(start="-1 hour") == rows(start=datetime(2020, 1, 1, tzinfo=UTC)) == ROWS
    assert rows(end="-1 hour") == rows(start="latest") == 0


def test_pandas_and_duckdb_take_a_read(namesrv: str) -> None:
    frame = arrow.to_pandas("orders", namesrv=namesrv, columns=["queueId", "tags"])
    assert frame.groupby("tags").size().to_dict() == {"A": ROWS // 2, "B": ROWS // 2}
    reader = arrow.read("orders", namesrv=namesrv, columns=["tags"])
    assert hasattr(reader, "__arrow_c_stream__")
    found = duckdb.connect().execute("SELECT tags, count(*) FROM reader GROUP BY tags ORDER BY tags").fetchall()
    assert found == [("A", ROWS // 2), ("B", ROWS // 2)]


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[topics.TopicRead]:
    """The plans of all scans."""
    found: list[topics.TopicRead] = []
    plan = topics.planned

    def planned(topic: str, settings: topics.ReadSettings, pruning: Pruning | None = None) -> topics.TopicRead:
        found.append(plan(topic, settings, pruning))
        return found[-1]

    monkeypatch.setattr("rocketmq_py.arrow.polars_scan.planned", planned)
    return found


def test_a_scan_reads_what_the_query_needs(namesrv: str, plans: list[topics.TopicRead]) -> None:
    frame = arrow.scan("orders", namesrv=namesrv)
    everything = frame.collect()
    assert sorted(int(one) for one in everything["body"]) == list(range(ROWS))
    future = datetime(2200, 1, 1, tzinfo=UTC)
    conditions = {
        "queue": pl.col("queueId") == 1,
        "offsets": pl.col("queueOffset").is_between(3, 5),
        "turned": pl.lit(4) > pl.col("queueOffset"),
        "time": pl.col("storeTimestamp") >= future,
        "tags": pl.col("tags").is_in(["A", "C"]),
        "none": (pl.col("queueId") == 1) | (pl.col("tags") == "A"),
    }
    for name, condition in conditions.items():
        plans.clear()
        found = frame.filter(condition).select("queueId", "queueOffset", "tags").collect()
        expected = everything.filter(condition).select("queueId", "queueOffset", "tags")
        assert found.sort("queueId", "queueOffset").equals(expected.sort("queueId", "queueOffset")), name
        (plan,) = plans
        read = plan.offsets
        assert read == (ROWS if name in ("tags", "none") else expected.height), name
        assert plan.options.tags == (("A", "C") if name == "tags" else ()), name
        assert "body" not in plan.schema.names


def test_a_scan_ends_with_the_rows_that_are_asked_for(namesrv: str) -> None:
    frame = arrow.scan("orders", namesrv=namesrv)
    assert frame.head(7).collect().height == 7
    assert frame.select(pl.len()).collect().item() == ROWS


def test_wrong_settings_are_refused_by_name(namesrv: str) -> None:
    for settings, told in (
        ({"columns": ["Body"]}, "unknown column 'Body'"),
        ({"columns": []}, "names none"),
        ({"tags": "A", "sql": "n > 1"}, "choose one"),
        ({"start": "yesterday"}, "start='yesterday'"),
        ({"mode": "DLQ"}, "mode=DLQ is for Spark"),
        ({"topics": "x"}, "unknown setting 'topics'"),
    ):
        with pytest.raises(ConfigError, match=told):
            arrow.read("orders", namesrv=namesrv, **settings)
    with pytest.raises(NoRouteError):
        arrow.read("nothing", namesrv=namesrv)
    with pytest.raises(ConfigError):
        arrow.read([], namesrv=namesrv)


def test_a_read_imports_neither_spark_nor_pandas_nor_polars() -> None:
    program = """
import sys
from rocketmq_py import arrow
arrow.read, arrow.write, arrow.scan
print(*sorted(sys.modules.keys() & {"pyspark", "pandas", "polars", "duckdb", "rocketmq_py.spark"}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_written_rows_are_read_again(namesrv: str) -> None:
    table = pa.table(
        {
            "body": ["one", "two", "three"],
            "tags": pa.array(["a", None, "b"], pa.large_string()),
            "shardingKey": ["k", "k", "k"],
            "properties": pa.array([[("x", "1")], None, []], pa.map_(pa.string(), pa.string())),
        }
    )
    assert arrow.write(table, "written", namesrv=namesrv) == 3
    found = arrow.read("written", namesrv=namesrv, columns=["body", "tags", "properties", "queueId"], text=True)
    rows = found.read_all().to_pylist()
    assert [(row["body"], row["tags"]) for row in rows] == [("one", "a"), ("two", None), ("three", "b")]
    assert len({row["queueId"] for row in rows}) == 1
    assert dict(rows[0]["properties"])["x"] == "1"
    assert not any(name.startswith("SPARK") for row in rows for name in dict(row["properties"]))
    assert arrow.write(pl.DataFrame({"topic": ["written"], "body": [b"four"]}), namesrv=namesrv) == 1
    assert arrow.read("written", namesrv=namesrv, columns=["body"]).read_all().num_rows == 4


@pytest.mark.parametrize("kind", CompressionType)
def test_rows_are_stored_compressed_if_they_are_large(namesrv: str, kind: CompressionType) -> None:
    topic = f"packed-{kind.name}"
    bodies = [f"{number:05d}" * 1_000 for number in range(5)]
    table = pa.table({"body": [*bodies, None], "flag": [0, 1, -2, None, 4, 5], "delayLevel": [0, 0, 0, 0, -1, 0]})
    with pytest.raises(MessageIllegal, match="delayLevel is -1"):
        arrow.write(table, topic, namesrv=namesrv, compression=kind)
    small = pa.table({"body": ["small"], "flag": [7]})
    for rows in (table.slice(0, 4), small):
        arrow.write(rows, topic, namesrv=namesrv, compression=kind)
    arrow.write(table.slice(0, 1), topic, namesrv=namesrv, compression=kind, compress_over=6_000)
    found = arrow.read(topic, namesrv=namesrv, columns=["body", "flag", "storeSize"], text=True).read_all()
    rows = {(row["body"], row["flag"], row["storeSize"] > 5_000) for row in found.to_pylist()}
    assert rows == {
        *((body, flag, False) for body, flag in zip(bodies[:4], (0, 1, -2, 0), strict=True)),
        (bodies[0], 0, True),
        ("small", 7, False),
    }


def test_tables_that_do_not_fit_are_refused(namesrv: str) -> None:
    for columns, told in (
        ({"value": ["x"]}, "value"),
        ({"tags": ["x"]}, "needs a column body"),
        ({"body": [1]}, "column body"),
        ({"body": ["x"], "queueId": ["q"]}, "column queueId"),
    ):
        with pytest.raises(ConfigError, match=told):
            arrow.write(pa.table(columns), "written", namesrv=namesrv)
    with pytest.raises(ConfigError, match="Arrow"):
        arrow.write([1], "written", namesrv=namesrv)
