"""Decoding with NumPy equals the plain record codec, for regular and irregular records."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.arrow.decode import COLUMNS, BodyLimits, Decoder, layout
from rocketmq_py.arrow.decode.layout import Irregular, Layout, record_starts
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.errors import CorruptRecord, DecompressionLimit
from rocketmq_py.model import RecordHead
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.record import FIXED_SIZE, decode_records, encode_record, pack_host
from tests.examples import examples

SCHEMA = pa.schema([(name, column.kind) for name, column in COLUMNS.items()])
V4, V6 = pack_host("127.0.0.1", 10911), pack_host("::1", 10911)
COMPRESSED, BORN_V6, STORE_V6, INNER = 0x1, 0x10, 0x20, 0xC0


def record(
    offset: int, body: bytes = b"hello", properties: bytes = b"TAGS\x01A\x02", topic: str = "orders", sys_flag: int = 0
) -> bytes:
    head = RecordHead(
        *(0, 0, 0, 3, 7, offset, offset * 1000, sys_flag, 1_700_000_000_000 + offset),
        V6 if sys_flag & BORN_V6 else V4,
        1_700_000_000_005 + offset,
        V6 if sys_flag & STORE_V6 else V4,
        *(offset % 3, 0, 0),
    )
    return encode_record(head, topic, zlib.compress(body) if sys_flag & COMPRESSED else body, properties)


def by_numpy(schema: Any = SCHEMA) -> Decoder:
    return Decoder(schema, "broker-a", choice=DecoderChoice.NUMPY)


def decode(records: list[bytes], start: int = 0, stop: int = 1 << 40, names: list[str] | None = None) -> Any:
    schema = SCHEMA if names is None else pa.schema([SCHEMA.field(name) for name in names])
    (batch,) = by_numpy(schema).decode([FetchedChunk(b"".join(records), start, stop)])
    batch.validate(full=True)
    assert batch.schema.equals(schema)
    return batch


def expected(records: list[bytes]) -> list[dict[str, Any]]:
    """What the plain codec says, as Arrow's to_pylist gives it; independent of the decoder under test."""
    return [
        {
            "topic": m.topic,
            "brokerName": "broker-a",
            "queueId": m.queue_id,
            "queueOffset": m.queue_offset,
            "body": m.body,
            "tags": m.properties.get("TAGS"),
            "keys": m.properties.get("KEYS"),
            "bornTimestamp": m.born_timestamp * 1000,
            "storeTimestamp": m.store_timestamp * 1000,
            "reconsumeTimes": m.reconsume_times,
            "msgId": m.msg_id,
            "properties": list(m.properties.items()),
            "flag": m.flag,
            "transactionId": m.msg_id
            if m.properties.get("TRAN_MSG") == "true" and "UNIQ_KEY" in m.properties
            else None,
            "bornHost": m.born_host,
            "storeHost": m.store_host,
            "commitLogOffset": m.commit_log_offset,
            "storeSize": m.store_size,
            "_corrupt_record": None,
            "_corrupt_reason": None,
        }
        for m in decode_records(b"".join(records), "broker-a")
    ]


def rows(batch: Any) -> list[dict[str, Any]]:
    micros = ("bornTimestamp", "storeTimestamp")
    plain = [
        column.cast(pa.int64()) if name in micros else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(plain, names=batch.schema.names).to_pylist()


def is_fast(records: list[bytes]) -> bool:
    raw = b"".join(records)
    try:
        by_numpy()._fast(raw, record_starts(raw), range(1 << 40))
    except Irregular:
        return False
    return True


names = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "WAIT", "häh", "ABCD", "TRAN_MSG"])
values = st.just("true") | st.text(st.characters(min_codepoint=3, exclude_categories=["Cs"]), min_size=1, max_size=9)
entries = st.lists(st.tuples(names, values), max_size=6, unique_by=lambda entry: entry[0])
regular = entries.map(lambda pairs: "".join(f"{k}\x01{v}\x02" for k, v in pairs).encode())
odd = st.one_of(
    st.binary(max_size=20),
    regular.map(lambda raw: raw[:-1]),
    st.sampled_from(
        [b"TAGS\x01A\x02TAGS\x01B\x02", b"KEYS\x01\x02", b"\x01x\x02", b"a\x01b\x01c\x02", b"TAGS\x01\xff\x02"]
    ),
)


