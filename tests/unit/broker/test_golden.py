"""Recorded requests to a Java broker, repeated on a copy of its store, get the same answers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import FrameDecoder
from rocketmq_py.wire.record import decode_record
from tests.golden import files
from tests.unit.broker.harness import Client, InProcess, broker

JAVA_STORE = {
    "mapped_file_size_commit_log": 4096, "mapped_file_size_consume_queue": 400, "max_hash_slot_num": 10,
    "max_index_num": 64,
}  # fmt: skip
AFTER_MS = 1_795_300_000_000
"""Some time after the recording."""


@pytest.fixture
def java(tmp_path: Path) -> Iterator[InProcess]:
    root = shutil.copytree(files.STORE, tmp_path / "store")
    with broker(root, store=JAVA_STORE) as running:
        running.now = AFTER_MS
        yield running


def command(data: bytes) -> Command:
    [frame] = FrameDecoder().feed(data)
    return decode_command(frame)


def replay(client: Client, name: str) -> tuple[Command, Command]:
    """Our answer to a recorded request, and the Java broker's."""
    sent = command(files.request(name))
    answers = client.read([sent])
    return answers[0], command(files.response(name))


def body(answer: Command) -> Any:
    return fastjson.loads(answer.body) if answer.body else None


def same_remark(ours: Command, java: Command) -> bool:
    """Remarks that name the caller's port differ there; Java's empty remark says nothing."""

    def plain(text: str | None) -> str | None:
        return (text or "").partition("127.0.0.1:")[0] or None

    return plain(ours.remark) == plain(java.remark)


def register(client: Client) -> None:
    """The consumer of the recording, subscribed as its pulls expect it."""
    heartbeat = command(files.request("heartbeat"))
    tree = fastjson.loads(heartbeat.body)
    tree["consumerDataSet"].append(
        {**tree["consumerDataSet"][0], "groupName": "golden-group", "subscriptionDataSet": [
            {"topic": "golden", "subString": "*", "subVersion": 1_800_000_000_000}]}
    )  # fmt: skip
    heartbeat.body = fastjson.dumps(tree)
    client.read([heartbeat])


@pytest.mark.parametrize(
    "name",
    ["max_offset", "min_offset", "search_offset", "query_offset_missing", "pull_not_found", "pull_offset_moved",
     "pull_retry_immediately", "pull_unknown_topic", "pull_wrong_queue", "send_illegal_topic", "send_wrong_queue",
     "unknown_code", "heartbeat", "unregister", "consumer_list"],
)  # fmt: skip
def test_answers_without_a_body_equal_those_of_java(java: InProcess, name: str) -> None:
    client = java.connect()
    register(client)
    ours, theirs = replay(client, name)
    assert (ours.code, ours.ext, ours.opaque) == (theirs.code, theirs.ext, theirs.opaque)
    assert same_remark(ours, theirs)


def test_a_pull_returns_the_same_bytes_as_java(java: InProcess) -> None:
    client = java.connect()
    register(client)
    ours, theirs = replay(client, "pull_found")
    assert (ours.code, ours.remark, ours.ext) == (theirs.code, theirs.remark, theirs.ext)
    assert ours.body == theirs.body


@pytest.mark.parametrize("name", ["topic_config", "consume_stats", "topic_stats", "delay_offset_all"])
def test_tables_equal_java_s(java: InProcess, name: str) -> None:
    ours, theirs = replay(java.connect(), name)
    mine, wanted = body(ours), body(theirs)
    for rates in ("topicPutTps", "consumeTps"):
        mine.pop(rates, None)
        wanted.pop(rates, None)
    for row in wanted.get("offsetTable", {}).values():
        if isinstance(row, dict) and "pullOffset" in row:
            assert row["pullOffset"] == row["consumerOffset"]  # what was pulled is not kept over a restart
    assert (ours.code, mine) == (theirs.code, wanted)


