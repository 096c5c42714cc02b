"""Spark's own ``from_avro`` on bodies with the prefix of a registry, as the guide says: `docs/guides/serde.md`.

PySpark does not have the code of the function: it is in ``spark-avro``, which a session loads when its JVM starts.
So the recipe runs in a process of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rocketmq_py.serde import Avro, SchemaRegistry
from tests.interop.foreign_builds import built, run
from tests.schema_registry import schema_server
from tests.spark.standalone import QUICK_JVM

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "serde.md"
RECIPE = 'from_avro(expr("substring(body, 6)"), schema_text)'
VERSION = "4.2.0"
"""Of spark-avro: with the one of its own version a session of a newer Spark works, too."""
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "number", "type": "long"}, {"name": "item", "type": "string"}],
}
PROGRAM = f"""
import json, sys
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import expr

jar, jvm, schema_text, bodies = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.jars", jar).config("spark.driver.extraJavaOptions", jvm).getOrCreate()
frame = spark.createDataFrame([(bytearray.fromhex(body),) for body in json.loads(bodies)], "body binary")
rows = frame.select({RECIPE}.alias("order")).select("order.*").collect()
print("ROWS", json.dumps([row.asDict() for row in rows]))
"""


def spark_avro() -> Path:
    """The jar, from a Maven registry."""
    artifact = f"org.apache.spark:spark-avro_2.13:{VERSION}"

    def copy(folder: Path) -> None:
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        run(["mvn", "-q", "-B", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"])

    return built(None, f"spark-avro-{VERSION}", copy) / f"spark-avro_2.13-{VERSION}.jar"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.skipif(shutil.which("mvn") is None, reason="not on PATH: mvn")
def test_spark_reads_avro_bodies_behind_the_prefix(tmp_path: Path) -> None:
    assert RECIPE in GUIDE.read_text()
    orders = [{"number": 2, "item": "cake"}, {"number": 2**40, "item": ""}]
    with schema_server() as server:
        avro = Avro(SCHEMA, SchemaRegistry(server.url))
        bodies = [avro.encode(order, "orders").hex() for order in orders]
    command = [sys.executable, "-c", PROGRAM, str(spark_avro()), QUICK_JVM, json.dumps(SCHEMA), json.dumps(bodies)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.split("ROWS", 1)[1]) == orders
