"""Answers become frames that a decoder reads back; header fields travel as strings."""

import json
import pkgutil
import typing
from importlib import import_module

import msgspec
import pytest
from hypothesis import given, strategies as st

from rocketmq_py.protocol import headers
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.namesrv import RegisterBrokerResponse
from rocketmq_py.protocol.headers.offset import OffsetResponse
from rocketmq_py.protocol.headers.pull import PullResponse
from rocketmq_py.protocol.headers.send import SendResponse
from rocketmq_py.server import Reply, encode_reply
from rocketmq_py.server.reply import reply_buffers
from rocketmq_py.wire.command import decode_command
from rocketmq_py.wire.frame import FrameDecoder


def decoded(reply: Reply, opaque: int = 7):
    (frame,) = FrameDecoder().feed(encode_reply(reply, opaque))
    return decode_command(frame)


def header_json(reply: Reply) -> dict:
    (frame,) = FrameDecoder().feed(encode_reply(reply, 7))
    return json.loads(frame.header)


def test_an_empty_answer_is_a_success_without_fields():
    answer = decoded(Reply(), opaque=3)
    assert (answer.code, answer.opaque, answer.is_response, answer.body) == (0, 3, True, b"")
    assert header_json(Reply()).keys() == {"code", "flag", "language", "opaque", "serializeTypeCurrentRPC", "version"}


def test_header_fields_are_strings_and_absent_ones_are_left_out():
    header = PullResponse(
        suggest_which_broker_id=0, next_begin_offset=2**62, min_offset=-1, max_offset=3, topic_sys_flag=1
    )
    assert header_json(Reply(header=header))["extFields"] == {
        "suggestWhichBrokerId": "0", "nextBeginOffset": str(2**62), "minOffset": "-1", "maxOffset": "3",
        "topicSysFlag": "1",
    }  # fmt: skip


def test_a_header_of_which_nothing_is_set_leaves_an_empty_object():
    assert header_json(Reply(header=RegisterBrokerResponse()))["extFields"] == {}


def test_fields_beyond_the_header_are_added():
    header = OffsetResponse(offset=5)
    assert decoded(Reply(header=header, ext={"more": "x"})).ext == {"offset": "5", "more": "x"}
    assert decoded(Reply(ext={"only": "y"})).ext == {"only": "y"}


def test_text_is_escaped():
    text = 'quote " backslash \\ line \n zero \x00 ünï \U0001f680'
    answer = decoded(Reply(1, text, SendResponse(msg_id=text, queue_id=0, queue_offset=0), {text: text}))
    assert (answer.remark, answer.ext["msgId"], answer.ext[text]) == (text, text, text)


def all_headers() -> list[type[Header]]:
    modules = [import_module(f"{headers.__name__}.{found.name}") for found in pkgutil.iter_modules(headers.__path__)]
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    declared = [kind for kind in kinds if issubclass(kind, Header) and kind is not Header]
    return sorted(declared, key=lambda kind: kind.__qualname__)


def some(kind: typing.Any) -> typing.Any:
    if typing.get_origin(kind) is typing.Annotated:
        base, *bounds = typing.get_args(kind)
        return 12 if any(bound.ge == 0 for bound in bounds) else some(base)
    kinds = [one for one in (typing.get_args(kind) or (kind,)) if one is not type(None)]
    return some(kinds[0]) if kinds != [kind] else {int: -12, str: "a b", bool: True}[kind]


@pytest.mark.parametrize("cls", all_headers(), ids=lambda cls: cls.__name__)
def test_every_declared_header_is_decoded_unchanged(cls):
    full = cls(**{field.name: some(field.type) for field in msgspec.structs.fields(cls)})
    assert cls.from_ext(decoded(Reply(header=full)).ext) == full
    assert decoded(Reply(header=full)).ext == full.to_ext()
    bare = cls(**{field.name: some(field.type) for field in msgspec.structs.fields(cls) if field.required})
    assert decoded(Reply(header=bare)).ext == bare.to_ext()


TEXTS = st.dictionaries(st.text(), st.text(), max_size=4)


@given(st.integers(-(2**31), 2**31 - 1), st.text(), TEXTS, st.binary(max_size=100))
def test_any_answer_is_decoded_unchanged(code, remark, ext, body):
    answer = decoded(Reply(code, remark, None, ext, body))
    assert (answer.code, answer.remark, answer.ext, answer.body) == (code, remark, ext, body)


@pytest.mark.parametrize("pieces", [[b"a"], [b"a", b"b"], [memoryview(b"x" * 20_000)] * 3, [b"y" * 3_000] * 40])
def test_a_body_in_pieces_arrives_in_one(pieces):
    answer = decoded(Reply(body=pieces))
    assert answer.body == b"".join(pieces)


def test_a_few_large_pieces_are_not_copied():
    pieces = [memoryview(bytes(100_000)), memoryview(bytes(200_000))]
    buffers = reply_buffers(Reply(body=pieces), 1)
    assert [buffer for buffer in buffers if isinstance(buffer, memoryview)] == pieces


def test_a_body_is_one_buffer_with_its_header_or_few_buffers_behind_it():
    cases = [
        (b"", 1), (bytes(16_384), 1), (bytes(16_385), 2), (bytearray(1), 2), ([bytes(16_384), b"x"], 3),
        ([bytes(8_192)] * 2, 2), ([bytes(5_000)] * 4, 5), ([bytes(5_000)] * 5, 2),
    ]  # fmt: skip
    assert [len(reply_buffers(Reply(body=body), 1)) for body, _ in cases] == [count for _, count in cases]


def test_one_large_buffer_is_not_copied_and_no_view_of_few_bytes_is_kept():
    for body in (bytes(16_385), memoryview(bytes(16_385))):
        assert reply_buffers(Reply(body=body), 1)[1] is body
    head, copy = reply_buffers(Reply(body=memoryview(b"x" * 16_384)), 1)
    assert (type(head), copy) == (bytes, b"x" * 16_384)
    assert type(copy) is bytes


def test_many_pieces_are_joined():
    assert len(reply_buffers(Reply(body=[bytes(1_000)] * 100), 1)) == 2


@pytest.mark.parametrize("body", [b"z" * 17_000, bytearray(b"abc"), memoryview(b"abc")], ids=["large", "array", "view"])
def test_a_body_may_be_any_buffer(body):
    assert decoded(Reply(body=body)).body == bytes(body)
