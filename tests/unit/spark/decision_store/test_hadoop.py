"""Records in a Hadoop file system: what is asked of Hadoop's Java client, what its errors become, and its JVM."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from rocketmq_py.errors import NameIllegal
from rocketmq_py.spark.decision_store import hadoop
from rocketmq_py.spark.decision_store.hadoop import HadoopDecisionStore, class_path, start_jvm
from rocketmq_py.spark.decision_store.stores import store_at

FOLDER = "hdfs://nn:8020/checkpoints/one/rocketmq/"
HERE = "hdfs://nn:8020/checkpoints/one/rocketmq"


class JavaThrown(Py4JJavaError):
    """An exception of Java, as Py4J raises it."""

    def __init__(self, kind: str, text: str) -> None:
        Exception.__init__(self, text)
        named = SimpleNamespace(getSimpleName=lambda: kind)
        self.java_exception = SimpleNamespace(getClass=lambda: named, toString=lambda: text)

    def __str__(self) -> str:
        return "a Java exception"


class Stream:
    """An open file of Hadoop."""

    def __init__(self, node: NameNode, path: str) -> None:
        self._node, self._path = node, path
        node.open_streams += 1

    def write(self, content: bytes) -> None:
        self._node.happened.append("write")
        self._node.draft = content

    def hsync(self) -> None:
        self._node.happened.append("hsync")
        self._node.files[self._path] = self._node.draft

    def readAllBytes(self) -> bytearray:  # noqa: N802
        return bytearray(self._node.files[self._path])

    def close(self) -> None:
        self._node.happened.append("close")
        self._node.open_streams -= 1


class NameNode:
    """As much of a Hadoop file system as a store of decisions asks for, and the gateway to it; ``fails`` by method."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.draft = b""
        self.open_streams = 0
        self.happened: list[str] = []
        self.started: list[tuple[str, dict[str, str]]] = []
        self.fails: dict[str, Exception] = {}
        fs = SimpleNamespace(
            Path=self._path, FileContext=SimpleNamespace(getFileContext=lambda *asked: self._context(asked)),
            Options=SimpleNamespace(Rename="Rename"),
        )  # fmt: skip
        conf = SimpleNamespace(Configuration=lambda: "configuration")
        self.jvm = SimpleNamespace(
            org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=fs, conf=conf)))
        )

    def new_array(self, kind: str, length: int) -> list[Any]:
        assert kind == "Rename"
        return [None] * length

    def start(self, classes: str, environ: dict[str, str]) -> NameNode:
        self.started.append((classes, environ))
        return self

    def _path(self, text: str) -> Any:
        assert text.startswith("hdfs://nn:8020/")
        return SimpleNamespace(
            text=text, getFileSystem=lambda configuration: self, getName=lambda: text.rpartition("/")[2]
        )

    def _context(self, asked: tuple[str, str]) -> NameNode:
        assert asked == ("hdfs://nn:8020", "configuration")
        return self

    def getUri(self) -> str:  # noqa: N802
        return "hdfs://nn:8020"

    def _happens(self, what: str) -> None:
        self.happened.append(what)
        if what in self.fails:
            raise self.fails[what]

    def exists(self, path: Any) -> bool:
        self._happens("exists")
        return any(file.startswith(path.text) for file in self.files)

    def listStatus(self, path: Any) -> list[Any]:  # noqa: N802
        self._happens("listStatus")
        return [SimpleNamespace(getPath=lambda file=file: self._path(file)) for file in sorted(self.files)]

    def open(self, path: Any) -> Stream:
        self._happens("open")
        if path.text not in self.files:
            raise JavaThrown("FileNotFoundException", f"java.io.FileNotFoundException: {path.text}")
        return Stream(self, path.text)

    def create(self, path: Any, overwrite: bool) -> Stream:
        self._happens("create")
        assert overwrite is False
        return Stream(self, path.text)

    def rename(self, source: Any, target: Any, options: list[Any]) -> None:
        self._happens("rename")
        assert options == []
        if target.text in self.files:
            raise JavaThrown(
                "FileAlreadyExistsException", f"o.a.h.FileAlreadyExists: {target.text}\n\tat o.a.h.X(X.java)"
            )
        self.files[target.text] = self.files.pop(source.text)

    def delete(self, path: Any, recursive: bool) -> None:
        self._happens("delete")
        assert recursive is False
        self.files.pop(path.text, None)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> NameNode:
    node = NameNode()
    monkeypatch.setattr(hadoop, "start_jvm", node.start)
    return node


