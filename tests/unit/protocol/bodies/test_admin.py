"""Bodies keyed by message queue, as fastjson writes them and as strict JSON has them."""

import msgspec
import pytest

from rocketmq_py.errors import BadHeader
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import (
    ConsumeStatsTable,
    HaStatus,
    OffsetWrapper,
    ResetOffsetTable,
    SlaveConnection,
    SlaveRuntime,
    TopicOffset,
    TopicStatsTable,
    queue_of_key,
)
from tests.unit.protocol.defaults import defaults

Q1 = MessageQueue("t", "broker-a", 1)
KEY = '{"brokerName":"broker-a","queueId":1,"topic":"t"}'


def test_topic_offsets_are_decoded():
    body = f'{{"offsetTable":{{{KEY}:{{"lastUpdateTimestamp":7,"maxOffset":5,"minOffset":2}}}},"topicPutTps":1.5}}'
    table = TopicStatsTable.read(body.encode())
    extent = table.queues()[Q1]
    assert (extent.min_offset, extent.max_offset, extent.last_update_timestamp) == (2, 5, 7)
    assert table.topic_put_tps == 1.5


def test_consumer_offsets_are_decoded():
    state = '{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":3,"pullOffset":6}'
    found = ConsumeStatsTable.read(f'{{"consumeTps":0.0,"offsetTable":{{{KEY}:{state}}}}}'.encode()).queues()[Q1]
    assert (found.broker_offset, found.consumer_offset, found.pull_offset, found.last_timestamp) == (9, 4, 6, 3)


def test_numbers_in_quotes_are_numbers():
    key = KEY.replace(":1,", ':"1",')
    assert queue_of_key(key) == Q1
    assert ResetOffsetTable(offset_table={KEY: "7"}).queues() == {Q1: 7}


def test_queues_of_many_tables_are_parsed_once():
    known: dict[str, MessageQueue] = {}
    [first] = ConsumeStatsTable(offset_table={KEY: {}}).queues(known)
    [second] = ConsumeStatsTable(offset_table={KEY: {}}).queues(known)
    assert second is first


def test_quoted_keys_are_decoded():
    quoted = KEY.replace('"', '\\"')
    assert ResetOffsetTable.read(f'{{"offsetTable":{{"{quoted}":12}}}}'.encode()).queues() == {Q1: 12}


def test_empty_bodies_have_no_queues():
    assert TopicStatsTable.read(b"").queues() == {}
    assert ConsumeStatsTable.read(b"{}").queues() == {}


def test_a_malformed_body_is_refused():
    with pytest.raises(BadHeader, match="not a message queue"):
        queue_of_key("orders")
    with pytest.raises(BadHeader, match="TopicOffset"):
        TopicStatsTable.read(f'{{"offsetTable":{{{KEY}:[]}}}}'.encode()).queues()


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (TopicOffset, {"minOffset": 0, "maxOffset": 0, "lastUpdateTimestamp": 0}),
        (OffsetWrapper, {"brokerOffset": 0, "consumerOffset": 0, "pullOffset": 0, "lastTimestamp": 0}),
        (TopicStatsTable, {"topicPutTps": 0.0}),
        (ConsumeStatsTable, {"consumeTps": 0.0}),
        (
            SlaveConnection,
            {"slaveAckOffset": 0, "diff": 0, "inSync": False, "transferredByteInSecond": 0, "transferFromWhere": 0},
        ),
        (SlaveRuntime, {"maxOffset": 0, "lastReadTimestamp": 0, "transferredByteInSecond": 0}),
        (HaStatus, {"master": True, "masterCommitLogMaxOffset": 0, "inSyncSlaveNums": 0}),
    ],
)
def test_numbers_and_flags_that_are_missing(cls: type[msgspec.Struct], expected: dict[str, float]) -> None:
    assert defaults(cls) == expected


@pytest.mark.parametrize(
    ("end", "committed", "lag"), [(10, 4, 6), (10, 10, 0), (10, 11, 0), (10, 20, 0), (10, -1, 10), (0, 0, 0)]
)
def test_the_lag_of_a_group_is_what_its_queue_has_after_its_offset(end: int, committed: int, lag: int) -> None:
    assert OffsetWrapper(broker_offset=end, consumer_offset=committed).lag == lag
