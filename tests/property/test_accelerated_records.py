"""Pull bodies give the same messages, and the same refusals, with the accelerator and without it."""

from __future__ import annotations

import zlib
from typing import Any

from hypothesis import example, given, settings, strategies as st

from rocketmq_py.model import MessageExt, RecordHead
from rocketmq_py.wire import record as r
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.compression import DecompressionLimits
from tests.accelerated import accelerator, needs_accelerator
from tests.examples import examples
from tests.golden import files

pytestmark = needs_accelerator

INT64 = st.integers(-(2**63), 2**63 - 1)
ZLIB = r.COMPRESSED | 0x300
FLAGS = st.sampled_from(
    [0, 0, 0, 8, r.BORN_HOST_V6, r.STORE_HOST_V6, r.BORN_HOST_V6 | r.STORE_HOST_V6, ZLIB, r.INNER_BATCH, r.NEED_UNWRAP]
)
TOPICS = st.sampled_from(["t", "t", "t", "t" * 200, "ä", ""])
PROPERTIES = st.sampled_from([b"", b"TAGS\x01A\x02", b"INNER_BASE\x015\x02", b"\xff" * 9])
RULES = st.builds(
    lambda limits, read, decompress, crc: r.BodyRules(limits, read=read, decompress=decompress, check_crc=crc),
    st.sampled_from([DecompressionLimits(100, 150), DecompressionLimits(10, 20)]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
ORIGINS = st.one_of(
    st.none(),
    st.just(r.Origin("t", 1, 0, 100)),
    st.builds(
        r.Origin, st.sampled_from(["t", "other", "\ud800", "ä"]), st.integers(0, 1), st.integers(0, 5),
        st.one_of(st.integers(3, 9), INT64),
    ),
)  # fmt: skip


@st.composite
def records(draw: st.DrawFn, offset: int) -> bytes:
    """A record: mostly plain and in its place."""
    flags = draw(FLAGS)
    body = draw(st.binary(max_size=40))
    if flags & r.NEED_UNWRAP:
        body = encode_batch([(0, body, b""), (1, b"two", b"TAGS\x01B\x02")])
    elif flags & r.COMPRESSED:
        body = zlib.compress(body * draw(st.integers(1, 5)))
    head = RecordHead(
        0, 0, 0, draw(st.sampled_from([1, 1, 1, 1, 0, -1])), draw(st.integers(-(2**31), 2**31 - 1)),
        draw(st.one_of(*[st.just(offset)] * 4, INT64)), draw(INT64), flags, draw(INT64),
        bytes(20 if flags & r.BORN_HOST_V6 else 8), draw(INT64),
        b"s" * (20 if flags & r.STORE_HOST_V6 else 8), draw(st.integers(-1, 3)), draw(INT64), 0,
    )  # fmt: skip
    return r.encode_record(head, draw(TOPICS), body, draw(PROPERTIES))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Records one after the other; sometimes some bytes are changed, cut off or repeated."""
    body = bytearray(b"".join(draw(records(offset)) for offset in range(draw(st.integers(0, 7)))))
    for kind, where, value in draw(
        st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1), st.integers(0, 255)), max_size=3)
    ):
        at = int(where * len(body))
        if kind == 0:
            body[at : at + 1] = bytes((value,))
        elif kind == 1:
            body[at : at + 1] = b""
        elif kind == 2:
            body[at:at] = body[at : at + value]
        else:
            del body[at : at + value]
    return bytes(body)


def seen(message: MessageExt) -> tuple[Any, ...]:
    return (
        message.head, message.topic, message.body, message.raw_properties, message.broker_name, message.queue_offset,
        message.reconsume_times, message.transaction_id,
    )  # fmt: skip


def outcome(body: bytes, rules: r.BodyRules, origin: r.Origin | None) -> tuple[Any, ...]:
    found = r.decode_response(body, "broker-a", rules, origin)
    return (
        [seen(message) for message in found.messages],
        [(seen(message), str(error)) for message, error in found.undecoded],
        [(seen(message), str(error)) for message, error in found.postponed],
        (type(found.damage), str(found.damage)),
    )


def compare(body: bytes, rules: r.BodyRules, origin: r.Origin | None) -> None:
    assert outcome(body, rules._replace(accelerator=accelerator()), origin) == outcome(body, rules, origin)


@given(bodies(), RULES, ORIGINS)
@settings(max_examples=examples(1000))
def test_any_body(body: bytes, rules: r.BodyRules, origin: r.Origin | None) -> None:
    compare(body, rules, origin)


@given(st.binary(max_size=300), RULES, ORIGINS)
@example(b"\xff" * 200, r.BodyRules(), None)
def test_garbage(body: bytes, rules: r.BodyRules, origin: r.Origin | None) -> None:
    compare(body, rules, origin)


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 255), RULES)
def test_bytes_of_a_java_broker_with_one_changed(where: float, value: int, rules: r.BodyRules) -> None:
    body = bytearray(files.header_and_body(files.response("pull_found"))[1])
    compare(bytes(body), rules, None)
    body[int(where * len(body))] = value
    compare(bytes(body), rules, None)


def test_plain_records_are_all_decoded_by_it() -> None:
    head = RecordHead(0, 0, 0, 1, 0, 7, 9, 0, 4, bytes(8), 5, bytes(8), 0, 0, 0)
    one = r.encode_record(head, "t", b"body", b"TAGS\x01A\x02")
    found, position = accelerator().plain_messages(one, ("t", 1, 7, 8), True, True, "b")
    assert position == len(one)
    assert found == [(r.decode_record(one).head, "t", b"body", b"TAGS\x01A\x02", "b")]


def test_a_wrong_checksum_ends_the_records() -> None:
    head = RecordHead(0, 0, 0, 1, 0, 7, 9, 0, 4, bytes(8), 5, bytes(8), 0, 0, 0)
    one = r.encode_record(head, "t", b"body", b"")
    wrong = one.replace(b"body", b"bode")
    for checks, expected in ((False, 2 * len(one)), (True, len(one))):
        assert accelerator().plain_messages(one + wrong, None, True, checks, "b")[1] == expected
