from __future__ import annotations

import random

import pytest

from rocketmq_py.errors import CorruptBody
from rocketmq_py.protocol.grpc.definition import Message, MessageQueue, Resource, SystemProperties, Timestamp
from rocketmq_py.wire.protobuf import ProtoMessage


class Inner(ProtoMessage):
    text: str = ""
    number: int = 0


class Outer(ProtoMessage):
    number: int = 0
    flag: bool = False
    text: str = ""
    data: bytes = b""
    real: float = 0.0
    inner: Inner | None = None
    numbers: list[int] = []  # noqa: RUF012 - msgspec copies empty defaults
    texts: list[str] = []  # noqa: RUF012
    inners: list[Inner] = []  # noqa: RUF012
    table: dict[str, str] = {}  # noqa: RUF012
    maybe_number: int | None = None
    maybe_flag: bool | None = None
    maybe_text: str | None = None
    far: int = 0
    further: int = 0
    last: str = ""


# What protobuf's own runtime makes of the same values.
EVERYTHING = Outer(
    number=-1,
    flag=True,
    text="h\u00e9",
    data=b"\0\1",
    real=2.5,
    inner=Inner(text="x", number=300),
    numbers=[1, 300, -1],
    texts=["a", ""],
    inners=[Inner(), Inner(number=5)],
    table={"k": "v"},
    maybe_number=0,
    maybe_flag=False,
    maybe_text="",
    far=2**63 - 1,
    further=-(2**63),
    last="z",
)
ENCODED = bytes.fromhex(
    "08ffffffffffffffffff01"
    "1001"
    "1a0368c3a9"
    "22020001"
    "2d00002040"
    "32060a017810ac02"
    "3a0d01ac02ffffffffffffffffff01"
    "420161"
    "4200"
    "4a00"
    "4a021005"
    "52060a016b120176"
    "5800"
    "6000"
    "6a00"
    "70ffffffffffffffff7f"
    "7880808080808080808001"
    "8201017a"
)


def test_every_kind_of_field_is_encoded_as_protobuf_does() -> None:
    assert EVERYTHING.encode() == ENCODED
    assert Outer.decode(ENCODED) == EVERYTHING


def test_defaults_are_not_encoded_unless_the_field_has_presence() -> None:
    assert Outer().encode() == b""
    assert Outer(inner=Inner()).encode() == b"\x32\x00"
    assert Outer.decode(b"") == Outer()


def test_unknown_fields_of_every_kind_are_skipped() -> None:
    unknown = bytes.fromhex("9a060361626390060195060102030491060102030405060708")
    assert Outer.decode(unknown + b"\x08\x07" + unknown).number == 7


def test_a_field_of_another_kind_is_unknown() -> None:
    assert Outer.decode(b"\x0a\x01x" + b"\x1a\x01y").text == "y"


def test_numbers_in_a_list_may_be_packed_or_not() -> None:
    assert Outer.decode(b"\x38\x01\x38\xac\x02\x3a\x01\x05").numbers == [1, 300, 5]


def test_fields_may_come_in_any_order() -> None:
    parts = [
        "08ffffffffffffffffff01", "1001", "1a0368c3a9", "22020001", "2d00002040", "32060a017810ac02", "3801",
        "3a0cac02ffffffffffffffffff01", "420161", "4200", "4a00", "4a021005", "52060a016b120176", "5800", "6000",
        "6a00", "70ffffffffffffffff7f", "7880808080808080808001", "8201017a", "9a0601ff",
    ]  # fmt: skip
    assert Outer.decode(bytes.fromhex("".join(parts))) == EVERYTHING
    reverse = Outer.decode(bytes.fromhex("".join(reversed(parts))))
    assert (reverse.texts, reverse.inners, reverse.numbers) == (["", "a"], [Inner(number=5), Inner()], [300, -1, 1])
    reverse.texts, reverse.inners, reverse.numbers = EVERYTHING.texts, EVERYTHING.inners, EVERYTHING.numbers
    assert reverse == EVERYTHING


def test_items_of_lists_may_be_apart() -> None:
    assert Outer.decode(b"\x42\x01a\x08\x05\x42\x01b\x10\x01\x42\x01c") == Outer(
        number=5, flag=True, texts=["a", "b", "c"]
    )


def test_two_messages_share_no_list() -> None:
    first, second = Outer.decode(b""), Outer.decode(b"")
    first.texts.append("a")
    first.table["a"] = "b"
    assert second == Outer()


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16_383, 16_384, 2**31, -1, -128])
def test_numbers_of_every_length_are_read_as_they_were_written(number: int) -> None:
    message = Outer(maybe_number=number, numbers=[number], inner=Inner(number=number))
    assert Outer.decode(message.encode()) == message


@pytest.mark.parametrize("size", [127, 128, 16_383, 16_384])
def test_texts_of_every_length_are_read_as_they_were_written(size: int) -> None:
    message = Outer(text="x" * size, data=b"y" * size, table={"k": "z" * size}, inners=[Inner(text="w" * size)])
    assert Outer.decode(message.encode()) == message


def test_an_inner_message_ends_within_the_outer_one() -> None:
    with pytest.raises(CorruptBody, match="a Inner ends within a field"):
        Outer.decode(b"\x32\x01\x10\x05\x08\x01")  # its number is behind its end
    with pytest.raises(CorruptBody, match="longer than its message"):
        Outer.decode(b"\x32\x02\x0a\x05\x0a\x05hello")


def test_the_last_value_counts_and_entries_may_lack_parts() -> None:
    assert Outer.decode(b"\x08\x01\x08\x02").number == 2
    assert Outer.decode(b"\x52\x00").table == {"": ""}


@pytest.mark.parametrize("raw", [
    "08", "08ff", "08ffffffffffffffffffff01", "1a05616263", "1aff", "1a02c328", "2d0000", "3205", "32020a05", "3a01ff",
    "0b", "0f", "00", "9a0605", "910601", "32030a0378", "1affffffffffffffffff01",
])  # fmt: skip
def test_what_is_no_message_is_refused(raw: str) -> None:
    with pytest.raises(CorruptBody):
        Outer.decode(bytes.fromhex(raw))


def test_a_message_is_encoded_once_more_as_it_was() -> None:
    message = Message(
        topic=Resource(name="t"),
        user_properties={"a": "b"},
        body=b"x" * 200,
        system_properties=SystemProperties(
            tag="",
            keys=["k"],
            message_id="id",
            born_timestamp=Timestamp.of_ms(1_700_000_000_123),
            priority=0,
            queue_id=3,
        ),
    )
    assert Message.decode(message.encode()) == message
    assert message.system_properties is not None
    assert message.system_properties.born_timestamp == Timestamp(seconds=1_700_000_000, nanos=123_000_000)
    assert Timestamp(seconds=1, nanos=999_999_999).ms == 1999


def test_enums_that_this_side_does_not_know_are_numbers() -> None:
    assert MessageQueue.decode(MessageQueue(permission=77, accept_message_types=[99]).encode()).permission == 77


def test_damaged_messages_are_refused_or_read_but_nothing_else() -> None:
    for seed in range(3_000):
        rng = random.Random(seed)
        raw = bytearray(ENCODED)
        for _ in range(rng.randrange(1, 5)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            Outer.decode(bytes(raw[: rng.randrange(len(raw) + 1)]))
        except CorruptBody:
            continue
