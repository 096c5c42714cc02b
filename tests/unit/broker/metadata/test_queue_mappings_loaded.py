"""The file of queue mappings: what a start takes from it, and what it leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.broker.metadata.queue_mappings import TopicQueueMappings
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingItem
from rocketmq_py.store.config.config_files import ConfigFile
from tests.unit.broker.workers import AtOnce
from tests.unit.store.memoryfs import MemoryFileSystem

FILE = Path("/store/config/topicQueueMapping.json")


def opened(fs: MemoryFileSystem, name: str = "broker-a") -> TopicQueueMappings:
    mappings = TopicQueueMappings(ConfigFile(FILE, fs), name, lambda: 5, AtOnce())
    mappings.load()
    return mappings


def detail(topic: str) -> MappingDetail:
    items = [MappingItem(gen=0, queue_id=3, bname="broker-a", logic_offset=0)]
    return MappingDetail(topic=topic, bname="broker-a", total_queues=1, epoch=1, hosted_queues={0: items})


def test_mappings_are_read_at_a_start_with_their_version() -> None:
    fs = MemoryFileSystem()
    before = opened(fs)
    assert (before.table, before.has("t")) == ({}, False)
    for topic in ("t", "u"):
        before.put(detail(topic), topic, force=False)
    again = opened(fs)
    assert again.table == {"t": detail("t"), "u": detail("u")}
    assert again.version == before.version
    assert (again.has("t"), again.has("v")) == (True, False)


def test_mappings_of_another_broker_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFileSystem()
    opened(fs).put(detail("t"), "t", force=False)
    assert opened(fs, "broker-b").table == {}
    assert "ignoring the queue mapping of topic t: " in caplog.text
