"""HDFS on this machine: a name node and a data node in one JVM, with the classes of Hadoop's own tests, from Maven,
that fit the Hadoop PySpark brings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pyspark
from py4j.java_gateway import JavaGateway

from rocketmq_py.spark import ensure_java
from rocketmq_py.spark.decision_store.hadoop import class_path, start_jvm

_JARS = Path(pyspark.__file__).parent / "jars"
_ARTIFACT = "hadoop-client-minicluster"


def version() -> str:
    """Of the Hadoop that PySpark brings."""
    (jar,) = _JARS.glob("hadoop-client-api-*.jar")
    found = re.fullmatch(r"hadoop-client-api-(.+)", jar.stem)
    assert found is not None
    return found[1]


def fetch(folder: Path) -> str | None:
    """Have Maven put the jars into a folder; what it said if it could not."""
    if shutil.which("mvn") is None:
        return "not on PATH: mvn"
    name = f"{_ARTIFACT}-{version()}.jar"
    if (folder / name).exists():
        return None
    artifact = f"org.apache.hadoop:{_ARTIFACT}:{version()}"
    done = subprocess.run(
        ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"],
        capture_output=True, text=True, check=False, timeout=500, cwd=folder,
    )  # fmt: skip
    return done.stdout[-500:] if done.returncode else None


class Hdfs:
    """A name node and a data node, until the object is gone.

    :ivar uri: of the root directory.
    """

    def __init__(self, jars: Path, folder: Path) -> None:
        ensure_java()
        self._gateway: JavaGateway = start_jvm(os.pathsep.join([str(jars / "*"), class_path(os.environ)]), os.environ)
        hadoop = self._gateway.jvm.org.apache.hadoop
        configuration = hadoop.conf.Configuration()
        configuration.set("hdfs.minidfs.basedir", str(folder))
        self._cluster = hadoop.hdfs.MiniDFSCluster.Builder(configuration).numDataNodes(1).build()
        self._cluster.waitActive()
        self.uri = str(self._cluster.getURI().toString())

    def stop(self) -> None:
        self._cluster.shutdown()
