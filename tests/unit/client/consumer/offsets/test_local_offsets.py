"""Offset files of broadcasting consumers: Java's path and format, and damaged files."""

import asyncio

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.offsets.local_offsets import LocalOffsetStore, decode, encode, load
from rocketmq_py.errors import ConfigError, StoreError
from rocketmq_py.model import MessageQueue

A0, A1, B0 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1), MessageQueue("t", "broker-b", 0)
JAVA = b"""{
\t"offsetTable":{
\t\t{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"t"
\t\t}:5,
\t\t{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":1,
\t\t\t"topic":"t"
\t\t}:17
\t}
}"""


def scenario(directory, function):
    async def run():
        instance = ClientInstance("127.0.0.1:1", instance_name="DEFAULT")
        await function(LocalOffsetStore(instance, "g", directory), instance)
        await instance.stop()

    asyncio.run(run())


def test_the_file_equals_that_of_java():
    assert encode({A1: 17, A0: 5}) == JAVA
    assert decode(JAVA) == {A0: 5, A1: 17}


def test_keys_on_one_line_and_as_strings_are_read():
    assert decode(b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:5}}') == {A0: 5}
    text = rb'{"offsetTable":{"{\"brokerName\":\"broker-a\",\"queueId\":0,\"topic\":\"t\"}":5}}'
    assert decode(text) == {A0: 5}
    assert decode(b"{}") == {}


def test_the_path_is_that_of_a_java_client(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    async def test(_, instance):
        home = LocalOffsetStore(instance, "g").path
        assert home == tmp_path / ".rocketmq_offsets" / instance.client_id / "g" / "offsets.json"
        assert home.parts[-3].endswith("@DEFAULT")

    scenario(None, test)


def test_persisted_offsets_are_loaded_and_a_backup_is_kept(tmp_path):
    async def test(offsets, _):
        assert await offsets.fetch(A0) is None
        offsets.update(A0, 5)
        offsets.update(A1, 6)
        await offsets.persist([A0])
        assert (await offsets.fetch(A0), await offsets.fetch(A1)) == (5, None)
        offsets.update(A0, 7)
        await offsets.persist_confirmed([A0, A1])
        assert load(offsets.path) == {A0: 7, A1: 6}
        assert decode(offsets.path.with_name("offsets.json.bak").read_bytes()) == {A0: 5}
        assert sorted(path.name for path in offsets.path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]

    scenario(tmp_path, test)


def test_queues_of_other_members_stay_in_the_file(tmp_path):
    async def test(offsets, _):
        offsets.path.parent.mkdir(parents=True)
        offsets.path.write_bytes(encode({B0: 3}))
        offsets.update(A0, 1)
        await offsets.persist([A0])
        assert load(offsets.path) == {A0: 1, B0: 3}

    scenario(tmp_path, test)


def test_nothing_is_written_when_nothing_has_changed(tmp_path):
    async def test(offsets, _):
        offsets.update(A0, 1)
        await offsets.persist([A0])
        written = offsets.path.stat().st_mtime_ns
        await offsets.persist([A0])
        await offsets.persist([])
        assert offsets.path.stat().st_mtime_ns == written
        assert not offsets.path.with_name("offsets.json.bak").exists()

    scenario(tmp_path, test)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"offsetTable":{"x":1}}', None])
def test_a_damaged_or_missing_file_is_replaced_by_its_backup(tmp_path, damage):
    path = tmp_path / "offsets.json"
    path.with_name("offsets.json.bak").write_bytes(encode({A0: 5}))
    if damage is not None:
        path.write_bytes(damage)
    assert load(path) == {A0: 5}


def test_unreadable_offsets_raise_and_are_not_overwritten(tmp_path, caplog):
    async def test(offsets, _):
        offsets.path.parent.mkdir(parents=True)
        offsets.path.write_bytes(b"{")
        with pytest.raises(StoreError, match=r"offsets\.json cannot be read.*repair it, or remove it"):
            await offsets.fetch(A0)
        offsets.update(A0, 1)
        await offsets.persist([A0])
        assert "1 offsets could not be written" in caplog.text
        assert offsets.path.read_bytes() == b"{"

    scenario(tmp_path, test)


@pytest.mark.parametrize("name", ["../../victim", "..", "/abs", "a/b", "a\\b", ""])
def test_group_and_client_names_do_not_leave_the_directory(tmp_path, name):
    async def run():
        instance = ClientInstance("127.0.0.1:1", instance_name="DEFAULT")
        with pytest.raises(ConfigError, match="cannot be the name of a file or folder"):
            LocalOffsetStore(instance, name, tmp_path)
        instance.client_id = name
        with pytest.raises(ConfigError, match="cannot be the name of a file or folder"):
            LocalOffsetStore(instance, "g", tmp_path)
        await instance.stop()

    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []


async def test_an_instance_name_that_leaves_the_directory_fails_the_start(tmp_path):
    instance = ClientInstance("127.0.0.1:1", instance_name="x/../../../victim")
    with pytest.raises(ConfigError, match="path separator"):
        LocalOffsetStore(instance, "g", tmp_path)
    await instance.stop()