def test_a_record_is_created_read_listed_and_removed(node: NameNode) -> None:
    where = store_at(FOLDER, {"SPARK_HOME": "/spark"})
    assert node.started == []
    assert where.names() == []
    where.create("00000000000000000007.json", b"seven")
    assert node.files == {f"{HERE}/00000000000000000007.json": b"seven"}
    assert where.names() == ["00000000000000000007.json"]
    assert where.read("00000000000000000007.json") == b"seven"
    assert type(where.read("00000000000000000007.json")) is bytes
    where.remove("00000000000000000007.json")
    assert node.files == {}
    assert node.open_streams == 0
    assert node.started == [(class_path({"SPARK_HOME": "/spark"}), {"SPARK_HOME": "/spark"})], "one JVM for a store"


def test_a_record_is_on_the_disks_before_it_has_its_name(node: NameNode) -> None:
    drafts: list[str] = []
    create = node.create

    def noted(path: Any, overwrite: bool) -> Stream:
        drafts.append(path.text)
        return create(path, overwrite)

    node.create = noted  # type: ignore[method-assign]
    where = HadoopDecisionStore(FOLDER, {})
    where.create("a.json", b"1")
    where.create("b.json", b"2")
    assert node.happened == ["create", "write", "hsync", "close", "rename"] * 2
    for name, draft in zip("ab", drafts, strict=True):
        assert re.fullmatch(rf"{HERE}/\.{name}\.json\.[0-9a-f]{{8}}", draft)
    assert drafts[0][-8:] != drafts[1][-8:]


def test_an_existing_record_is_not_replaced_and_no_temporary_file_remains(node: NameNode) -> None:
    where = HadoopDecisionStore(FOLDER, {})
    where.create("a.json", b"1")
    with pytest.raises(FileExistsError) as told:
        where.create("a.json", b"2")
    assert str(told.value) == f"o.a.h.FileAlreadyExists: {HERE}/a.json", "without Java's stack"
    assert node.files == {f"{HERE}/a.json": b"1"}


def test_a_failed_write_leaves_no_record_and_says_why(node: NameNode) -> None:
    where = HadoopDecisionStore(FOLDER, {})
    node.fails["rename"] = JavaThrown("SafeModeException", "Name node is in safe mode" + "." * 5000)
    with pytest.raises(OSError, match=r"^Name node is in safe mode") as told:
        where.create("a.json", b"1")
    assert (type(told.value), len(str(told.value))) == (OSError, 2000)
    assert node.files == {}
    node.fails["delete"] = Py4JNetworkError("the answer is lost")
    with pytest.raises(OSError, match=r"^Name node is in safe mode"):
        where.create("a.json", b"1")
    assert node.open_streams == 0


def test_a_missing_record_is_not_found(node: NameNode) -> None:
    with pytest.raises(FileNotFoundError, match=rf"^java\.io.FileNotFoundException: {HERE}/a.json$"):
        HadoopDecisionStore(FOLDER, {}).read("a.json")


def test_a_store_that_cannot_be_listed_is_not_empty(node: NameNode) -> None:
    where = HadoopDecisionStore(FOLDER, {})
    where.create("a.json", b"1")
    for method in ("exists", "listStatus"):
        node.fails = {method: JavaThrown("ConnectException", "Call to nn:8020 failed")}
        with pytest.raises(OSError, match=r"^Call to nn:8020 failed$"):
            where.names()
    node.fails = {"exists": Py4JError("answer from Java side is empty")}
    with pytest.raises(OSError, match=rf"^the Java process for {FOLDER} has failed: answer from Java side is empty"):
        where.names()


