"""What the decoder leaves out: other tags, duplicates of overlapping pulls, offsets that were not asked for."""

from __future__ import annotations

import zlib
from typing import Any

import pyarrow as pa
import pytest

from rocketmq_py.arrow.decode import COLUMNS, Decoder
from rocketmq_py.arrow.decode.layout import record_starts
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.model import RecordHead
from rocketmq_py.wire.record import COMPRESSED, encode_record, pack_host

HOST = pack_host("127.0.0.1", 10911)
SCHEMA: Any = pa.schema([("queueOffset", COLUMNS["queueOffset"].kind)])


def record(offset: int, tag: str | None = "A", *, compressed: bool = False) -> bytes:
    properties = b"" if tag is None else f"TAGS\x01{tag}\x02".encode()
    flag, body = (COMPRESSED, zlib.compress(b"x")) if compressed else (0, b"x")
    head = RecordHead(0, 0, 0, 3, 7, offset, 9, flag, 5, HOST, 6, HOST, 0, 0, 0)
    return encode_record(head, "T", body, properties)


def decoder(*tags: str) -> Decoder:
    return Decoder(SCHEMA, "b", tags, choice=DecoderChoice.NUMPY)


def offsets(batch: Any) -> list[int]:
    return batch.column("queueOffset").to_pylist()


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize(
    ("tags", "expected"), [((), [0, 1, 2, 3]), (("A",), [0, 3]), (("B", "A"), [0, 1, 3]), (("C",), []), (("B",), [1])]
)
def test_only_messages_with_a_tag_are_kept(tags: tuple[str, ...], expected: list[int], is_plain: bool) -> None:
    made = decoder(*tags)
    raw = b"".join([record(0), record(1, "B"), record(2, None), record(3)])
    if is_plain:
        starts = record_starts(raw)
        batch = made._plain(raw, starts, range(4))
        assert ([] if batch is None else offsets(batch)) == expected
    else:
        assert [offset for batch in made.decode([FetchedChunk(raw, 0, 4)]) for offset in offsets(batch)] == expected


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize(
    ("found", "start", "stop", "expected"),
    [
        ([0, 1, 2], 0, 3, [0, 1, 2]),
        ([0, 1, 2], 1, 3, [1, 2]),
        ([0, 1, 2], 0, 2, [0, 1]),
        ([0, 1, 1, 2], 0, 3, [0, 1, 2]),
        ([0, 1, 2, 1, 2, 3], 0, 4, [0, 1, 2, 3]),
        ([5, 6], 0, 3, []),
    ],
)
def test_each_offset_that_was_asked_for_is_decoded_once(
    found: list[int], start: int, stop: int, expected: list[int], is_plain: bool
) -> None:
    raw = b"".join(record(offset) for offset in found)
    if is_plain:
        batch = decoder()._plain(raw, record_starts(raw), range(start, stop))
        assert ([] if batch is None else offsets(batch)) == expected
    else:
        batches = decoder().decode([FetchedChunk(raw, start, stop)])
        assert [offset for batch in batches for offset in offsets(batch)] == expected


def test_small_ranges_are_decoded_together_if_all_is_there() -> None:
    def chunk(*found: int, start: int, stop: int) -> list[FetchedChunk]:
        return [FetchedChunk(b"".join(record(offset) for offset in found), start, stop)]

    whole = [chunk(0, 1, start=0, stop=2), chunk(7, start=7, stop=8)]
    found = decoder().decode_together(whole)
    assert found is not None
    assert (offsets(found.batch), list(found.counts)) == ([0, 1, 7], [2, 1])
    assert decoder("A").decode_together(whole) is None
    assert decoder().decode_together([chunk(0, start=0, stop=2), chunk(7, start=7, stop=8)]) is None
    assert decoder().decode_together([chunk(0, 1, start=1, stop=2)]) is None
    assert decoder().decode_together([[FetchedChunk(b"", 0, 1)]]) is None
    assert decoder().decode_together([[FetchedChunk(record(0, compressed=True), 0, 1)]]) is None
