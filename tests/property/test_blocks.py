"""Rows of Arrow batches become the same messages as rows one by one: of every queue the same, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings, strategies as st

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.options.compression import BodyCompression, plain
from rocketmq_py.arrow.sink.blocks import Block, BlockWriter, Ints
from rocketmq_py.arrow.sink.rows import RowMessage, RowStamp, RowWriter
from rocketmq_py.model import MessageQueue
from rocketmq_py.properties import decode_properties
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.compression import CompressionType
from tests.examples import examples

TEXT = st.text(st.sampled_from("ab é\x01\x02"), max_size=3) | st.text("ab", min_size=1, max_size=3) | st.none()
KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "topic": (pa.string(), st.sampled_from(["T", "U", "U", "T", "a b", None])),
    "body": (pa.binary(), st.binary(min_size=1, max_size=5) | st.sampled_from([b"", None])),
    "tags": (pa.string(), TEXT),
    "keys": (pa.string(), TEXT),
    "properties": (
        pa.map_(pa.string(), pa.string()),
        st.dictionaries(
            st.sampled_from(["a", "b", "é", "", "UNIQ_KEY", "SPARK_ROW_KEY", "TAGS", "KEYS", "DELAY", "x\x01"]),
            TEXT,
            max_size=3,
        ).map(lambda found: list(found.items()))
        | st.none(),
    ),
    "flag": (pa.int32(), st.sampled_from([None, 0, 1, -1, 2**31 - 1])),
    "shardingKey": (pa.string(), TEXT),
    "queueId": (pa.int32(), st.integers(0, 3) | st.none()),
    "delayLevel": (pa.int32(), st.sampled_from([None, None, None, 0, 3, -1])),
    "deliverAt": (pa.timestamp("us", "UTC"), st.sampled_from([None, None, None, datetime(2026, 1, 1, tzinfo=UTC)])),
}
Where = tuple[str, MessageQueue | None, bool]
Sent = tuple[int, bytes, dict[str, str]]
COMPRESSIONS = [None, BodyCompression(CompressionType.ZLIB, 0), BodyCompression(CompressionType.LZ4, 3)]


@st.composite
def frames(draw: st.DrawFn) -> tuple[list[str], list[list[Any]]]:
    """Names of columns, and rows."""
    queue = draw(st.sampled_from(["shardingKey", "queueId"]))
    others = [name for name in KINDS if name not in ("body", "shardingKey", "queueId")]
    optional = draw(st.sets(st.sampled_from([*others, queue])))
    names = ["body", *sorted(optional)]
    rows = draw(st.lists(st.tuples(*(KINDS[name][1] for name in names)).map(list), max_size=12))
    return names, rows


def bound(topic: str, sharding_key: str | None, queue_id: int | None) -> MessageQueue | None:
    if queue_id is None and sharding_key is None:
        return None
    return MessageQueue(topic, "b", len(sharding_key or "") if queue_id is None else queue_id)


def several() -> Callable[[int], tuple[str, Ints]]:
    numbers = count(0xFFFE)
    return lambda many: ("B" * 28, np.array([next(numbers) & 0xFFFF for _ in range(many)], np.int64))


def placed(found: Iterable[Block | RowMessage]) -> dict[Where, list[Sent]]:
    """Flags, bodies and properties for each place they go to; unique keys are told by their length only."""
    places: dict[Where, list[Sent]] = {}
    for one in found:
        if isinstance(one, RowMessage):
            where = one.topic, bound(one.topic, one.sharding_key, one.queue_id), one.waits
            messages = [(one.flag, one.body, one.properties)]
        else:
            where = one.topic, one.bound, False
            messages = list(decode_batch(bytes(one.data[one.ends[0] : one.ends[-1]])))
            assert len(messages) == len(one.ends) - 1
        for flag, body, own in messages:
            properties = decode_properties(own)
            properties |= {"UNIQ_KEY": str(len(properties["UNIQ_KEY"]))}
            places.setdefault(where, []).append((flag, plain(body, one.sys_flag), properties))
    return places


@settings(max_examples=examples(150), deadline=None)
@given(frame=frames(), cut=st.integers(0, 5), compression=st.sampled_from(COMPRESSIONS))
def test_columns_give_the_messages_of_rows(
    frame: tuple[list[str], list[list[Any]]], cut: int, compression: BodyCompression | None
) -> None:
    names, rows = frame
    topic = None if "topic" in names else "T"
    stamp = RowStamp("query", "7", 3, {"SPARK_ATTEMPT": "x"})
    by_row, by_column = BadRecordPolicy(Mode.DLQ, "%DLQ%g"), BadRecordPolicy(Mode.DLQ, "%DLQ%g")

    def row_writer() -> RowWriter:
        return RowWriter(names, topic, stamp, lambda: "A" * 32, compression)

    expected = placed(row_writer().messages(rows, by_row))
    columns = [pa.array([row[i] for row in rows], KINDS[name][0]) for i, name in enumerate(names)]
    batch = pa.RecordBatch.from_arrays(columns, names)
    writer = BlockWriter(names, topic, row_writer(), several())
    found = [one for part in (batch.slice(0, cut), batch.slice(cut)) for one in writer.messages(part, by_column, bound)]
    assert placed(found) == expected
    assert by_column.count == by_row.count
    common = [row for row in rows if row[0] and not {"delayLevel", "deliverAt", "properties", "topic"} & set(names)]
    if common and not any("\x01" in str(v) or "\x02" in str(v) for row in rows for v in row[1:]):
        assert sum(isinstance(one, RowMessage) for one in found) == len(rows) - len(common)


def test_unique_keys_and_row_keys_are_consecutive() -> None:
    writer = BlockWriter(["body"], "T", RowWriter(["body"], "T", RowStamp("q", None, 3), lambda: ""), several())
    found = [
        decode_properties(own)
        for size in (2, 3)
        for block in writer.messages(
            pa.record_batch([pa.array([b"x"] * size)], ["body"]), BadRecordPolicy(Mode.FAILFAST, ""), bound
        )
        if isinstance(block, Block)
        for _, _, own in decode_batch(bytes(block.data[block.ends[0] : block.ends[-1]]))
    ]
    assert [one["UNIQ_KEY"] for one in found] == ["B" * 28 + tail for tail in ("FFFE", "FFFF", "0000", "0001", "0002")]
    assert [one["SPARK_ROW_KEY"] for one in found] == [f"3-{number:09d}" for number in range(5)]
