"""BadRecordPolicy rows of a write as dead letters, and what the command does with them. No Spark session needed."""

from __future__ import annotations

from pyspark.sql.types import StringType, StructType

from rocketmq_py.client.admin.blocking import Admin
from rocketmq_py.spark.options.options import Use, write_options
from rocketmq_py.spark.sink.sink import TaskWriter, Written
from rocketmq_py.testing import Cluster
from tests.server.cli import Cli, eventually

ROWS = [("good", "k0"), (None, "k1"), ("good, too", "k2"), ("x" * (4 * 1024 * 1024 + 1), "k3")]


def test_bad_rows_are_shown_and_resent(rocketmq_cluster: Cluster) -> None:
    topic, namesrv = rocketmq_cluster.create_topic("t-dead-letters"), rocketmq_cluster.namesrv
    given = {"namesrv": namesrv, "topic": topic, "producerGroup": "sink", "mode": "DLQ"}
    schema = StructType().add("body", StringType()).add("keys", StringType())
    writer = TaskWriter(write_options(given, Use.WRITE), schema, query_id="q")
    assert writer.write(ROWS) == Written(4)
    cli = Cli(namesrv)
    shown = {row["keys"]: row for row in eventually(lambda: cli.dead_letters("sink"), lambda rows: len(rows) == 2)}
    assert shown.keys() == {"k1", "k3"}
    assert {row["origin"] for row in shown.values()} == {topic}
    assert "its body is null or empty" in shown["k1"]["properties"]["SPARK_BAD_REASON"]
    assert shown["k3"]["properties"]["SPARK_BAD_CUT"] == "4194305"
    assert shown["k3"]["properties"]["SPARK_QUERY_ID"] == "q"
    cli.ok("dlq", "resend", "sink", "--yes")
    with Admin(namesrv) as admin:
        there = eventually(
            lambda: [m for queue in admin.queues(topic) for m in admin.read(queue)], lambda found: len(found) == 4
        )
    assert sorted(message.keys for message in there) == ["k0", "k1", "k2", "k3"]
