"""Answers are the same with the accelerator and without it, however the stream is cut."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import example, given, settings, strategies as st

from rocketmq_py.accelerator import Accelerator
from rocketmq_py.core.peer import Peer, Reply
from rocketmq_py.errors import BadHeader, CorruptFrame
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.frame import encode_frame
from tests.accelerated import accelerator, needs_accelerator
from tests.examples import examples

pytestmark = needs_accelerator

texts = st.one_of(st.text(max_size=6), st.sampled_from(["", "7", "msgId", "ä漢😀", '"\\\n']))
numbers = st.one_of(st.integers(-1, 5), st.sampled_from([2**31 - 1, -(2**31), 2**31, "1", None, 1.0, True]))
fields: st.SearchStrategy[Any] = st.one_of(
    st.dictionaries(texts, texts, max_size=4),
    st.dictionaries(texts, st.one_of(texts, st.none(), st.integers(), st.lists(texts)), max_size=3),
    st.sampled_from([None, [], "x"]),
)


@st.composite
def plain(draw: st.DrawFn) -> bytes:
    """A frame of an answer as our brokers write it."""
    opaque, code = draw(st.integers(0, 5)), draw(st.sampled_from([0, 1, 17]))
    remark = draw(st.sampled_from([None, None, "no"]))
    ext = draw(st.dictionaries(texts, texts, max_size=4))
    kind = draw(st.sampled_from([0, 0, 1]))
    command = Command(code, opaque, draw(st.sampled_from([1, 1, 1, 0])), remark, ext, draw(st.binary(max_size=9)))
    return encode_command(command, kind)


@st.composite
def odd(draw: st.DrawFn) -> bytes:
    """A frame whose header is any JSON, or none."""
    names = ["code", "opaque", "flag", "version", "remark", "language", "extFields", "more"]
    chosen = draw(st.lists(st.sampled_from(names), max_size=9))
    ext = draw(fields)
    members = [f"{json.dumps(name)}:{json.dumps(ext if name == 'extFields' else draw(numbers))}" for name in chosen]
    text = "{" + ",".join(members) + "}"
    if draw(st.booleans()):
        text = draw(st.sampled_from(["", " "])) + text + draw(st.sampled_from(["", " ", "}"]))
    header = draw(st.sampled_from([text.encode(), json.dumps(json.dumps(text)).encode(), text.encode()[:-1]]))
    return encode_frame(header, draw(st.binary(max_size=5)), draw(st.sampled_from([0, 0, 0, 1, 2])))


def ext_of(reply: Reply) -> Any:
    try:
        return reply.ext
    except BadHeader as e:
        return str(e)


def outcome(pieces: list[bytes], native: Accelerator | None) -> list[Any]:
    peer = Peer[int](1000, native)
    for number in range(8):
        peer.add(number)
    found: list[Any] = []
    for piece in pieces:
        try:
            answers, requests = peer.receive(piece)
        except CorruptFrame as e:
            return [*found, str(e), len(peer)]
        for token, reply in answers:
            numbers = (reply.code, reply.opaque, reply.flag, reply.remark, reply.version)
            found.append((token, numbers, ext_of(reply), reply.body))
        found += requests
    return [*found, len(peer)]


@given(st.lists(st.one_of(plain(), plain(), odd()), max_size=5), st.lists(st.integers(0, 400), max_size=3))
@settings(max_examples=examples(400), deadline=None)
@example([encode_frame(b'{"code":0,"opaque":1,"flag":1,"extFields":{"a":"1","a":"2"}}')], [])
@example([encode_frame(b'{"code":0,"opaque":1,"flag":1,"version":2147483648}')], [])
@example([encode_frame(b'{"code":0,"opaque":1,"flag":1}'), b"\x7f" * 8], [])
def test_answers(frames: list[bytes], places: list[int]) -> None:
    data = b"".join(frames)
    ends = sorted({0, len(data), *(place for place in places if place < len(data))})
    pieces = [data[begin:end] for begin, end in itertools.pairwise(ends)]
    assert outcome(pieces, accelerator()) == outcome(pieces, None)


def test_an_answer_is_decoded_by_the_accelerator() -> None:
    """The property does not hold because all answers were left to the Python code."""
    frame = encode_command(Command(0, 7, 1, ext={"msgId": "A", "queueId": "1"}, body=b"b"))
    (reply,), position, missing, fault = accelerator().cut_answers(frame, 1000, lambda *_: None, Reply)
    assert (reply.opaque, reply.body, reply.ext) == (7, b"b", {"msgId": "A", "queueId": "1"})
    assert (position, missing, fault) == (len(frame), 8, None)
