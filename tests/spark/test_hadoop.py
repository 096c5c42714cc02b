"""Records through Hadoop's own client, on the local disk; HDFS itself is in ``test_remote_checkpoints``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketmq_py.spark import ensure_java
from rocketmq_py.spark.decision_store.hadoop import HadoopDecisionStore, class_path

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Hadoop's client needs native code on Windows")


def test_a_record_is_created_once_and_read_back(tmp_path: Path) -> None:
    ensure_java()
    store = HadoopDecisionStore(f"{tmp_path.as_uri()}/deep/place", os.environ)
    assert store.names() == []
    content = bytes(range(256)) * 40
    store.create("a", content)
    with pytest.raises(FileExistsError, match="already exists"):
        store.create("a", b"other")
    assert store.read("a") == content
    assert [name for name in store.names() if not name.endswith(".crc")] == ["a"], "and no draft"
    with pytest.raises(FileNotFoundError):
        store.read("b")
    store.remove("a")
    store.remove("a")
    assert not (tmp_path / "deep" / "place" / "a").exists()


def test_a_java_that_does_not_start_names_the_reason(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho out of luck >&2\nexit 3\n")
    java.chmod(0o755)
    with pytest.raises(OSError, match="has not started: out of luck"):
        HadoopDecisionStore("hdfs://nn/a", {"JAVA_HOME": str(tmp_path)}).names()
    with pytest.raises(OSError, match="No such file"):
        HadoopDecisionStore("hdfs://nn/a", {"JAVA_HOME": str(tmp_path / "nowhere")}).names()


@pytest.mark.parametrize(
    ("environ", "parts"),
    [
        ({"SPARK_HOME": "/s"}, ["/s/conf", "/s/jars/*"]),
        ({"SPARK_HOME": "/s", "HADOOP_CONF_DIR": "/etc/hadoop"}, ["/etc/hadoop", "/s/conf", "/s/jars/*"]),
        ({"SPARK_HOME": "/s", "CLASSPATH": "/c/__spark_libs__/*"}, ["/c/__spark_libs__/*", "/s/conf", "/s/jars/*"]),
        ({"SPARK_HOME": "/s", "SPARK_DIST_CLASSPATH": "/h/*"}, ["/s/conf", "/s/jars/*", "/h/*"]),
    ],
)
def test_classes_and_configuration_come_from_the_driver(environ: dict[str, str], parts: list[str]) -> None:
    assert class_path(environ) == os.pathsep.join(parts)