def test_the_topic_table_equals_that_of_java(java: InProcess) -> None:
    ours, theirs = replay(java.connect(), "topic_config_all")
    mine, wanted = body(ours), body(theirs)
    assert wanted["topicConfigTable"] == {name: mine["topicConfigTable"][name] for name in wanted["topicConfigTable"]}
    assert mine["dataVersion"] == wanted["dataVersion"]
    assert ours.ext["totalTopicNum"] == str(len(mine["topicConfigTable"]))


def test_group_and_offset_tables_equal_those_of_java(java: InProcess) -> None:
    ours, theirs = replay(java.connect(), "group_config_all")
    assert (body(ours), ours.ext) == (body(theirs), theirs.ext)
    ours, theirs = replay(java.connect(), "consumer_offset_all")
    mine, wanted = body(ours), body(theirs)
    assert mine["offsetTable"] == wanted["offsetTable"]
    assert mine["dataVersion"] == wanted["dataVersion"]


SENDS = ["send_v2", "send_v1", "send_batch", "send_zlib", "send_lz4", "send_zstd", "send_rocketmq"]


@pytest.mark.parametrize("name", SENDS)
def test_sends_are_answered_as_java_answers(java: InProcess, name: str) -> None:
    ours, theirs = replay(java.connect(), name)
    assert (ours.code, ours.remark, ours.ext.keys()) == (theirs.code, theirs.remark, theirs.ext.keys())
    for field in ("queueId", "transactionId", "MSG_REGION", "TRACE_ON"):
        assert ours.ext[field] == theirs.ext[field]
    assert len(ours.ext["msgId"]) == len(theirs.ext["msgId"])
    assert ours.ext["queueOffset"] == "10"


def test_a_one_way_send_is_stored_and_not_answered(java: InProcess) -> None:
    client = java.connect()
    assert client.read([command(files.request("send_oneway"))]) == []
    assert java.services.store.queue_range("golden", 1) == (0, 2)


def test_stored_properties_are_those_java_stores(java: InProcess) -> None:
    """The same request once more: what is stored of it must be what Java stored, but for the order of properties."""
    replay(java.connect(), "send_v2")
    store = java.services.store
    ours, theirs = (store.record_at_queue("golden", 0, offset) for offset in (10, 0))
    assert ours is not None
    assert theirs is not None
    mine, wanted = decode_record(ours), decode_record(theirs)
    assert mine.properties == wanted.properties
    assert len(mine.raw_properties) == len(wanted.raw_properties)
    assert (mine.body, mine.flag, mine.sys_flag, mine.body_crc) == (
        wanted.body, wanted.flag, wanted.sys_flag, wanted.body_crc
    )  # fmt: skip


def test_a_failed_message_is_stored_as_java_stores_it(java: InProcess) -> None:
    """Sent back, it waits; delivered, its properties are those of the message Java delivered."""
    ours, theirs = replay(java.connect(), "send_back")
    assert (ours.code, ours.ext, ours.remark) == (theirs.code, theirs.ext, theirs.remark)
    store = java.services.store
    java.turn(1_100)
    delivered, wanted = (store.record_at_queue("%RETRY%golden-retry", 0, offset) for offset in (1, 0))
    assert delivered is not None
    assert wanted is not None
    mine, reference = decode_record(delivered), decode_record(wanted)
    assert mine.reconsume_times == reference.reconsume_times == 1
    assert mine.properties == reference.properties


def test_committed_offsets_are_kept(java: InProcess) -> None:
    client = java.connect()
    assert client.read([command(files.request("update_offset"))]) == []
    assert java.services.offsets.query("golden-retry", "%RETRY%golden-retry", 0) == 1


def test_a_missing_field_is_named(java: InProcess) -> None:
    ours, theirs = replay(java.connect(), "send_missing_field")
    assert ours.code == theirs.code == 1
    assert "e" in (ours.remark or "")
