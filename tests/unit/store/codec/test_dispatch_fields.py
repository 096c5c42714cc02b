"""What queues and index need of encoded properties, by Java's rules."""

from __future__ import annotations

from rocketmq_py.store.codec import dispatch_fields
from rocketmq_py.store.codec.dispatch_fields import differing_spans, stored_tags_code, value_span


def test_values_as_java_reads_them() -> None:
    cases: list[tuple[bytes, dict[bytes, bytes]]] = [
        (b"", {}),
        (b"a\x01b", {b"a": b"b"}),
        (b"a\x01b\x02", {b"a": b"b"}),
        (b"a\x01b\x02c\x01d\x02", {b"a": b"b", b"c": b"d"}),
        (b"a\x01b\x02a\x01c", {b"a": b"c"}),
        (b"a\x01\x02b\x01c", {b"b": b"c"}),
        (b"a\x01b\x02a\x01", {b"a": b"b"}),
        (b"a\x01b\x01c", {b"a": b"b\x01c"}),
        (b"a\x02b", {}),
    ]
    assert [dispatch_fields.parse(raw) for raw, _ in cases] == [found for _, found in cases]


def test_the_span_of_a_value_is_that_of_the_value_that_counts() -> None:
    cases = [
        (b"", None), (b"K\x01v", (2, 3)), (b"K\x01v\x02", (2, 3)), (b"a\x01b\x02K\x01val\x02", (6, 9)),
        (b"K\x01v\x02K\x01w", (6, 7)), (b"K\x01", None), (b"K\x01\x02", None), (b"K\x01v\x02K\x01\x02", (2, 3)),
        (b"XK\x01v", None), (b"K\x01v\x02XK\x01w", (2, 3)), (b"a\x01K\x01v", None), (b"K", None),
    ]  # fmt: skip
    assert [(raw, value_span(raw, b"K")) for raw, _ in cases] == cases
    wrong = [
        raw
        for raw, span in cases
        if b"a\x01K" not in raw
        and dispatch_fields.parse(raw).get(b"K") != (None if span is None else raw[span[0] : span[1]])
    ]
    assert wrong == []


def test_the_values_that_differ() -> None:
    cases = [
        (b"a\x01b", b"a\x01b", []),
        (b"a\x01b", b"a\x01c", [(2, 3)]),
        (b"a\x01bb\x02c\x01d\x02", b"a\x01bx\x02c\x01y\x02", [(2, 4), (7, 8)]),
        (b"a\x01b\x02c\x01d", b"a\x01b\x02c\x01e", [(6, 7)]),
        (b"a\x01b", b"x\x01b", None),
        (b"a\x01b\x02c\x01dd", b"a\x01bb\x02c\x01d", None),
        (b"TAGS\x01a", b"TAGS\x01b", None),
        (b"a\x01\x02b", b"a\x01\x02c", None),
        (b"ab", b"ac", None),
    ]
    assert [differing_spans(one, other) for one, other, _ in cases] == [spans for _, _, spans in cases]


def test_tags_codes_are_hashes_of_java() -> None:
    assert dispatch_fields.tags_code(None) == dispatch_fields.tags_code(b"") == 0
    assert dispatch_fields.tags_code(b"TagA") == 2598919
    assert dispatch_fields.tags_code("\u6f22\u5b57".encode()) == 905333


def test_in_the_delay_topic_the_code_is_the_time_of_delivery() -> None:
    delays = [1000, 5000]
    levels = [(b"1", 1001), (b"2", 5001), (b"3", 5001), (b"99", 5001), (b"0", 97), (b"-1", 97), (b"x", 97), (b"", 97)]
    for level, code in levels:
        properties = {b"DELAY": level, b"TAGS": b"a"}
        assert stored_tags_code("SCHEDULE_TOPIC_XXXX", properties, 1, delays) == code, level
        assert stored_tags_code("T", properties, 1, delays) == 97
    assert stored_tags_code("SCHEDULE_TOPIC_XXXX", {}, 1, delays) == 0


def test_batches_stored_as_one_record() -> None:
    assert dispatch_fields.inner_batch(5, 17) == b"INNER_NUM\x015\x02INNER_BASE\x0117\x02"
    assert dispatch_fields.INNER_BATCH_FLAGS == 0xC0
    assert [dispatch_fields.is_inner_batch(flags) for flags in (0, 0x40, 0x80, 0xC0)] == [False, False, True, True]
    counts = [(0x80, b"5", 5), (0xC0, b"12", 12), (0, b"5", 1), (0x40, b"5", 1), (0x80, b"x", 1), (0x80, b"", 1)]
    assert [dispatch_fields.inner_count(flags, {b"INNER_NUM": text}) for flags, text, _ in counts] == [
        count for _, _, count in counts
    ]
    assert dispatch_fields.inner_count(0x80, {}) == 1


def test_half_messages_and_rollbacks_have_no_entry_whatever_the_other_flags_are() -> None:
    for others in (0, 0x1, 0x2, 0x3, 0x10, 0xC0, 0xF3):
        assert [dispatch_fields.has_entry(kind | others) for kind in (0, 0x4, 0x8, 0xC)] == [True, False, True, False]