@st.composite
def runs(draw: st.DrawFn, properties: st.SearchStrategy[bytes], flags: list[int], topics: list[str]) -> list[bytes]:
    flag, topic = draw(st.sampled_from(flags)), draw(st.sampled_from(topics))
    uniform = draw(st.booleans())
    return [
        record(
            offset,
            body=draw(st.binary(max_size=30)),
            properties=draw(properties),
            topic=topic,
            sys_flag=flag if uniform else draw(st.sampled_from(flags)),
        )
        for offset in range(draw(st.integers(1, 12)))
    ]


@given(runs(regular, [0, COMPRESSED], ["orders", "t" * 200]))
def test_regular_records_equal_those_of_the_plain_codec(records: list[bytes]) -> None:
    assert is_fast(records)
    assert rows(decode(records)) == expected(records)


@given(runs(st.one_of(regular, odd), [0, COMPRESSED, BORN_V6, STORE_V6, BORN_V6 | STORE_V6], ["orders", "t" * 200]))
@settings(max_examples=examples(200))
def test_any_records_equal_those_of_the_plain_codec(records: list[bytes]) -> None:
    assert rows(decode(records)) == expected(records)


@given(runs(regular, [0], ["orders"]), st.sets(st.sampled_from(list(COLUMNS)), min_size=1))
def test_only_requested_columns_are_decoded(records: list[bytes], wanted: set[str]) -> None:
    some = decode(records, names=sorted(wanted))
    assert rows(some) == [{name: row[name] for name in sorted(wanted)} for row in expected(records)]


@pytest.mark.parametrize("hosts", [BORN_V6, STORE_V6, BORN_V6 | STORE_V6])
def test_ipv6_hosts_are_regular_if_all_records_have_them(hosts: int) -> None:
    records = [record(i, sys_flag=hosts) for i in range(5)]
    assert is_fast(records)
    assert rows(decode(records)) == expected(records)


@pytest.mark.parametrize(
    "properties",
    [
        b"TAGS\x01A",
        b"TAGS\x01A\x02TAGS\x01B\x02",
        b"a\x01b\x01c\x02",
        b"KEYS\x01\x02",
        b"\x01x\x02",
        b"TAGS\x01\xff\xfe\x02",
        b"nonsense",
        b"x\x02\x01y\x02",
    ],
)
def test_irregular_properties_are_decoded_by_the_plain_codec(properties: bytes) -> None:
    records = [record(0), record(1, properties=properties), record(2)]
    assert not is_fast(records)
    assert rows(decode(records)) == expected(records)


def test_properties_that_cross_records_are_detected() -> None:
    records = [record(0, properties=b"TAGS\x01A"), record(1, properties=b"B\x02")]
    assert not is_fast(records)
    assert rows(decode(records)) == expected(records)


def test_records_without_properties_are_decoded() -> None:
    records = [record(i, properties=b"") for i in range(3)]
    assert is_fast(records)
    assert rows(decode(records)) == expected(records)


def test_inner_batches_are_unwrapped() -> None:
    inner = encode_batch([(0, b"one", b"TAGS\x01A\x02"), (1, b"two", b"KEYS\x01k\x02")])
    records = [record(0), record(1, body=inner, properties=b"INNER_BASE\x011\x02INNER_NUM\x012\x02", sys_flag=INNER)]
    batch = decode(records)
    assert batch["queueOffset"].to_pylist() == [0, 1, 2]
    assert rows(batch) == expected(records)


def test_a_message_without_a_unique_key_has_the_brokers_id() -> None:
    records = [record(0, properties=b"UNIQ_KEY\x01ABC\x02"), record(1, properties=b"")]
    assert decode(records)["msgId"].to_pylist() == ["ABC", expected(records)[1]["msgId"]]
    assert len(expected(records)[1]["msgId"]) == 32


def test_messages_outside_the_request_and_duplicates_are_skipped() -> None:
    chunks = [
        FetchedChunk(b"".join(map(record, [3, 4, 5, 6])), 4, 6),
        FetchedChunk(b"".join(map(record, [6, 7, 8, 9])), 6, 9),
    ]
    (batch,) = by_numpy().decode(chunks)
    assert batch["queueOffset"].to_pylist() == [4, 5, 6, 7, 8]
    irregular = [chunk._replace(body=chunk.body.replace(b"A\x02", b"A\x01")) for chunk in chunks]
    (batch,) = by_numpy().decode(irregular)
    assert batch["queueOffset"].to_pylist() == [4, 5, 6, 7, 8]


