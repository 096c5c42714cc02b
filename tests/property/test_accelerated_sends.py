"""Producers send the same bytes, and refuse the same messages, with the accelerator and without it."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st
from msgspec.structs import astuple

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.core.producer.outgoing_message import OutgoingMessage, Packer, SendHead
from rocketmq_py.errors import MessageIllegal
from rocketmq_py.model import Message, MessageQueue
from rocketmq_py.wire.ids import UniqueKeys
from rocketmq_py.wire.signing import Credentials, SigningKey
from tests.accelerated import accelerator, needs_accelerator
from tests.examples import examples

pytestmark = needs_accelerator

NOW = 1_700_000_000_000
QUEUE = MessageQueue("t", "brökér", 3)
CREDENTIALS = Credentials("root", "sécret")


class Word(str, enum.Enum):  # noqa: UP042 - whose format differs from its text
    """Formatted otherwise than it is written."""

    TAG = "TAG"


texts = st.one_of(
    st.text(max_size=8),
    st.text('\x00\x01\x02\x1f"\\/\b\n\r\t\f\x7fä漢😀\u2028', max_size=6),
    st.just("x" * 32_000),
    st.sampled_from(["\ud800", "1", "RECONSUME_TIME", "%RETRY%g"]),
)
odd: st.SearchStrategy[Any] = st.one_of(st.integers(0, 9), st.none(), st.just(Word.TAG), st.booleans())
properties = st.one_of(
    st.dictionaries(texts, texts, max_size=4),
    st.dictionaries(texts, st.one_of(texts, odd), max_size=3),
    st.dictionaries(texts, texts, max_size=3).map(OrderedDict),
)
flags = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(), st.sampled_from([1.5, True, "7"]))


@st.composite
def messages(draw: st.DrawFn) -> Callable[[], Message]:
    """Makes equal messages: packing changes them."""
    topic = draw(st.sampled_from(["t", "t", "t", "%RETRY%g", "no such!"]))
    body = draw(st.binary(min_size=draw(st.sampled_from([0, 1, 1])), max_size=40))
    found, flag, tags = draw(properties), draw(flags), draw(st.sampled_from([None, "A"]))
    kind = draw(st.sampled_from([bytes, bytes, bytes, bytearray]))

    def make() -> Message:
        message = Message(topic, body, tags)
        message.body, message.flag = kind(body), flag  # type: ignore[assignment]
        message.properties = type(found)({**message.properties, **found})
        return message

    return make


def packer(signing: bool, native: Accelerator | None) -> Packer:
    return Packer(UniqueKeys(bytes(4), 1, 1), signing=signing, compress_over=30, accelerator=native)


def outcome(pack: Callable[[Packer], OutgoingMessage], signing: bool, native: Accelerator | None) -> Any:
    head = SendHead("gröup", QUEUE, "TBW102", 4, CREDENTIALS if signing else None, native)
    try:
        packed = pack(packer(signing, native))
    except Exception as e:  # noqa: BLE001 - whatever it is has to be the same
        return type(e), str(e)
    return packed.frame(head, 7), packed.values, packed.msg_id


@given(messages(), st.booleans())
@settings(max_examples=examples(500))
def test_one_message(make: Callable[[], Message], signing: bool) -> None:
    plain, fast = (outcome(lambda p: p.pack(make(), NOW), signing, native) for native in (None, accelerator()))
    assert fast == plain


@given(st.lists(messages(), max_size=4), st.booleans())
@settings(max_examples=examples(300))
def test_a_batch(make: list[Callable[[], Message]], signing: bool) -> None:
    plain, fast = (
        outcome(lambda p: p.pack_batch([one() for one in make], NOW), signing, native)
        for native in (None, accelerator())
    )
    assert fast == plain


def record_by(name: str, make: Callable[[], Message], native: Accelerator | None) -> tuple[Any, dict[str, str]]:
    """What a method of the packer makes of a message, None or the error's type, and its properties afterwards."""
    message = make()
    try:
        found = getattr(packer(signing=False, native=native), name)(message, NOW)
    except Exception as e:  # noqa: BLE001 - whatever it is
        return type(e), message.properties
    return found and astuple(found), message.properties


