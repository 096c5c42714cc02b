"""Records stay in their directory, whatever their names."""

import os
import stat

import pytest

from rocketmq_py.errors import ConfigError, NameIllegal
from rocketmq_py.spark.decision_store import stores
from rocketmq_py.spark.decision_store.stores import LocalDecisionStore, check, split, store_at


@pytest.mark.parametrize("name", ["../victim", "..", "", "/abs", "a/b", "a\\b"])
def test_no_record_name_leaves_the_directory(tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    where = LocalDecisionStore(tmp_path / "place")
    where.create("00000000000000000001.json", b"{}")
    for act in (where.read, where.remove, lambda one: where.create(one, b"theirs")):
        with pytest.raises(NameIllegal):
            act(name)
    assert victim.read_bytes() == b"mine"
    assert where.names() == ["00000000000000000001.json"]


def test_a_record_is_on_the_disk_before_it_has_its_name_and_its_name_before_create_returns(tmp_path, monkeypatch):
    synced, opened, closed, link, fsync, close = [], [], [], os.link, os.fsync, os.close

    def noted(descriptor):
        found = os.fstat(descriptor)
        synced.append("directory" if stat.S_ISDIR(found.st_mode) else found.st_size)
        opened.extend([descriptor] if stat.S_ISDIR(found.st_mode) else [])
        fsync(descriptor)

    def named(source, target):
        synced.append("named")
        link(source, target)

    def ended(descriptor):
        closed.append(descriptor)
        close(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "close", ended)
    monkeypatch.setattr(os, "link", named)
    where = LocalDecisionStore(tmp_path / "deep" / "place")
    where.create("a.json", b"12345")
    assert synced == [5, "named", "directory"]
    where.create("b.json", b"1")
    assert sorted(where.names()) == ["a.json", "b.json"], "no temporary file"
    with pytest.raises(FileExistsError):
        where.create("a.json", b"6")
    assert (where.read("a.json"), sorted(where.names())) == (b"12345", ["a.json", "b.json"])
    assert opened == closed


def test_an_object_store_needs_its_package(monkeypatch):
    check("s3a://bucket/a", {})
    monkeypatch.setattr(stores, "find_spec", lambda _: None)
    with pytest.raises(
        ConfigError, match=r"s3a://bucket/a is in an object store: pip install 'rocketmq-py\[objectstore\]'"
    ):
        check("s3a://bucket/a", {})
    for location in ("hdfs://nn/a", "webhdfs://nn/a", "/a", "file:///a"):
        check(location, {})


def test_the_default_file_system_is_that_of_hadoops_configuration(tmp_path):
    def configured(folder, *properties):
        (tmp_path / folder).mkdir()
        entries = "".join(f"<property><name>{n}</name><value>{v}</value></property>" for n, v in properties)
        (tmp_path / folder / "core-site.xml").write_text(f"<configuration>{entries}</configuration>")
        return str(tmp_path / folder)

    old = configured("old", ("a.b", "gs://no"), ("fs.default.name", "viewfs://c"), ("fs.defaultFS", "s3a://later"))
    new, none = configured("new", ("fs.defaultFS", "hdfs://nn")), configured("none", ("a.b", "hdfs://nn"))
    assert [
        split("/a", environ)[0]
        for environ in (
            {}, {"HADOOP_CONF_DIR": old}, {"YARN_CONF_DIR": new}, {"HADOOP_CONF_DIR": none, "YARN_CONF_DIR": new},
            {"HADOOP_CONF_DIR": none}, {"HADOOP_CONF_DIR": str(tmp_path)}, {"HADOOP_CONF_DIR": ""},
            {"HADOOP_CONF_DIR": old, "YARN_CONF_DIR": new},
        )
    ] == ["file", "viewfs", "hdfs", "hdfs", "file", "file", "file", "viewfs"]  # fmt: skip


def test_a_local_store_looks_for_the_file_of_the_checkpoint_beside_it(tmp_path):
    (tmp_path / "rocketmq").mkdir()
    (tmp_path / "rocketmq" / "a.json").write_bytes(b"1")
    assert store_at(str(tmp_path / "rocketmq"), {}).names() == ["a.json"]
    with pytest.raises(FileNotFoundError, match=r"metadata, is not on this machine"):
        store_at(str(tmp_path / "rocketmq"), {}, "metadata").names()
    (tmp_path / "metadata").touch()
    assert store_at(f"file://{tmp_path}/rocketmq", {}, "metadata").names() == ["a.json"]
