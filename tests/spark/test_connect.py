"""Spark Connect: a client that speaks gRPC with the server that runs the queries reads and writes topics, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.client.admin.blocking import Admin
from rocketmq_py.spark import ensure_java
from rocketmq_py.spark.runtime.home import ensure_compiled_home
from tests.spark.conftest import Topic
from tests.spark.standalone import QUICK_JVM

PROGRAM = """
import json, sys
from threading import Event
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rocketmq_py.errors import ConfigError
from rocketmq_py.spark import ProgressListener, show_batch_reads

namesrv, topic, copies, checkpoint = sys.argv[1:]
source = {"namesrv": namesrv, "subscribe": topic}
found = {}
spark = SparkSession.builder.remote("local[2]").getOrCreate()
found["module"] = type(spark).__module__


over = Event()


class Watcher:
    def batch(self, progress, report):
        found["watched"] = found.get("watched", 0) + progress.rows

    def ended(self, query_id):
        over.set()


spark.streams.addListener(ProgressListener(Watcher()))
stream = spark.readStream.format("rocketmq").options(**source, startingOffsets="earliest").load()
sink = {"namesrv": namesrv, "topic": copies, "deliveryGuarantee": "exactly-once", "checkpointLocation": checkpoint}
writer = stream.selectExpr("body", "keys").writeStream.format("rocketmq").options(**sink)
writer.trigger(availableNow=True).start().awaitTermination()
assert over.wait(200), "the listener was not told of the end"
rows = spark.read.format("rocketmq").options(**source).load()
found["read"] = sorted(int(bytes(row.body)) for row in rows.where("tags = 'A'").select("body").collect())
more = rows.selectExpr("concat('1', cast(body as string)) AS body").where("body < '13'")
more.write.format("rocketmq").options(namesrv=namesrv, topic=copies).mode("append").save()
for name, wrong in (("option", lambda: spark.read.format("rocketmq").options(**source, startOffsets="x").load().schema),
                    ("progress", lambda: show_batch_reads(spark, source).__enter__())):
    try:
        wrong()
    except (ConfigError, PySparkException) as e:
        found[name] = str(e)
print("FOUND", json.dumps(found))
spark.stop()
"""


def run(*arguments: str) -> dict[str, Any]:
    ensure_java()
    ensure_compiled_home()
    # For tests, Spark takes any port that is free for the server; otherwise it is 15002.
    given = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f'--driver-java-options "{QUICK_JVM}" pyspark-shell',
        "SPARK_TESTING": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], env=os.environ | given, capture_output=True, text=True,
        check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    found: dict[str, Any] = json.loads(line.removeprefix("FOUND"))
    return found


@pytest.fixture(scope="module")
def answers(namesrv: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Topic, Topic, dict[str, Any]]:
    topic, copies = Topic(namesrv), Topic(namesrv)
    topic.send(20)
    checkpoint: Path = tmp_path_factory.mktemp("connect") / "checkpoint"
    return topic, copies, run(namesrv, topic.name, copies.name, str(checkpoint))


Answers = tuple[Topic, Topic, dict[str, Any]]


def test_a_stream_and_a_batch_go_through_a_connect_session(answers: Answers) -> None:
    topic, copies, found = answers
    assert "connect" in found["module"]
    assert found["read"] == [i for i in topic.bodies if i % 2 == 0]
    with Admin(topic.namesrv) as admin:
        bodies = [message.body.decode() for queue in admin.queues(copies.name) for message in admin.read(queue)]
    again = [f"1{i}" for i in topic.bodies if f"1{i}" < "13"]
    assert sorted(bodies) == sorted([str(i) for i in topic.bodies] + again)


def test_client_listeners_get_query_events(answers: Answers) -> None:
    assert answers[2]["watched"] == 20


def test_errors_reach_the_client(answers: Answers) -> None:
    found = answers[2]
    assert "did you mean startingOffsets?" in found["option"]
    assert "registerProgressHandler" in found["progress"]
