"""Rows as messages: conversion and refusals."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode, dead_letter
from rocketmq_py.arrow.sink.rows import RowStamp, RowWriter, check_columns
from rocketmq_py.errors import ConfigError, MessageIllegal
from rocketmq_py.properties import decode_properties

ALL = ("topic", "body", "tags", "keys", "properties", "shardingKey", "queueId")


def writer(columns: tuple[str, ...], topic: str | None = None, batch_id: str | None = "7") -> RowWriter:
    keys = count()
    return RowWriter(columns, topic, RowStamp("query", batch_id, 3), lambda: f"key-{next(keys)}")


def test_a_row_becomes_a_message() -> None:
    message = writer(ALL).message(("orders", b"x", "A", "k1 k2", [("color", "blue")], "s", None))
    assert (message.topic, message.body, message.sharding_key, message.queue_id) == ("orders", b"x", "s", None)
    assert decode_properties(message.properties) == {
        "color": "blue",
        "TAGS": "A",
        "KEYS": "k1 k2",
        "__SHARDINGKEY": "s",
        "UNIQ_KEY": "key-0",
        "WAIT": "true",
        "SPARK_QUERY_ID": "query",
        "SPARK_BATCH_ID": "7",
        "SPARK_ROW_KEY": "3-000000000",
    }


def test_rows_are_numbered_and_a_batch_write_has_no_micro_batch() -> None:
    rows = writer(("body",), topic="orders", batch_id=None)
    stamps = [decode_properties(rows.message((body,)).properties) for body in ("a", b"b", bytearray(b"c"))]
    assert [stamp["SPARK_ROW_KEY"] for stamp in stamps] == ["3-000000000", "3-000000001", "3-000000002"]
    assert "SPARK_BATCH_ID" not in stamps[0]


@pytest.mark.parametrize("properties", [{"a": "1", "b": None, "c": ""}, [("a", "1"), ("b", None), ("c", "")], None, []])
def test_properties_may_be_a_map_or_pairs(properties: Any) -> None:
    message = writer(("body", "properties"), topic="t").message(("x", properties))
    assert {"a", "b", "c"} & decode_properties(message.properties).keys() <= {"a"}


def test_columns_take_precedence_over_properties() -> None:
    copied = {
        "TAGS": "old",
        "KEYS": "kept",
        "UNIQ_KEY": "old",
        "TRAN_MSG": "true",
        "CLUSTER": "c",
        "SPARK_ROW_KEY": "9",
    }
    message = writer(("body", "tags", "properties"), topic="t").message(("x", "new", copied))
    properties = decode_properties(message.properties)
    assert (properties["TAGS"], properties["KEYS"]) == ("new", "kept")
    assert (properties["UNIQ_KEY"], properties["SPARK_ROW_KEY"]) == ("key-0", "3-000000000")
    assert not {"TRAN_MSG", "CLUSTER"} & properties.keys()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("t", None, None, None, None, None, None), "its body is null or empty"),
        (("t", "", None, None, None, None, None), "its body is null or empty"),
        (("t", b"x" * (4 * 1024 * 1024 + 1), None, None, None, None, None), "its body is 4194305 bytes long"),
        ((None, "x", None, None, None, None, None), "the topic name is empty"),
        (("a b", "x", None, None, None, None, None), "illegal characters"),
        (("t", "x", "a\x01b", None, None, None, None), "TAGS holds the control character"),
        (("t", "x", None, None, {"a\x02": "b"}, None, None), "properties holds the control character"),
        (("t", "x", None, None, {"a": "b" * 32767}, None, None), "its properties take 32"),
        (("t", "x", None, None, {"TIMER_DELAY_MS": "5"}, None, None), "property TIMER_DELAY_MS is a delay"),
    ],
)
def test_an_illegal_row_is_named(row: tuple[Any, ...], told: str) -> None:
    rows = writer(ALL)
    rows.message(("t", "good", None, None, None, None, None))
    with pytest.raises(MessageIllegal, match=f"row 1 of partition 3: .*{told}"):
        rows.message(row)


@pytest.mark.parametrize(
    ("columns", "topic", "told"),
    [
        (["body", "key"], "t", "a sink has no column 'key'"),
        (["tags"], "t", "needs a column body"),
        (["body"], None, "needs option topic, or a column topic"),
        (["body", "topic"], "t", "contradict each other"),
        (["body", "queueId", "shardingKey"], "t", "contradict each other"),
    ],
)
def test_a_frame_without_required_columns_is_refused(columns: list[str], topic: str | None, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        check_columns(columns, topic)


WAITS = ("body", "delayLevel", "deliverAt")


@pytest.mark.parametrize(
    ("level", "at", "property_"),
    [
        (3, None, ("DELAY", "3")),
        (None, datetime(2026, 1, 1, tzinfo=UTC), ("TIMER_DELIVER_MS", "1767225600000")),
        (None, None, None),
        (0, None, None),
    ],
)
def test_a_row_can_be_delayed(level: int | None, at: datetime | None, property_: tuple[str, str] | None) -> None:
    message = writer(WAITS, topic="t").message(("x", level, at))
    found = decode_properties(message.properties).items() & {("DELAY", "3"), ("TIMER_DELIVER_MS", "1767225600000")}
    assert (message.waits, found) == (property_ is not None, {property_} if property_ else set())


@pytest.mark.parametrize(
    ("level", "at", "told"), [(-1, None, "delayLevel is -1"), (1, datetime.now(UTC), "contradict")]
)
def test_invalid_delays_are_refused(level: int, at: datetime | None, told: str) -> None:
    with pytest.raises(MessageIllegal, match=told):
        writer(WAITS, topic="t").message(("x", level, at))


def test_transactional_rows_cannot_be_delayed() -> None:
    with pytest.raises(ConfigError, match="column deliverAt is not for deliveryGuarantee=exactly-once"):
        check_columns(["body", "deliverAt"], "t", exactly_once=True)


BAD = [("t", "good", "k0"), ("t", None, "k1"), ("a b", "x" * 100_000, "k2"), ("t", "good, too", "k3")]


def test_bad_rows_become_dead_letters() -> None:
    bad = BadRecordPolicy(Mode.DLQ, "%DLQ%g")
    good, first, second, last = writer(("topic", "body", "keys")).messages(BAD, bad)
    assert (good.body, last.body, bad.count) == (b"good", b"good, too", 2)
    assert (first.topic, second.topic) == ("%DLQ%g", "%DLQ%g")
    one, two = decode_properties(first.properties), decode_properties(second.properties)
    assert (first.body, one["KEYS"], one["SPARK_ROW_KEY"], one["DLQ_ORIGIN_TOPIC"]) == (
        b"null",
        "k1",
        "3-000000001",
        "t",
    )
    assert one["SPARK_BAD_REASON"] == "row 1 of partition 3: its body is null or empty, which brokers refuse"
    assert (len(second.body), two["SPARK_BAD_CUT"], two["KEYS"]) == (64 * 1024, "100000", "k2")
    assert "DLQ_ORIGIN_TOPIC" not in two
    assert "illegal characters" in two["SPARK_BAD_REASON"]


def test_bad_rows_are_skipped_or_fail(caplog: pytest.LogCaptureFixture) -> None:
    messages = list(writer(("topic", "body", "keys")).messages(BAD, BadRecordPolicy(Mode.PERMISSIVE, "")))
    assert [message.body for message in messages] == [b"good", b"good, too"]
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["a bad record is left out"] * 2
    with pytest.raises(MessageIllegal, match="row 1 of partition 3"):
        list(writer(("topic", "body", "keys")).messages(BAD, BadRecordPolicy(Mode.FAILFAST, "")))


def test_a_dead_letter_is_bounded_and_names_its_origin() -> None:
    properties = {"a": "x" * 30_000, **{f"p{i}": "y" * 5_000 for i in range(9)}, "SPARK_ATTEMPT": "z"}
    body, raw = dead_letter(b"x", properties, "t", "w\x01" * 5_000)
    told = decode_properties(raw)
    assert (body, told["SPARK_ATTEMPT"], len(told["SPARK_BAD_REASON"])) == (b"x", "z", 1024)
    assert len(raw) <= 32767
    assert "a" not in told
