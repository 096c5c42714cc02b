"""The compiled decoder equals the plain record codec or refuses."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.accelerator import installed
from rocketmq_py.arrow.column_names import NUMPY_COLUMNS
from rocketmq_py.arrow.decode import Decoder, compiled
from rocketmq_py.arrow.decode.compiled import CompiledDecoder
from rocketmq_py.arrow.decode.layout import Irregular
from rocketmq_py.arrow.fetched import DecoderChoice
from rocketmq_py.core.consumer.pull_window import FetchedChunk
from rocketmq_py.errors import ConfigError, CorruptRecord
from rocketmq_py.wire.batch import encode_batch
from tests.accelerated import needs_accelerator
from tests.examples import examples
from tests.unit.arrow.decode.test_columns import (
    BORN_V6,
    COMPRESSED,
    INNER,
    SCHEMA as WHOLE_SCHEMA,
    STORE_V6,
    expected as whole_rows,
    odd,
    record,
    regular,
    rows,
    runs,
)

pytestmark = needs_accelerator

V6_FLAGS = [0, BORN_V6, STORE_V6, BORN_V6 | STORE_V6]
TOPICS = ["orders", "t" * 127, "t" * 200]


SCHEMA = pa.schema([field for field in WHOLE_SCHEMA if field.name not in NUMPY_COLUMNS])


def expected(records: list[bytes]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in SCHEMA.names} for row in whole_rows(records)]


def schema_of(names: list[str]) -> Any:
    return pa.schema([SCHEMA.field(name) for name in names])


def decoder(names: list[str] | None = None, tags: tuple[str, ...] = (), *, check_crc: bool = False) -> CompiledDecoder:
    native = installed()
    assert native is not None
    schema = SCHEMA if names is None else schema_of(names)
    return CompiledDecoder(native, schema, "broker-a", tags, check_crc=check_crc)


def decode(records: list[bytes], names: list[str] | None = None) -> Any:
    batch = decoder(names).decode([[FetchedChunk(b"".join(records), 0, 1 << 40)]]).batch
    batch.validate(full=True)
    assert batch.schema.equals(SCHEMA if names is None else schema_of(names))
    return batch


@given(runs(regular, V6_FLAGS, TOPICS))
def test_compiled_and_plain_decoder_agree(records: list[bytes]) -> None:
    assert rows(decode(records)) == expected(records)


@given(runs(regular, [0], ["orders"]), st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
def test_any_columns_in_any_order(records: list[bytes], wanted: list[str]) -> None:
    some = rows(decode(records, wanted))
    assert some == [{name: row[name] for name in wanted} for row in expected(records)]


def test_rows_whose_only_column_is_not_stored_are_rows() -> None:
    records = [record(offset) for offset in range(3)]
    assert rows(decode(records, ["brokerName"])) == [{"brokerName": "broker-a"}] * 3


@given(runs(st.one_of(regular, odd), [*V6_FLAGS, COMPRESSED], TOPICS))
@settings(max_examples=examples(300))
def test_accepted_records_equal_those_of_the_plain_codec(records: list[bytes]) -> None:
    try:
        found = rows(decode(records))
    except Irregular:
        return
    assert found == expected(records)


@given(runs(st.one_of(regular, odd), [*V6_FLAGS, COMPRESSED], TOPICS))
@settings(max_examples=examples(200))
def test_numpy_decodes_refused_records(records: list[bytes]) -> None:
    (batch,) = Decoder(SCHEMA, "broker-a", choice=DecoderChoice.COMPILED).decode(
        [FetchedChunk(b"".join(records), 0, 1 << 40)]
    )
    assert rows(batch) == expected(records)


@given(st.binary(max_size=400))
@settings(max_examples=examples(500))
def test_garbage_is_refused(raw: bytes) -> None:
    if raw:
        with pytest.raises(Irregular):
            decoder().decode([[FetchedChunk(raw, 0, 10)]])


@given(st.integers(0, 400), st.integers(0, 255), st.sampled_from([0, BORN_V6, STORE_V6, BORN_V6 | STORE_V6]))
@settings(max_examples=examples(500))
def test_a_wrong_byte_is_refused_or_changes_its_record_only(at: int, value: int, flags: int) -> None:
    good = record(0, properties=b"TAGS\x01A\x02KEYS\x01k\x02", sys_flag=flags)
    bad = bytearray(good)
    bad[at % len(good)] = value
    try:
        batch = decoder().decode([[FetchedChunk(bytes(bad) + record(1, sys_flag=flags), -(1 << 60), 1 << 60)]]).batch
    except (Irregular, UnicodeDecodeError):
        return
    assert batch is None or rows(batch.slice(batch.num_rows - 1)) in (
        expected([record(1, sys_flag=flags)]), expected([bytes(bad)])
    )  # fmt: skip


def outcome(choice: DecoderChoice, chunks: list[FetchedChunk]) -> Any:
    try:
        return [rows(b) for b in Decoder(SCHEMA, "broker-a", choice=choice, check_crc=True).decode(chunks)]
    except CorruptRecord as e:
        return str(e)


@given(runs(regular, V6_FLAGS, TOPICS), st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.booleans())
@settings(max_examples=examples(300))
def test_checksums_are_compared_as_with_numpy(records: list[bytes], where: float, value: int, change: bool) -> None:
    raw = bytearray(b"".join(records))
    if change:
        raw[int(where * len(raw))] = value
    chunks = [FetchedChunk(bytes(raw), 0, 1 << 40)]
    assert outcome(DecoderChoice.COMPILED, chunks) == outcome(DecoderChoice.NUMPY, chunks)


def test_a_body_with_another_checksum_is_refused() -> None:
    good = record(0, b"body")
    bad = record(1, b"body").replace(b"body", b"bode")
    chunks = [FetchedChunk(good + bad, 0, 1)]
    native = installed()
    assert native is not None
    assert rows(CompiledDecoder(native, SCHEMA, "broker-a", ()).decode([chunks]).batch) == expected([good])
    with pytest.raises(Irregular):  # that of a record outside the request as well
        CompiledDecoder(native, SCHEMA, "broker-a", (), check_crc=True).decode([chunks])
    with pytest.raises(CorruptRecord, match="checksum"):
        list(Decoder(SCHEMA, "broker-a", check_crc=True).decode(chunks))
    assert rows(CompiledDecoder(native, SCHEMA, "broker-a", (), check_crc=True).decode(
        [[FetchedChunk(good, 0, 1)]]).batch) == expected([good])  # fmt: skip


@pytest.mark.parametrize("names", [["body"], ["queueOffset", "tags"]])
@pytest.mark.parametrize("damaged", range(4))
def test_checksums_are_compared_whether_or_not_bodies_are_wanted(names: list[str], damaged: int) -> None:
    records = [record(offset, b"body-%d" % offset) for offset in range(4)]
    records[damaged] = records[damaged].replace(b"body", b"bode")
    chunks = [FetchedChunk(b"".join(records), 1, 3)]  # the first and the last record are outside of the request
    assert decoder(names).decode([chunks]).counts == [2]
    with pytest.raises(Irregular):
        decoder(names, check_crc=True).decode([chunks])


@pytest.mark.parametrize("names", [["body"], ["queueOffset"]])
@pytest.mark.parametrize("damaged", [0, 1])
def test_an_empty_body_with_a_checksum_is_refused(names: list[str], damaged: int) -> None:
    records = [bytearray(record(offset, b"")) for offset in range(2)]
    records[damaged][8 + 3] = 1  # the last byte of its checksum
    with pytest.raises(Irregular):
        decoder(names, check_crc=True).decode([[FetchedChunk(b"".join(records), 0, 2)]])


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(0, 30), st.integers(0, 30))
def test_offsets_outside_the_request_are_refused(offsets: list[int], start: int, stop: int) -> None:
    chunk = FetchedChunk(b"".join(map(record, offsets)), start, stop)
    ours = decoder(["queueOffset", "body"]).decode([[chunk]]).batch
    theirs = list(Decoder(schema_of(["queueOffset", "body"]), "broker-a", choice=DecoderChoice.NUMPY).decode([chunk]))
    assert ([] if ours is None else [ours]) == theirs


def test_several_chunks_give_one_batch() -> None:
    chunks = [
        FetchedChunk(b"".join(map(record, [3, 4, 5, 6])), 4, 6),
        FetchedChunk(b"", 6, 6),
        FetchedChunk(record(6) + record(7), 6, 8),
    ]
    assert decoder().decode([chunks]).batch["queueOffset"].to_pylist() == [4, 5, 6, 7]
    assert decoder().decode([[FetchedChunk(record(9), 0, 5)]]) == (None, [0])
    assert decoder().decode([[FetchedChunk(b"", 0, 5)]]) == (None, [0])


@pytest.mark.parametrize(
    "records",
    [
        [record(0, sys_flag=COMPRESSED)],
        [record(0, encode_batch([(0, b"one", b"")]), b"INNER_BASE\x010\x02", sys_flag=INNER)],
        [record(0), record(1, topic="other")],
        [record(0, properties=b"a\x01b\x02a\x01c\x02")],
        [record(0, properties=b"".join(b"p%d\x01v\x02" % i for i in range(65)))],
        [record(0, properties=b"TAGS\x01\xed\xa0\x80\x02")],
        [record(0, properties=b"TAGS\x01\xc0\x80\x02")],
        [record(0, properties=b"TAGS\x01\xf4\x90\x80\x80\x02")],
        [record(0, properties=b"TAGS\x01\xe2\x82\x02")],
    ],
)
def test_irregular_records_are_decoded_by_numpy(records: list[bytes]) -> None:
    with pytest.raises(Irregular):
        decode(records)
    (batch,) = Decoder(SCHEMA, "broker-a").decode([FetchedChunk(b"".join(records), 0, 1 << 40)])
    assert rows(batch) == expected(records)


def test_the_last_of_two_equal_property_names_counts() -> None:
    records = [record(0, properties=b"TAGS\x01A\x02TAGS\x01B\x02"), record(1, properties=b"")]
    assert decode(records, ["tags"])["tags"].to_pylist() == ["B", None]


def test_tags_select_rows_whether_they_are_a_column_or_not() -> None:
    records = [record(i, properties=b"TAGS\x01%s\x02" % tag) for i, tag in enumerate([b"A", b"B", b"AB"])]
    chunks = [FetchedChunk(b"".join([*records, record(3, properties=b"")]), 0, 9)]
    for names in (["queueOffset"], ["tags", "queueOffset"]):
        assert decoder(names, ("A", "C")).decode([chunks]).batch["queueOffset"].to_pylist() == [0]
    assert decoder(["queueOffset"], ("C",)).decode([chunks]).batch is None


def test_a_body_may_be_a_string() -> None:
    schema = pa.schema([pa.field("body", pa.string())])
    native = installed()
    assert native is not None
    batch = (
        CompiledDecoder(native, schema, "b", ()).decode([[FetchedChunk(record(0, body="häh".encode()), 0, 9)]]).batch
    )
    assert batch["body"].to_pylist() == ["häh"]


def test_the_decoder_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    used = [
        bool(Decoder(SCHEMA, "b", choice=choice)._compiled)
        for choice in (DecoderChoice.AUTO, DecoderChoice.NUMPY, DecoderChoice.COMPILED)
    ]
    assert used == [True, False, True]
    assert Decoder(SCHEMA, "b", check_crc=True)._compiled is not None
    assert Decoder(WHOLE_SCHEMA, "b")._compiled is None
    with pytest.raises(ConfigError, match="cannot make the columns bornHost, commitLogOffset, flag, storeHost,"):
        Decoder(WHOLE_SCHEMA, "b", choice=DecoderChoice.COMPILED)
    monkeypatch.setattr(compiled, "installed", lambda: None)
    with pytest.raises(ConfigError, match="needs rocketmq-py-native"):
        Decoder(SCHEMA, "b", choice=DecoderChoice.COMPILED)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (("nonsense",), ValueError),
        (("body", "body"), ValueError),
        ((1,), TypeError),
        (tuple("abcdefghijklm"), ValueError),
    ],
)
def test_wrong_columns_are_refused(columns: Any, error: type[Exception]) -> None:
    native = installed()
    assert native is not None
    with pytest.raises(error):
        native.decode([([record(0)], 0, 9)], columns, False)
    with pytest.raises(TypeError):
        native.decode([(["text"], 0, 9)], ("body",), False)


def test_errors_come_from_the_plain_codec() -> None:
    with pytest.raises(CorruptRecord, match="claims"):
        list(Decoder(SCHEMA, "broker-a").decode([FetchedChunk(record(0) + b"\0" * 200, 0, 10)]))


# -- ranges of several queues


def test_ranges_of_several_queues_are_one_batch_with_the_rows_of_each_counted() -> None:
    def chunk(*offsets: int, start: int, stop: int) -> list[FetchedChunk]:
        return [FetchedChunk(b"".join(record(offset) for offset in offsets), start, stop)]

    ranges = [
        chunk(4, 5, start=4, stop=6),
        chunk(start=1, stop=3),
        chunk(7, 9, start=7, stop=9),
        chunk(0, start=0, stop=1),
    ]
    ranges[0] = [FetchedChunk(record(4), 4, 5), FetchedChunk(record(4) + record(5), 5, 6)]
    made = Decoder(SCHEMA, "broker-a", choice=DecoderChoice.COMPILED)
    found = made.decode_together(ranges)
    assert found is not None
    assert list(found.counts) == [2, 0, 1, 1]
    one_by_one = [row for chunks in ranges for batch in made.decode(chunks) for row in rows(batch)]
    assert rows(found.batch) == one_by_one
    assert [row["queueOffset"] for row in one_by_one] == [4, 5, 7, 0]
    assert made.decode_together([chunk(start=0, stop=2), chunk(9, start=0, stop=2)]) == (None, [0, 0])


def test_ranges_of_several_queues_are_filtered_by_tags_together() -> None:
    ranges = [[FetchedChunk(record(n, properties=b"TAGS\1%c" % tag), n, n + 1)] for n, tag in enumerate(b"ABC")]
    found = Decoder(SCHEMA, "broker-a", ["A", "C"], choice=DecoderChoice.COMPILED).decode_together(ranges)
    assert found is not None
    assert found.batch["queueOffset"].to_pylist() == [0, 2]
    assert list(found.counts) == [1, 1, 1], "whether messages are missing is asked of what the broker sent"


@pytest.mark.parametrize(
    "odd",
    [
        FetchedChunk(record(1, topic="another"), 1, 2),
        FetchedChunk(record(1)[:-1], 1, 2),
        FetchedChunk(b"", 1, 2, is_damaged=True),
        FetchedChunk(record(1, b"body").replace(b"body", b"bode"), 1, 2),
    ],
    ids=["another topic", "cut", "damaged at the broker", "wrong checksum"],
)
def test_an_unusual_range_is_left_to_be_decoded_by_itself(odd: FetchedChunk) -> None:
    made = Decoder(SCHEMA, "broker-a", choice=DecoderChoice.COMPILED, check_crc=True)
    good = FetchedChunk(record(0), 0, 1)
    assert made.decode_together([[good], [good]]) is not None
    assert made.decode_together([[good], [odd]]) is None
