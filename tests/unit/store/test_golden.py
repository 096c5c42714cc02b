"""A store a Java broker wrote: it opens, it serves, and from its log alone the same queue and index files come out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from struct import unpack_from

import pytest

from rocketmq_py.store import ConfigFile, GetStatus, MessageStore, StoreConfig
from rocketmq_py.wire.record import decode_records, encode_record
from tests.unit.store.helpers import HOST, record

GOLDEN = Path(__file__).parents[2] / "golden"


def golden_config():
    root = GOLDEN / "store"
    commit_log = next((root / "commitlog").iterdir()).stat().st_size
    return StoreConfig(
        mapped_file_size_commit_log=commit_log,
        mapped_file_size_consume_queue=400,
        max_hash_slot_num=16,
        max_index_num=64,
    )


@pytest.fixture
def java(tmp_path):
    shutil.copytree(GOLDEN / "store", tmp_path / "store")
    return tmp_path / "store"


def open_store(root):
    store = MessageStore(root, golden_config(), store_host=HOST)
    store.open()
    return store


def all_messages(store):
    found = []
    for topic, queue_id in store.queues():
        low, high = store.queue_range(topic, queue_id)
        result = store.get(topic, queue_id, low, 32)
        assert result.status is GetStatus.FOUND
        assert result.next_offset == high
        found += [(result.body, m) for m in decode_records(result.body)]
    return found


def test_every_message_of_java_is_readable_and_found_by_key(java):
    store = open_store(java)
    messages = [m for _, m in all_messages(store)]
    assert len(messages) >= 10
    for message in messages:
        for key in (message.properties["UNIQ_KEY"], *(message.keys or "").split()):
            found = decode_records(store.query(message.topic, key, 64, 0, 1 << 62).body)
            assert message.queue_offset in {m.queue_offset for m in found}
    delivered = [json.loads(line) for line in (GOLDEN / "deliveries.jsonl").read_text().splitlines()]
    ids = {m.msg_id for m in messages}
    assert {row["msgId"] for row in delivered if row.get("type") == "msg"} <= ids
    store.close()


def test_our_encoder_gives_the_records_of_java(java):
    store = open_store(java)
    for _, message in all_messages(store):
        raw = store.message_at(message.commit_log_offset)
        if message.sys_flag == unpack_from(">i", raw, 36)[0]:
            assert encode_record(message.head, message.topic, message.body, message.raw_properties) == raw
    store.close()


def test_rebuilt_queue_and_index_files_equal_those_of_java(java):
    shutil.rmtree(java / "consumequeue")
    (index,) = (java / "index").iterdir()
    index.unlink()
    open_store(java).close()
    for path in (GOLDEN / "store" / "consumequeue").rglob("0" * 20):
        assert (java / path.relative_to(GOLDEN / "store")).read_bytes() == path.read_bytes()
    (made,) = (java / "index").iterdir()
    ours, theirs = (entries(path) for path in (made, GOLDEN / "store" / "index" / index.name))
    # A 5.5 broker files messages under their tags too.
    assert [entry for entry in theirs if entry in ours] == ours
    assert {physical for _, physical, _ in ours} == {physical for _, physical, _ in theirs}
    assert made.read_bytes()[:32] == (GOLDEN / "store" / "index" / index.name).read_bytes()[:32]


def entries(path):
    data = path.read_bytes()
    count = unpack_from(">i", data, 36)[0]
    return [unpack_from(">iqi", data, 40 + 4 * 16 + 20 * i) for i in range(1, count)]


def test_appends_continue_a_store_of_java(java):
    store = open_store(java)
    topic, queue_id = "golden", 0
    before = store.queue_range(topic, queue_id)[1]
    end = store.max_physical_offset
    done = [store.append(record(i, topic=topic, queue_id=queue_id)) for i in range(50)]
    assert [d.queue_offset for d in done] == list(range(before, before + 50))
    assert done[0].physical_offset in (end, -(-end // 4096) * 4096)
    store.close()
    store = open_store(java)
    assert store.queue_range(topic, queue_id)[1] == before + 50
    store.close()


def test_config_files_of_java_are_read_and_written_unchanged(java):
    for path in (java / "config").glob("*.json"):
        value = ConfigFile(path).load()
        assert isinstance(value, dict)
        assert "dataVersion" in value or "offsetTable" in value