def test_a_last_record_without_its_head_is_irregular() -> None:
    data, head = np.zeros(20, np.uint8), np.dtype("V16")
    assert len(layout._gather(data, np.array([0, 4]), head)) == 2
    with pytest.raises(Irregular, match="too short"):
        layout._gather(data, np.array([0, 5]), head)


def test_chunks_without_messages_give_no_batch() -> None:
    assert list(by_numpy().decode([FetchedChunk(b"", 0, 5)])) == []
    assert list(by_numpy().decode([FetchedChunk(record(9), 0, 5)])) == []
    assert list(by_numpy().decode([FetchedChunk(record(9, properties=b"a"), 0, 5)])) == []


def test_many_compressed_bodies_give_several_batches() -> None:
    bodies = [random.Random(i).randbytes(50_000) * 2 for i in range(24)]
    records = [record(i, body=body, sys_flag=COMPRESSED) for i, body in enumerate(bodies)]
    chunks = [FetchedChunk(b"".join(records[i : i + 2]), i, i + 2) for i in range(0, 24, 2)]
    batches = list(by_numpy().decode(chunks))
    assert [body for batch in batches for body in batch["body"].to_pylist()] == bodies
    assert len(batches) > 1


@pytest.mark.parametrize(
    "raw",
    [
        record(0)[:-1],
        record(0) + b"\0" * 3,
        record(0) + b"\0" * 200,
        b"\xff" * 100,
        record(0)[:4] + b"\0\0\0\0" + record(0)[8:],
        record(0)[:84] + b"\x7f\xff\xff\xff" + record(0)[88:],
        record(0)[:84] + b"\xff\xff\xff\xff" + record(0)[88:],
    ],
)
def test_bytes_that_are_no_records_are_an_error(raw: bytes) -> None:
    with pytest.raises(CorruptRecord):
        list(by_numpy().decode([FetchedChunk(raw, 0, 10)]))


@given(st.binary(max_size=400))
@settings(max_examples=examples(300))
def test_random_bytes_are_a_corrupt_record(raw: bytes) -> None:
    try:
        batches = list(by_numpy().decode([FetchedChunk(raw, 0, 10)]))
    except CorruptRecord:
        return
    assert batches == []


@given(st.integers(0, 120), st.integers(0, 255))
@settings(max_examples=examples(300))
def test_a_wrong_byte_changes_its_record_only(at: int, value: int) -> None:
    good = record(0, properties=b"TAGS\x01A\x02KEYS\x01k\x02")
    bad = bytearray(good)
    bad[at % len(good)] = value
    try:
        layout = Layout(bytes(bad) + good, record_starts(bytes(bad) + good))
    except (CorruptRecord, Irregular, IndexError):
        return
    assert (layout.properties_start + layout.properties_length == [len(good), 2 * len(good)]).all()


@pytest.mark.parametrize("more", [b"", b"empty\x01\x02"], ids=["regular", "irregular"])
def test_only_messages_with_a_matching_tag_are_decoded(more: bytes) -> None:
    """Brokers compare hashes, which different tags may share."""
    properties = [b"TAGS\x01%b\x02" % tag + more for tag in (b"A", b"B", b"C")] + [b"K\x01v\x02" + more]
    chunk = FetchedChunk(b"".join(record(i, properties=one) for i, one in enumerate(properties)), 0, 4)

    def offsets(*tags: str) -> list[int]:
        schema = pa.schema([("queueOffset", pa.int64()), ("tags", pa.string())])
        decoder = Decoder(schema, "broker-a", tags, choice=DecoderChoice.NUMPY)
        return [offset for batch in decoder.decode([chunk]) for offset in batch["queueOffset"].to_pylist()]

    assert offsets("A", "C") == [0, 2]
    assert offsets("nobody") == []
    assert offsets() == [0, 1, 2, 3]


