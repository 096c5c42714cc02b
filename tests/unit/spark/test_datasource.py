"""The data source as Spark calls it: what it refuses when a query is defined, and the readers and writers it gives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

import rocketmq_py.spark
from rocketmq_py.errors import ConfigError
from rocketmq_py.spark import datasource
from rocketmq_py.spark.datasource import RocketMQDataSource
from rocketmq_py.spark.sink.sink import BatchWriter, stream_writer
from rocketmq_py.spark.source.reader import BatchReader, PruningReader
from rocketmq_py.spark.source.stream import stream_reader

READ = {"namesrv": "n:9876", "subscribe": "orders"}
WRITE = {"namesrv": "n:9876", "topic": "orders"}
ROWS = StructType([StructField("body", BinaryType())])


def source(options: dict[str, str], **more: str) -> RocketMQDataSource:
    return RocketMQDataSource({**options, **more})


def uses() -> dict[str, Callable[[dict[str, str]], Any]]:
    """The four uses of the data source, each with options beside those it requires."""
    return {
        "read": lambda more: source(READ, **more).reader(ROWS),
        "readStream": lambda more: source(READ, **more).streamReader(ROWS),
        "write": lambda more: source(WRITE, **more).writer(ROWS, overwrite=False),
        "writeStream": lambda more: source(WRITE, **more).streamWriter(ROWS, overwrite=False),
    }


def test_the_short_name_of_the_format() -> None:
    assert RocketMQDataSource.name() == "rocketmq"


def test_options_are_checked_before_spark_says_what_they_are_for() -> None:
    with pytest.raises(ConfigError, match="unknown option 'subscrib' for the rocketmq data source"):
        RocketMQDataSource({"subscrib": "orders"})


def test_the_schema_of_a_read_without_one() -> None:
    names = source(READ).schema().fieldNames()
    assert names == [
        "topic", "brokerName", "queueId", "queueOffset", "body", "tags", "keys", "bornTimestamp", "storeTimestamp",
        "reconsumeTimes", "msgId",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="option namesrv is required"):
        RocketMQDataSource({"subscribe": "orders"}).schema()


def test_each_use_has_its_class() -> None:
    made = {name: type(use({})) for name, use in uses().items()}
    assert made == {
        "read": BatchReader,
        "readStream": type(stream_reader(source(READ)._read(datasource.Use.READ_STREAM), ROWS)),
        "write": BatchWriter,
        "writeStream": type(stream_writer(source(WRITE)._write(datasource.Use.WRITE_STREAM), ROWS)),
    }


def test_filters_are_pushed_down_only_if_asked_for_and_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark refuses a reader with ``pushFilters`` unless its own setting is on, and knows it since 4.1."""
    monkeypatch.setattr(DataSourceReader, "pushFilters", lambda *_: [], raising=False)
    assert type(source(READ, pushFilters="true").reader(ROWS)) is PruningReader
    monkeypatch.delattr(DataSourceReader, "pushFilters")
    with pytest.raises(ConfigError, match=r"option pushFilters needs PySpark 4\.1 or later"):
        source(READ, pushFilters="true").reader(ROWS)
    assert type(source(READ).reader(ROWS)) is BatchReader


def test_what_the_schema_of_a_query_cannot_have_is_refused_when_it_is_defined() -> None:
    strange, of_other_type = (StructType([field]) for field in (_field("price"), _field("queueId")))
    for told, schema in (("unknown column 'price'", strange), ("column queueId is of type int", of_other_type)):
        for read in (source(READ).reader, source(READ).streamReader):
            with pytest.raises(ConfigError, match=told):
                read(schema)
    with pytest.raises(ConfigError, match="a sink has no column 'price'"):
        source(WRITE).writer(strange, overwrite=False)
    with pytest.raises(ConfigError, match="column queueId must be int, it is string"):
        source(WRITE).streamWriter(StructType([_field("body"), _field("queueId")]), overwrite=False)


def _field(name: str) -> StructField:
    return StructField(name, StringType())


def test_a_topic_cannot_be_overwritten() -> None:
    with pytest.raises(ConfigError, match=r"a topic cannot be overwritten: write with mode\('append'\)"):
        source(WRITE).writer(ROWS, overwrite=True)
    source(WRITE).streamWriter(ROWS, overwrite=True)  # Spark's output mode complete


def test_an_option_of_another_use_is_refused() -> None:
    told = {}
    wrong = {
        "read": {"maxOffsetsPerTrigger": "5"},
        "readStream": {"endingOffsets": "latest"},
        "write": {"deliveryGuarantee": "exactly-once"},
        "writeStream": {"subscribe": "orders"},
    }
    for name, use in uses().items():
        with pytest.raises(ConfigError) as refused:
            use(wrong[name])
        told[name] = str(refused.value).partition(":")[0].partition(";")[0]
    assert told == {
        "read": "option maxOffsetsPerTrigger is not for a batch read",
        "readStream": "option endingOffsets is not for a streaming read",
        "write": "option deliveryGuarantee=exactly-once is for streams, whose checkpoint knows what was written",
        "writeStream": "unknown option 'subscribe' for a streaming write",
    }


def test_a_missing_certificate_fails_the_definition_of_a_query(tmp_path: Path) -> None:
    missing = {"tls": "true", "tlsCa": str(tmp_path / "missing.pem")}
    for use in [*uses().values(), lambda more: source(READ, **more).schema()]:
        with pytest.raises(ConfigError, match=r"missing\.pem"):
            use(missing)


def test_the_imports_of_planning_processes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    for name, use in uses().items():
        monkeypatch.setattr(datasource, "keep_imports", lambda name=name: kept.append(name))
        use({})
    assert kept == ["read", "readStream", "write", "writeStream"]


def test_public_names_are_imported_on_first_use() -> None:
    for name in rocketmq_py.spark.__all__:
        found = getattr(rocketmq_py.spark, name)
        assert (found.__name__, getattr(sys.modules[found.__module__], name)) == (name, found)
    with pytest.raises(AttributeError, match=r"module 'rocketmq_py\.spark' has no attribute 'Progress'"):
        rocketmq_py.spark.Progress  # noqa: B018
