"""A standalone Spark cluster with two workers: files of a job reach executors, as docs/spark-clusters.md says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rocketmq_py.client.admin.blocking import Admin
from tests.spark.conftest import Topic
from tests.spark.standalone import Standalone, archive, environment, zipped_package

JOB = """
import sys
from pyspark.sql import SparkSession

namesrv, topic, copies, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


def stamped(batches):
    import os, pyarrow, rocketmq_py

    place = {"worker": os.getcwd(), "package": rocketmq_py.__file__, "arrow": pyarrow.__file__}
    for batch in batches:
        kind = pyarrow.map_(pyarrow.string(), pyarrow.string())
        columns = [batch["body"], batch["keys"], pyarrow.array([list(place.items())] * len(batch), kind)]
        yield pyarrow.RecordBatch.from_arrays(columns, ["body", "keys", "properties"])


source = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "earliest", "minPartitions": "4"}
read = spark.readStream.format("rocketmq").options(**source).load()
rows = read.mapInArrow(stamped, "body binary, keys string, properties map<string, string>")
sink = {"namesrv": namesrv, "topic": copies, "deliveryGuarantee": "exactly-once", "checkpointLocation": checkpoint}
rows.writeStream.format("rocketmq").options(**sink).trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""
"""Reads and writes in the same tasks; each row says where."""


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with ExitStack() as stack:
        yield Standalone(tmp_path_factory.mktemp("standalone"), stack)


@pytest.mark.parametrize("alone", [False, True], ids=["py-files", "archives"])
def test_executors_use_the_files_of_the_job(
    standalone: Standalone, topic: Topic, another_topic: Topic, tmp_path: Path, alone: bool
) -> None:
    """``alone``: the archive brings the package, too, which otherwise comes as a file of its own."""
    topic.send(80)
    packed = archive(environment(tmp_path / "packed"), tmp_path / "env.tar.gz", with_package=alone)
    words = ["--archives", f"{packed}#env"]
    if not alone:
        words += ["--py-files", str(zipped_package(tmp_path / "rocketmq_py.zip"))]
    arguments = (topic.namesrv, topic.name, another_topic.name, str(tmp_path / "checkpoint"))
    standalone.submit(JOB, "./env/bin/python", words, *arguments)
    with Admin(topic.namesrv) as admin:
        found = [message for queue in admin.queues(another_topic.name) for message in admin.read(queue)]
    assert sorted(int(message.body) for message in found) == topic.bodies
    workers = {
        part for message in found for part in Path(message.properties["worker"]).parts if part.startswith("work")
    }
    assert workers >= {"work0", "work1"}, "both workers took part"
    place = "/env/lib/" if alone else "/rocketmq_py.zip/"
    assert all(place in message.properties["package"] for message in found)
    assert all("/env/lib/" in message.properties["arrow"] for message in found)
