"""A written trace is read back unchanged."""

from __future__ import annotations

import string

from hypothesis import given, strategies as st

from rocketmq_py.wire.trace import MESSAGE_TYPES, TraceEntry, TraceKind, decode_trace, encode_trace

TEXT = st.text(string.ascii_letters + string.digits + " _-%|:é世", min_size=1).filter(lambda text: text != "null")
MAYBE = st.none() | TEXT
NUMBER = st.integers(0, 2**62)

PUB = st.builds(
    TraceEntry, kind=st.just(TraceKind.PUB), timestamp=NUMBER, region=MAYBE, group=TEXT, topic=TEXT, msg_id=TEXT,
    tags=MAYBE, keys=MAYBE, store_host=MAYBE, body_length=NUMBER, cost_ms=NUMBER,
    message_type=st.sampled_from(MESSAGE_TYPES), offset_msg_id=MAYBE, success=st.booleans(),
)  # fmt: skip
BEFORE = st.builds(
    TraceEntry, kind=st.just(TraceKind.SUB_BEFORE), timestamp=NUMBER, region=MAYBE, group=TEXT, request_id=TEXT,
    msg_id=TEXT, retry_times=NUMBER, keys=MAYBE,
)  # fmt: skip
AFTER = st.builds(
    TraceEntry, kind=st.just(TraceKind.SUB_AFTER), request_id=TEXT, msg_id=TEXT, cost_ms=NUMBER,
    success=st.booleans(), keys=MAYBE, context_code=st.integers(0, 4), timestamp=NUMBER, group=TEXT,
)  # fmt: skip
END = st.builds(
    TraceEntry, kind=st.just(TraceKind.END_TRANSACTION), timestamp=NUMBER, region=MAYBE, group=TEXT, topic=TEXT,
    msg_id=TEXT, tags=MAYBE, keys=MAYBE, store_host=MAYBE, message_type=st.sampled_from(MESSAGE_TYPES),
    transaction_id=MAYBE, transaction_state=TEXT, from_check=st.booleans(),
)  # fmt: skip


@given(st.lists(PUB | BEFORE | AFTER | END))
def test_a_written_trace_is_read_back(entries: list[TraceEntry]) -> None:
    assert decode_trace(encode_trace(entries)) == entries


@given(st.lists(PUB, min_size=1, max_size=3), st.text())
def test_no_text_breaks_the_trace_layout(entries: list[TraceEntry], text: str) -> None:
    """Whatever users put into their keys, every entry is found again."""
    for entry in entries:
        entry.keys = text
    found = decode_trace(encode_trace(entries))
    assert [entry.msg_id for entry in found] == [entry.msg_id for entry in entries]
