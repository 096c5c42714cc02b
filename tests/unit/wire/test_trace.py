"""Traces as Java's clients of several versions write them."""

import pytest

from rocketmq_py.errors import CorruptRecord
from rocketmq_py.wire.trace import TraceEntry, TraceKind, decode_trace, encode_trace


def line(*fields):
    return "\x01".join(map(str, fields)) + "\x02"


PUB = ("Pub", 1700000000000, "DefaultRegion", "shop", "orders", "ID1", "new", "k1 k2", "10.0.0.1:10911", 128, 7, 0)


def test_the_trace_of_a_sent_message_is_decoded():
    (entry,) = decode_trace(line(*PUB, "OFFSETID", "true").encode())
    assert entry == TraceEntry(
        kind=TraceKind.PUB, timestamp=1700000000000, region="DefaultRegion", group="shop", topic="orders",
        msg_id="ID1", tags="new", keys="k1 k2", store_host="10.0.0.1:10911", body_length=128, cost_ms=7,
        message_type="Normal_Msg", offset_msg_id="OFFSETID", success=True,
    )  # fmt: skip


def test_traces_of_old_and_new_clients_are_decoded():
    (old,) = decode_trace(line(*PUB, "false").encode())
    assert (old.success, old.offset_msg_id) == (False, None)
    (new,) = decode_trace(line(*PUB, "OFFSETID", "true", "10.0.0.9").encode())
    assert (new.success, new.client_host) == (True, "10.0.0.9")


def test_traces_before_and_after_consumption_are_decoded():
    before = line("SubBefore", 5, "null", "billing", "R1", "ID1", 2, "k1")
    after = line("SubAfter", "R1", "ID1", 12, "true", "k1", 0, 17, "billing")
    first, second = decode_trace((before + after).encode())
    assert (first.kind, first.region, first.retry_times, first.request_id) == (TraceKind.SUB_BEFORE, None, 2, "R1")
    assert (second.kind, second.cost_ms, second.success, second.context_code) == (TraceKind.SUB_AFTER, 12, True, 0)
    assert (second.timestamp, second.group) == (17, "billing")


def test_consumption_traces_of_cloud_and_old_clients_are_decoded():
    (cloud,) = decode_trace(line("SubAfter", "R1", "ID1", 12, "false", "", 4, "").encode())
    assert (cloud.success, cloud.keys, cloud.context_code, cloud.timestamp) == (False, None, 4, None)
    (old,) = decode_trace(line("SubAfter", "R1", "ID1", 12, "true", "k").encode())
    assert (old.keys, old.context_code) == ("k", None)


def test_traces_of_transaction_ends_and_recalls_are_decoded():
    text = line(
        "EndTransaction", 5, "r", "shop", "orders", "ID1", "t", "k", "h:1", 2, "TX", "COMMIT_MESSAGE", "false"
    ) + line("Recall", 6, "r", "shop", "orders", "ID1", "true")
    end, recall = decode_trace(text.encode())
    assert (end.transaction_state, end.message_type, end.from_check) == ("COMMIT_MESSAGE", "Trans_msg_Commit", False)
    assert (recall.kind, recall.success) == (TraceKind.RECALL, True)


def test_unknown_traces_are_skipped_and_malformed_ones_refused():
    assert decode_trace(b"") == []
    assert decode_trace(line("Future", 1, 2).encode()) == []
    for fields in ((*PUB[:11], 99, "true"), ("SubBefore", "soon", "r", "g", "R", "ID", 0, "k"), ("SubBefore", 1, "r")):
        with pytest.raises(CorruptRecord, match="of a trace has unexpected fields"):
            decode_trace(line(*fields).encode())


def test_traces_are_encoded_like_java():
    sent = TraceEntry(
        kind=TraceKind.PUB, timestamp=5, region="r", group="shop", topic="orders", msg_id="ID1", keys="k1 k2",
        store_host="h:1", body_length=3, cost_ms=2, message_type="Trans_Msg_Half", offset_msg_id="OFFSETID",
        success=True,
    )  # fmt: skip
    before = TraceEntry(
        kind=TraceKind.SUB_BEFORE, timestamp=6, region="r", group="billing", request_id="R1", msg_id="ID1",
        retry_times=0, keys="k1 k2",
    )  # fmt: skip
    after = TraceEntry(
        kind=TraceKind.SUB_AFTER, request_id="R1", msg_id="ID1", cost_ms=7, success=False, keys="k1 k2",
        context_code=4, timestamp=8, group="billing",
    )  # fmt: skip
    end = TraceEntry(
        kind=TraceKind.END_TRANSACTION, timestamp=9, region="r", group="shop", topic="orders", msg_id="ID1",
        tags="A", keys="k1 k2", store_host="h:1", message_type="Trans_msg_Commit", transaction_id="TX",
        transaction_state="COMMIT_MESSAGE", from_check=False,
    )  # fmt: skip
    text = encode_trace([sent, before, after, end])
    assert text.decode() == (
        line("Pub", 5, "r", "shop", "orders", "ID1", "null", "k1 k2", "h:1", 3, 2, 1, "OFFSETID", "true")
        + line("SubBefore", 6, "r", "billing", "R1", "ID1", 0, "k1 k2")
        + line("SubAfter", "R1", "ID1", 7, "false", "k1 k2", 4, 8, "billing")
        + line("EndTransaction", 9, "r", "shop", "orders", "ID1", "A", "k1 k2", "h:1", 2, "TX", "COMMIT_MESSAGE",
               "false")
    )  # fmt: skip
    assert decode_trace(text) == [sent, before, after, end]


def test_separators_in_values_are_replaced():
    entry = TraceEntry(kind=TraceKind.RECALL, msg_id="I\x01D\x021", topic="t", success=True)
    [read] = decode_trace(encode_trace([entry]))
    assert (read.msg_id, read.topic, read.success) == ("I D 1", "t", True)
