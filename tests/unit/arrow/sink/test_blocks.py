"""Record batches as bodies of sends: which rows make a block, where it goes, and how much is encoded at once."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.options.compression import BodyCompression
from rocketmq_py.arrow.sink import blocks
from rocketmq_py.arrow.sink.blocks import Block, BlockWriter
from rocketmq_py.arrow.sink.rows import RowMessage, RowStamp, RowWriter
from rocketmq_py.errors import MessageIllegal
from rocketmq_py.model import MessageQueue
from rocketmq_py.properties import decode_properties
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.compression import CompressionType

KINDS = {"queueId": pa.int32(), "delayLevel": pa.int32(), "properties": pa.map_(pa.string(), pa.string())}
Found = list[tuple[str, int | None, list[str]] | str]


def batch(**columns: list[Any]) -> Any:
    arrays = [pa.array(column, KINDS.get(name, pa.string())) for name, column in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def bound(topic: str, key: str | None, number: int | None) -> MessageQueue | None:
    if key is None and number is None:
        return None
    return MessageQueue(topic, "b", len(key or "") if number is None else number)


def encoded(given: Any, topic: str | None = "T", mode: Mode = Mode.FAILFAST, prefix: bytes = b"") -> list[Any]:
    names = given.schema.names
    reserved: list[int] = []

    def keys(many: int) -> tuple[str, Any]:
        reserved.append(many)
        return "B" * 28, np.arange(many)

    rows = RowWriter(names, topic, RowStamp("q", "7", 3), lambda: "A" * 32)
    writer = BlockWriter(names, topic, rows, keys, prefix)
    found = list(writer.messages(given, BadRecordPolicy(mode, "%DLQ%g"), bound))
    assert sum(reserved) == given.num_rows
    assert rows.count == given.num_rows
    return found


def messages(one: Block) -> list[tuple[str, dict[str, str]]]:
    return [
        (body.decode(), decode_properties(own))
        for begin, end in zip(one.ends[:-1], one.ends[1:], strict=True)
        for _, body, own in decode_batch(bytes(one.data[begin:end]))
    ]


def bodies(found: Iterable[Block | RowMessage]) -> Found:
    """Of blocks topic, queue id and bodies; of single messages the body."""
    return [
        (one.topic, None if one.bound is None else one.bound.queue_id, [body for body, _ in messages(one)])
        if isinstance(one, Block)
        else one.body.decode()
        for one in found
    ]


def in_any_order(found: list[Block]) -> set[str]:
    told = {f"{one.topic} {one.bound and one.bound.queue_id} {''.join(b for b, _ in messages(one))}" for one in found}
    assert len(told) == len(found)
    return told


def test_rows_of_one_queue_are_one_block() -> None:
    (one,) = encoded(batch(body=["a", "bb", "ccc"]))
    assert bodies([one]) == [("T", None, ["a", "bb", "ccc"])]
    assert one.rows == 3
    keyed = encoded(batch(body=["a", "b", "c", "d"], shardingKey=["x", None, "yy", "z"]))
    assert in_any_order(keyed) == {"T None b", "T 1 ad", "T 2 c"}


def test_rows_are_grouped_by_topic_and_queue() -> None:
    found = encoded(batch(body=[*"abcdef"], topic=[*"TUTUTU"], queueId=[0, 0, 1, 1, 0, None]), topic=None)
    assert in_any_order(found) == {"T 0 ae", "T 1 c", "U 0 b", "U 1 d", "U None f"}


def test_uncommon_rows_come_between_blocks_in_their_order() -> None:
    found = encoded(batch(body=[*"abcde"], delayLevel=[None, 3, 0, None, 2]))
    assert bodies(found) == [("T", None, ["a"]), "b", ("T", None, ["c", "d"]), "e"]
    assert [one.waits for one in found if isinstance(one, RowMessage)] == [True, True]
    letters = encoded(batch(body=["", "a", None, "b"]), mode=Mode.DLQ)
    assert bodies(letters) == ["null", ("T", None, ["a"]), "null", ("T", None, ["b"])]
    assert bodies(encoded(batch(body=["", "a", None]), mode=Mode.PERMISSIVE)) == [("T", None, ["a"])]
    with pytest.raises(MessageIllegal, match="row 1 of partition 3"):
        encoded(batch(body=["a", ""]))


def test_rows_that_a_broker_would_refuse_are_not_part_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MAX_MESSAGE_SIZE", 4)
    assert [isinstance(one, Block) for one in encoded(batch(body=["1234"]))] == [True]
    assert [isinstance(one, Block) for one in encoded(batch(body=["12345"]))] == [False]
    (one,) = encoded(batch(body=["a"], tags=["t"]))
    length = len(next(iter(decode_batch(bytes(one.data))))[2])
    for most, is_block in ((length, True), (length - 1, False)):
        monkeypatch.setattr(blocks, "MAX_PROPERTIES", most)
        assert [isinstance(one, Block) for one in encoded(batch(body=["a"], tags=["t"]))] == [is_block]
    monkeypatch.undo()
    faulty = batch(body=["a", "b", "c"], topic=["T", "a b", None])
    assert bodies(encoded(faulty, topic=None, mode=Mode.PERMISSIVE)) == [("T", None, ["a"])]


def test_properties_of_a_message() -> None:
    properties = [[("a", "1"), ("UNIQ_KEY", "no"), ("", "x")], None, [("b", ""), ("c", "3")]]
    columns = {"tags": ["t", None, ""], "keys": [None, "k", None], "shardingKey": [None, None, "s"]}
    found = encoded(batch(body=["x", "y", "z"], properties=properties, **columns), prefix=b"PGROUP\x01g\x02")
    told = {body: own for one in found for body, own in messages(one)}
    stamp = {"PGROUP": "g", "WAIT": "true", "SPARK_QUERY_ID": "q", "SPARK_BATCH_ID": "7"}

    def row(number: int, **own: str) -> dict[str, str]:
        return {**stamp, **own, "UNIQ_KEY": f"{'B' * 28}{number:04X}", "SPARK_ROW_KEY": f"3-{number:09d}"}

    assert told == {"x": row(0, a="1", TAGS="t"), "y": row(1, KEYS="k"), "z": row(2, c="3", __SHARDINGKEY="s")}


def test_names_that_contradict_columns_are_encoded_row_by_row() -> None:
    """The row writer knows what wins, and what is an error."""
    twice = batch(body=["a", "b"], tags=["t", "t"], properties=[[("TAGS", "u")], [("x", "1")]])
    assert bodies(encoded(twice)) == ["a", ("T", None, ["b"])]
    free = batch(body=["a"], tags=pa.nulls(1, pa.string()).to_pylist(), properties=[[("TAGS", "u")]])
    assert bodies(encoded(free)) == [("T", None, ["a"])], "there is no tag in the column"
    for strange in ([("x\x01", "1")], [("x", "1\x02")], [("DELAY", "1")]):
        found = encoded(batch(body=["a", "b"], properties=[strange, None]), mode=Mode.DLQ)
        assert bodies(found)[1:] == [("T", None, ["b"])]
        assert isinstance(found[0], RowMessage)
    controls = batch(body=["a", "b"], keys=["\x01", "k"])
    assert bodies(encoded(controls, mode=Mode.PERMISSIVE)) == [("T", None, ["b"])]


def test_parts_of_a_slice_are_those_of_its_rows() -> None:
    whole = batch(
        body=[*"abcdef"],
        keys=[*"uvwxyz"],
        properties=[[(key, key)] for key in "mnopqr"],
        shardingKey=[None, *"aabb", None],
    )
    (one,) = encoded(whole.slice(1, 4))
    assert bodies([one]) == [("T", 1, ["b", "c", "d", "e"])]
    assert [(own["KEYS"], own[key]) for (_, own), key in zip(messages(one), "nopq", strict=True)] == [
        ("v", "n"), ("w", "o"), ("x", "p"), ("y", "q"),
    ]  # fmt: skip


def test_large_batches_are_encoded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so many rows that their keys have the same prefix, and so many bytes that memory suffices."""
    given = batch(body=["x" * 10] * 10)
    monkeypatch.setattr(blocks, "_MOST_ROWS", 4)
    assert [one.rows for one in encoded(given)] == [4, 4, 2]
    monkeypatch.setattr(blocks, "_MOST_ROWS", 1 << 16)
    for most, sizes in ((given.nbytes, [10]), (given.nbytes - 1, [9, 1]), (given.nbytes // 2, [5, 5]), (1, [1] * 10)):
        monkeypatch.setattr(blocks, "_MOST_BYTES", most)
        assert [one.rows for one in encoded(given)] == sizes
    assert encoded(given.slice(0, 0)) == []


def test_a_block_is_cut_by_messages_and_bytes() -> None:
    block = Block("T", None, memoryview(b"x" * 60), np.array([10, 20, 30, 60, 70]))
    assert [
        block.fitting(begin, count, size)
        for begin, count, size in (
            (0, 9, 100),
            (0, 2, 100),
            (0, 9, 20),
            (0, 9, 19),
            (0, 9, 1),
            (2, 9, 29),
            (2, 9, 40),
            (3, 9, 0),
        )
    ] == [4, 2, 2, 1, 1, 3, 4, 4]
    assert block.rows == 4


def test_the_rows_and_bytes_that_are_encoded_at_once() -> None:
    """A prefix serves 65,536 keys; 32 MiB are in memory several times."""
    assert (blocks._MOST_ROWS, blocks._MOST_BYTES) == (65_536, 33_554_432)


@pytest.mark.parametrize(("over", "sys_flag"), [(5, 0), (4, 0x301), (0, 0x301)])
def test_bodies_are_compressed_if_their_mean_is_large_enough(over: int, sys_flag: int) -> None:
    writer: Any = SimpleNamespace(_rows=SimpleNamespace(compression=BodyCompression(CompressionType.ZLIB, over)))
    bodies, found = BlockWriter._compressed(writer, pa.array([b"six...", b"1", b"five."], pa.binary()))
    assert (found, bodies[0].as_py() == b"six...") == (sys_flag, not sys_flag)