@pytest.mark.parametrize("more", [b"", b"empty\x01\x02"], ids=["regular", "irregular"])
def test_bodies_beyond_the_budget_get_their_own_batches(more: bytes) -> None:
    """One answer of 256 KiB may hold bodies of gigabytes."""
    sizes = [30_000, 60_000, 250_000, 10, 20, 99_000, 40_000]
    records = [record(i, body=bytes(size), sys_flag=COMPRESSED, properties=more) for i, size in enumerate(sizes)]
    decoder = Decoder(SCHEMA, "broker-a", choice=DecoderChoice.NUMPY, limits=BodyLimits(max_batch=100_000))
    batches = list(decoder.decode([FetchedChunk(b"".join(records), 0, len(sizes))]))
    assert [len(body) for batch in batches for body in batch["body"].to_pylist()] == sizes
    assert [offset for batch in batches for offset in batch["queueOffset"].to_pylist()] == list(range(len(sizes)))
    for batch in batches:
        assert batch.num_rows == 1 or sum(map(len, batch["body"].to_pylist())) <= 100_000


@pytest.mark.parametrize("more", [b"", b"empty\x01\x02"], ids=["regular", "irregular"])
@pytest.mark.parametrize("choice", [DecoderChoice.NUMPY, DecoderChoice.AUTO])
def test_a_body_over_the_limit_cannot_be_decoded(more: bytes, choice: DecoderChoice) -> None:
    def decoded(size: int) -> int:
        data = record(0, body=bytes(size), sys_flag=COMPRESSED, properties=more)
        decoder = Decoder(SCHEMA, "broker-a", choice=choice, limits=BodyLimits(max_body=1000))
        (batch,) = decoder.decode([FetchedChunk(data, 0, 1)])
        return len(batch["body"][0].as_py())

    assert decoded(1000) == 1000
    with pytest.raises(DecompressionLimit, match="more than 1000 bytes"):
        decoded(1001)


# -- ranges of several queues


def numbered(offsets: range) -> list[bytes]:
    return [record(offset) for offset in offsets]


def chunk(records: list[bytes], offsets: range) -> list[FetchedChunk]:
    return [FetchedChunk(b"".join(records), offsets.start, offsets.stop)]


def test_whole_ranges_of_queues_are_decoded_together_as_one_by_one() -> None:
    ranges = [chunk(numbered(offsets), offsets) for offsets in (range(5), range(70, 90), range(3, 4))]
    together = by_numpy().decode_together(ranges)
    one_by_one = [row for chunks in ranges for batch in by_numpy().decode(chunks) for row in rows(batch)]
    assert together is not None
    assert rows(together.batch) == one_by_one
    assert list(together.counts) == [5, 20, 1]


@pytest.mark.parametrize(
    "second",
    [
        chunk([], range(2)),
        chunk(numbered(range(1)), range(2)),
        chunk(numbered(range(3)), range(2)),
        chunk(numbered(range(1, 3)), range(2)),
        chunk([b"no record"], range(1)),
        chunk([record(0)[:FIXED_SIZE] + b"~" + record(0)[FIXED_SIZE + 1 :]], range(1)),
    ],
    ids=["nothing", "one is missing", "one too many", "others", "corrupt", "another body"],
)
def test_ranges_that_are_not_as_they_should_be_are_left_to_be_decoded_one_by_one(second: list[FetchedChunk]) -> None:
    decoder = Decoder(SCHEMA, "broker-a", choice=DecoderChoice.NUMPY, check_crc=True)
    assert decoder.decode_together([chunk(numbered(range(4)), range(4)), second]) is None
    assert Decoder(SCHEMA, "broker-a", ["A"], choice=DecoderChoice.NUMPY).decode_together([second]) is None


@pytest.mark.parametrize("topic", ["orders", "other"])
def test_a_timestamp_out_of_range_wraps_around_in_every_decoder(topic: str) -> None:
    damaged = bytearray(record(0))
    damaged[40:48] = (2**63 - 1).to_bytes(8, "big")  # the born timestamp
    chunks = [FetchedChunk(bytes(damaged) + record(1, topic=topic), 0, 2)]  # several topics: by the plain decoder
    schema = pa.schema([SCHEMA.field("topic"), SCHEMA.field("bornTimestamp")])
    (batch,) = Decoder(schema, "broker-a", choice=DecoderChoice.NUMPY).decode(chunks)
    assert batch["bornTimestamp"].cast(pa.int64())[0].as_py() == -1000
