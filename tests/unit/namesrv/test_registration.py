"""The body a broker registers with: plain, compressed, old, broken."""

import json
import struct
import zlib

import pytest

from rocketmq_py.errors import BadHeader
from rocketmq_py.namesrv import registration
from rocketmq_py.namesrv.registration import MAX_AT_ONCE, MAX_INFLATED, checksum
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig, TopicConfigTable
from rocketmq_py.protocol.codes import Version
from tests.unit.namesrv.conftest import result_of

NEW = Version.V5_3_3
TOPIC = TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=4, perm=6, attributes={"+message.type": "FIFO"})
TABLE = TopicConfigTable(topic_config_table={"T": TOPIC}, data_version=DataVersion(counter=7, timestamp=9))


def decode_registration(body, version):
    return result_of(registration.decode_registration(body, version))


def block(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def compressed(topics: list[str], mappings: list[dict] | None = None, filters: str = "[]") -> bytes:
    raw = block(b'{"counter":7,"stateVersion":0,"timestamp":9}') + struct.pack(">i", len(topics))
    raw += b"".join(block(topic.encode()) for topic in topics) + block(filters.encode())
    if mappings is not None:
        raw += struct.pack(">i", len(mappings)) + b"".join(block(json.dumps(one).encode()) for one in mappings)
    return zlib.compress(raw, 9)


def test_a_plain_json_body_is_decoded():
    body = RegisterBrokerBody(topic_config_serialize_wrapper=TABLE, filter_server_list=["f:1"])
    assert decode_registration(body.encode(), NEW) == body


def test_a_compressed_body_is_recognised_by_its_first_byte():
    body = decode_registration(compressed(['T 3 4 6 SINGLE_TAG {"+message.type":"FIFO"}'], []), NEW)
    table = body.topic_config_serialize_wrapper
    assert table.topic_config_table == {"T": TOPIC}
    assert table.data_version == TABLE.data_version
    assert body.filter_server_list == []


def test_a_compressed_body_before_5_0_has_no_mappings():
    body = decode_registration(compressed(["T 3 4 6 SINGLE_TAG "], filters='["f:1"]'), Version.V4_9_4)
    assert body.filter_server_list == ["f:1"]
    assert body.topic_config_serialize_wrapper.topic_config_table["T"].attributes == {}


def test_mappings_of_static_topics_are_kept_as_they_are():
    mapping = {"topic": "S", "bname": "broker-a", "currIdMap": {"0": 0}}
    body = decode_registration(compressed(["S 1 1 6 SINGLE_TAG {}"], [mapping]), NEW)
    assert body.topic_config_serialize_wrapper.topic_queue_mapping_info_map == {"S": mapping}


def test_a_broker_before_3_0_11_sends_topics_only():
    body = decode_registration(TABLE.encode(), 36)
    assert body.topic_config_serialize_wrapper.topic_config_table == {"T": TOPIC}


def test_an_empty_body_has_no_topics():
    assert decode_registration(b"", NEW).topic_config_serialize_wrapper.topic_config_table == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "is no RegisterBrokerBody"),
        (b'{"topicConfigSerializeWrapper":3}', "RegisterBrokerBody"),
        (b"\x78rubbish", "does not decompress"),
        (compressed(["T 1 1 6 SINGLE_TAG {}"], [])[:-8], "cut off"),
        (zlib.compress(struct.pack(">i", 500) + b"x"), "longer than what is left"),
        (zlib.compress(b"\x00"), "cannot be understood"),
        (compressed(["T 1 1"], []), "is no topic"),
        (compressed([], [{"no": "topic"}]), "names no topic"),
        (compressed(["T 1 1 6 SINGLE_TAG [1]"], []), "are no attributes"),
        (compressed([f"T 1 1 6 SINGLE_TAG {'[' * 50_000}"], []), "cannot be understood"),
        (compressed([], filters="5"), "are no list"),
        (compressed([], [{"topic": "T", "bname": []}]), "topicQueueMappingInfoMap: T is "),
    ],
    ids=[
        "json",
        "kind",
        "zlib",
        "cut",
        "block",
        "number",
        "topic",
        "mapping",
        "attributes",
        "deep",
        "filters",
        "bname",
    ],
)
def test_a_broken_body_is_named(body, said):
    with pytest.raises(BadHeader, match=said):
        decode_registration(body, NEW)


def test_the_checksum_is_java_s():
    assert checksum(b"123456789") == 0xCBF43926 & 0x7FFFFFFF


def large(count):
    """A registration as a broker with many topics makes it."""
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigTable(
            topic_config_table={
                f"topic-{i}": TopicConfig(topic_name=f"topic-{i}", read_queue_nums=i % 9, attributes={"a": "b"})
                for i in range(count)
            },
            data_version=DataVersion(counter=7, timestamp=9),
            topic_queue_mapping_info_map={"S": {"topic": "S", "bname": "broker-a"}},
        ),
        filter_server_list=["f:1"],
    )


@pytest.mark.parametrize("version", [NEW, 36])
def test_a_large_body_is_decoded_in_steps_to_the_same_result(version):
    body = large(5000)
    if version == 36:
        body.filter_server_list = []
    data = (body if version == NEW else body.topic_config_serialize_wrapper).encode()
    assert len(data) > MAX_AT_ONCE
    steps = registration.decode_registration(data, version)
    assert sum(1 for _ in iter(lambda: next(steps, "end"), "end")) > 5000
    assert decode_registration(data, version) == body


def test_a_large_body_must_be_standard_json():
    data = large(5000).encode().replace(b'"topicName"', b"topicName")
    with pytest.raises(BadHeader, match="must be standard JSON"):
        decode_registration(data, NEW)


def test_no_member_but_topics_and_mappings_may_be_large():
    body = large(1)
    body.filter_server_list = ["f:1"] * 100_000
    with pytest.raises(BadHeader, match="too many"):
        decode_registration(body.encode(), NEW)


def test_a_body_that_decompresses_to_more_than_the_limit_is_refused():
    bomb = zlib.compress(bytes(MAX_INFLATED + 1), 9)
    steps = registration.decode_registration(bomb, NEW)
    with pytest.raises(BadHeader, match=f"larger than {MAX_INFLATED}"):
        result_of(steps)


def test_a_body_above_the_limit_is_not_decompressed_to_its_end(monkeypatch):
    assert MAX_INFLATED == 33_554_432
    monkeypatch.setattr(registration, "MAX_INFLATED", 2 << 20)
    steps = registration.decode_registration(zlib.compress(bytes(16 << 20), 1), NEW)
    taken = 0
    with pytest.raises(BadHeader, match="larger than 2097152 decompressed"):  # noqa: PT012 - the steps are counted
        for _ in steps:
            taken += 1
    assert taken <= 3