def test_no_record_name_leaves_the_directory(node: NameNode) -> None:
    where = HadoopDecisionStore(FOLDER, {})
    for act in (where.read, where.remove, lambda name: where.create(name, b"1")):
        with pytest.raises(NameIllegal):
            act("../victim")
    assert node.happened == []


def test_the_class_path_is_that_of_sparks_driver() -> None:
    everything = {
        "SPARK_HOME": "/spark", "HADOOP_CONF_DIR": "/conf/h", "YARN_CONF_DIR": "/conf/y", "CLASSPATH": "/container/*",
        "SPARK_DIST_CLASSPATH": "/dist/*",
    }  # fmt: skip
    joined = ["/conf/h", "/conf/y", "/container/*", "/spark/conf", "/spark/jars/*", "/dist/*"]
    assert class_path(everything) == os.pathsep.join(joined)
    assert class_path({"SPARK_HOME": "/spark"}) == os.pathsep.join(["/spark/conf", "/spark/jars/*"])


def test_the_class_path_of_an_installed_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hadoop, "find_spec", lambda name: SimpleNamespace(origin=f"/site/{name}/__init__.py"))
    assert class_path({}) == os.pathsep.join(["/site/pyspark/conf", "/site/pyspark/jars/*"])
    for found in (None, SimpleNamespace(origin=None)):
        monkeypatch.setattr(hadoop, "find_spec", lambda _, found=found: found)
        assert class_path({"CLASSPATH": "/container/*"}) == "/container/*"


JAVA = """#!/bin/sh
echo "$@" > "$0.asked"
{}
cat > /dev/null
echo ended > "$0.ended"
"""


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A program in place of Java's; ``.asked`` keeps its arguments, ``.ended`` says that its input has ended."""
    path = tmp_path / "bin" / "java"
    path.parent.mkdir()
    path.write_text(JAVA.format("echo 4711; echo secret"))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("by", ["JAVA_HOME", "PATH"])
def test_a_jvm_is_started_for_py4j_and_ends_with_its_gateway(java: Path, by: str) -> None:
    gateway = start_jvm("/spark/jars/*", {by: str(java.parent.parent if by == "JAVA_HOME" else java.parent)})
    parameters = gateway.gateway_parameters
    assert (parameters.port, parameters.auth_token) == (4711, "secret")
    client = gateway._gateway_client
    assert (client.port, client.gateway_parameters.auth_token) == (4711, "secret")
    assert client.is_connected
    asked = java.with_suffix(".asked").read_text().split()
    assert asked[asked.index("-cp") :] == [
        "-cp", "/spark/jars/*", "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0",
    ]  # fmt: skip
    assert "-Xmx256m" in asked
    assert not java.with_suffix(".ended").exists()
    del gateway, parameters
    gc.collect()
    assert java.with_suffix(".ended").exists(), "the process has ended and was waited for"
    assert not client.is_connected


def test_a_jvm_that_does_not_start_says_what_it_printed(java: Path) -> None:
    for printed in ("echo no class >&2; echo; echo", "echo no class >&2; echo 4711; echo", "echo no class >&2; exit 1"):
        java.write_text(JAVA.format(printed))
        with pytest.raises(OSError, match=r"^the JVM for Hadoop has not started: no class\n$"):
            start_jvm("", {"JAVA_HOME": str(java.parent.parent)})
    java.write_text(JAVA.format("printf 'a%.0s' $(seq 3000) >&2; echo; echo"))
    with pytest.raises(OSError, match=r"not started: a{2000}$"):
        start_jvm("", {"JAVA_HOME": str(java.parent.parent)})


def test_java_of_the_machine_is_the_last_resort(tmp_path: Path) -> None:
    assert hadoop._java({"PATH": str(tmp_path)}) == "java"