@given(messages())
@example(lambda: Message("t", b"x" * 29, "tag", "key"))
@example(lambda: Message("t", b"x" * 30))
@example(lambda: Message("t", b"x", wait_store_ok=False))
@example(lambda: Message("t", b"x", delay_level=3))
@example(lambda: Message("t", b"x", priority=3))
@example(lambda: Message("t", b"x", properties={"UNIQ_KEY": "mine"}))
@settings(max_examples=examples(500))
def test_a_plain_message_of_a_batch(make: Callable[[], Message]) -> None:
    """It is the same as the record of any message; what is not plain stays as it was."""
    fast, plain = record_by("plain_record", make, accelerator()), record_by("plain_record", make, None)
    for found, properties in fast, plain:
        if found is None:
            assert properties == make().properties
        elif isinstance(found, tuple) and make().topic == "t":
            assert (found, properties) == record_by("record", make, None)
    if fast[0] is not None:
        assert fast == plain
    elif isinstance(plain[0], tuple):
        assert not is_ordinary(make())


def is_ordinary(message: Message) -> bool:
    """True if all is of the declared types, and texts are few and legal, so that the accelerator must take it."""
    texts = [text for entry in message.properties.items() for text in entry]
    return (
        type(message.properties) is dict
        and type(message.body) is bytes
        and type(message.flag) is int
        and -(2**31) <= message.flag < 2**31
        and all(type(text) is str and text.isascii() and len(text) < 100 for text in texts)
    )


def test_plain_messages_are_encoded_at_once() -> None:
    message = Message("t", b"body", properties={"a": "b"})
    native = accelerator()
    assert native.encode_plain(message, "KEY", frozenset({"c"}), 5, 100) == native.encode_message(
        0, b"body", {"a": "b", "WAIT": "true", "UNIQ_KEY": "KEY"}, 100
    )
    assert list(message.properties) == ["a", "WAIT", "UNIQ_KEY"]
    for unusual, below, most in ({"a"}, 5, 100), ({"c"}, 4, 100), ({"c"}, 5, 20), ({"UNIQ_KEY"}, 5, 100):
        assert native.encode_plain(message, "KEY", frozenset(unusual), below, most) is None
    assert native.encode_message(0, b"body", {"a": "b"}, 3) is None


@given(st.binary(max_size=100), st.binary(max_size=100), st.binary(max_size=200), st.binary(max_size=2000))
@example(b"", b"", b"", b"")
def test_signatures(secret: bytes, before: bytes, content: bytes, body: bytes) -> None:
    signed = accelerator().SigningKey(secret, before).sign(content, body)
    assert signed == SigningKey(secret, before).sign(content, body)
    assert signed == accelerator().SigningKey(secret, before).sign(content, bytearray(body))


def test_plain_messages_are_encoded_by_it() -> None:
    native = accelerator()
    assert native.encode_messages([(1, b"body", {"a": "b"})], 10) == bytes.fromhex(
        "0000001e 00000000 00000000 00000001 00000004 626f6479 0004 61016202"
    )
    assert native.send_fields((1, 2, 3), {"a": '"'}, (b'"j":"0"', b"0"), 10) == (
        b'1","g":"2","h":"3","i":"a\\u0001\\"\\u0002","j":"0"', b'123a\x01"\x020'
    )  # fmt: skip


@pytest.mark.parametrize("entries", [{"a": "\x01"}, {"\x02": "b"}, {"a": 1}, {"a": "x" * 30}, {"a": "\ud800"}, []])
def test_properties_that_are_not_plain_are_refused(entries: Any) -> None:
    assert accelerator().encode_messages([(0, b"b", entries)], 20) is None
    assert accelerator().send_fields((0, 0, 0), entries, (b"", b""), 20) is None


def test_illegal_properties_have_pythons_error() -> None:
    with pytest.raises(MessageIllegal, match="separate"):
        packer(signing=False, native=accelerator()).pack(Message("t", b"b", properties={"a": "\x01"}), NOW)
