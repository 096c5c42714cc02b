"""Queue mappings of static topics: what replaces what, and what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.metadata.queue_mappings import TopicQueueMappings, decode_mapping
from rocketmq_py.errors import BadHeader, BrokerError
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingItem
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire.fastjson import loads
from tests.unit.broker.workers import AtOnce
from tests.unit.store.memoryfs import MemoryFileSystem


class File(ConfigFile):
    """Keeps what is saved."""

    def __init__(self) -> None:
        super().__init__(Path("/config/table.json"), MemoryFileSystem())
        self.saved: list[Any] = []

    def save_text(self, data: bytes) -> None:
        super().save_text(data)
        self.saved.append(loads(data))
        self.text = data

    def load_text(self) -> bytes:
        return self.text


def detail(topic: str = "t", epoch: int = 1, queues: int = 2) -> MappingDetail:
    items = {
        number: [MappingItem(gen=0, queue_id=number, bname="broker-a", logic_offset=0, start_offset=0)]
        for number in range(queues)
    }
    return MappingDetail(topic=topic, bname="broker-a", total_queues=queues, epoch=epoch, hosted_queues=items)


@pytest.fixture
def file() -> File:
    return File()


@pytest.fixture
def mappings(file: File) -> TopicQueueMappings:
    return TopicQueueMappings(file, "broker-a", lambda: 5, AtOnce())


def test_a_mapping_is_replaced_only_if_it_is_the_current_one(mappings: TopicQueueMappings, file: File) -> None:
    first, second, third = detail(), detail(epoch=2), detail(epoch=3)
    mappings.put(first, "t", force=False)
    version = mappings.version
    assert mappings.replace(first, second) is True
    assert (mappings.table["t"] is second, mappings.version != version, len(file.saved)) == (True, True, 2)
    version = mappings.version
    assert mappings.replace(first, third) is False
    assert (mappings.table["t"] is second, mappings.version == version, len(file.saved)) == (True, True, 2)


def test_the_file_is_laid_out_as_java_lays_it_out(mappings: TopicQueueMappings, file: File) -> None:
    mappings.put(detail(), "t", force=False)
    depth, lines = 0, file.load_text().decode().splitlines()
    assert len(lines) > 20
    for line in lines:
        text = line.lstrip("\t")
        depth -= text.startswith(("}", "]"))
        assert len(line) - len(text) == depth, line
        depth += text.endswith(("{", "["))
    assert depth == 0


def test_queues_are_dropped_from_the_current_mapping(mappings: TopicQueueMappings, file: File) -> None:
    first = detail()
    mappings.put(first, "t", force=False)
    assert mappings.drop(first, {0}) is True
    assert list(mappings.table["t"].hosted_queues) == [1]
    assert list(first.hosted_queues) == [0, 1]
    assert mappings.drop(first, {1}) is False
    assert list(mappings.table["t"].hosted_queues) == [1]


def test_a_mapping_is_deleted_once(mappings: TopicQueueMappings, file: File) -> None:
    mappings.put(detail(), "t", force=False)
    mappings.put(detail("u"), "u", force=False)
    mappings.delete("t")
    assert (list(mappings.table), len(file.saved)) == (["u"], 3)
    mappings.delete("t")
    assert len(file.saved) == 3


def test_a_mapping_of_another_broker_is_refused(mappings: TopicQueueMappings, file: File) -> None:
    other = detail()
    other.bname = "broker-b"
    with pytest.raises(BrokerError) as refused:
        mappings.put(other, "t", force=False)
    assert (refused.value.code, mappings.table, file.saved) == (1, {}, [])


def test_the_mappings_of_a_master_are_taken_over_if_they_differ(mappings: TopicQueueMappings, file: File) -> None:
    mappings.put(detail(), "t", force=False)
    tree, version = dict(mappings.trees()), mappings.version
    mappings.take_over(version, {})
    mappings.take_over(None, {})
    mappings.take_over(DataVersion(counter=9), None)
    assert (list(mappings.table), len(file.saved)) == (["t"], 1)
    mappings.take_over(DataVersion(counter=9), {"u": {**tree["t"], "topic": "u"}})  # type: ignore[dict-item]
    assert (list(mappings.table), mappings.version.counter, len(file.saved)) == (["u"], 9, 2)


def test_only_static_topics_are_registered(mappings: TopicQueueMappings) -> None:
    mappings.put(detail(), "t", force=False)
    assert list(mappings.infos({"t", "plain"})) == ["t"]
    assert mappings.infos({"plain"}) == {}


def test_a_request_needs_a_mapping() -> None:
    with pytest.raises(BadHeader, match="the request has no queue mapping"):
        decode_mapping(b"")
    assert decode_mapping(detail().encode()).topic == "t"
