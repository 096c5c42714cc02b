from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.pop_checkpoint import (
    AckRecord,
    BatchAckRecord,
    CheckPoint,
    CkKey,
    decode_revive,
    revive_topic,
)

CK = b'{"bm":0,"bn":"b","c":"g","d":[0,1,3],"it":60000,"n":3,"pt":5,"q":2,"ro":0,"so":100,"t":"T"}'
ACK = b'{"ao":103,"bn":"b","c":"g","pt":5,"q":2,"so":100,"t":"T"}'
BATCH = b'{"ao":-1,"aol":[100,103],"bn":"b","c":"g","pt":5,"q":2,"so":100,"t":"T"}'
KEY = CkKey("T", "g", 2, 100, 5, "b")


def test_checkpoint_bodies_equal_those_of_java() -> None:
    ck = decode_revive("ck", CK)
    assert isinstance(ck, CheckPoint)
    assert (ck.key, ck.offsets, ck.revive_time) == (KEY, [100, 101, 103], 60_005)
    assert ck.encode() == CK
    assert [ck.bits_of([offset]) for offset in (99, 100, 101, 102, 103, 104)] == [0, 1, 2, 0, 4, 0]
    assert ck.bits_of([103, 99, 100, 103]) == 0b101
    assert ck.unique_key == "T@2@100@g@5@b@ck"
    ack = decode_revive("ack", ACK)
    assert isinstance(ack, AckRecord)
    assert (ack.key("other"), ack.offsets) == (KEY, [103])
    assert ack.encode() == ACK
    assert ack.unique_key == "T@2@103@g@5@b@ack"
    batch = decode_revive("bAck", BATCH)
    assert isinstance(batch, BatchAckRecord)
    assert (batch.key("other"), batch.offsets) == (KEY, [100, 103])
    assert batch.encode() == BATCH
    assert BatchAckRecord.of(ack, [100, 103]).encode() == BATCH


@pytest.mark.parametrize(
    ("diffs", "count", "offsets"),
    [([0, 1, 2], 3, [100, 101, 102]), ([], 2, [100, 101]), ([], 0, []), ([2, 3], 2, [102, 103]),
     ([0, 2], 3, [100, 102]), ([0, 1], 3, [100, 101]), ([5], 1, [105])],
)  # fmt: skip
def test_the_offsets_of_a_checkpoint(diffs: list[int], count: int, offsets: list[int]) -> None:
    ck = CheckPoint(
        broker_name="b", group="g", diffs=diffs, invisible_ms=1, count=count, pop_time=5, queue_id=2, start_offset=100,
        topic="T",
    )  # fmt: skip
    assert ck.offsets == offsets
    assert [ck.bits_of([offset]) for offset in offsets] == [1 << bit for bit in range(len(offsets))]
    assert ck.bits_of([99, 110]) == 0


def test_checkpoints_of_older_brokers_are_decoded() -> None:
    ck = CheckPoint.decode(b'{"bn":"b","c":"g","it":60000,"n":3,"pt":5,"q":2,"so":100,"t":"T"}')
    assert ck.offsets == [100, 101, 102]
    assert [ck.bits_of([offset]) for offset in (99, 100, 102, 103)] == [0, 1, 4, 0]
    assert ck.bits_of([102, 103, 99, 100, 100]) == 0b101
    ack = AckRecord.decode(b'{"ao":103,"c":"g","pt":5,"q":2,"so":100,"t":"T"}')
    assert ack.key("b") == KEY


@given(st.integers(90, 110), st.integers(0, 20), st.sampled_from([[], [0, 1, 2, 3], [0, 2, 3, 7]]))
def test_a_range_of_offsets_has_the_bits_of_its_offsets(first: int, length: int, diffs: list[int]) -> None:
    ck = CheckPoint(
        broker_name="b", group="g", diffs=diffs, invisible_ms=1, count=4, pop_time=5, queue_id=2, start_offset=100,
        topic="T",
    )  # fmt: skip
    offsets = range(first, first + length)
    assert ck.bits_of(offsets) == ck.bits_of(list(offsets))


def test_a_checkpoint_counts_its_rewrites() -> None:
    ck = CheckPoint.decode(CK.replace(b'"ro":0', b'"ro":0,"rp":"1"'))
    assert ck.re_put_times == "1"
    assert b'"rp":"1"' in ck.encode()


def test_unknown_messages_of_the_revive_topic_are_ignored_and_malformed_ones_refused() -> None:
    assert decode_revive("other", b"?") is None
    with pytest.raises(BadHeader, match="CheckPoint"):
        decode_revive("ck", b"?")


def test_the_revive_topic_contains_the_cluster_name() -> None:
    assert revive_topic("DefaultCluster") == "rmq_sys_REVIVE_LOG_DefaultCluster"
