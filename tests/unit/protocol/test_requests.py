from __future__ import annotations

import functools
import json

import msgspec
import msgspec.inspect
import pytest
from hypothesis import given, settings, strategies as st

from rocketmq_py.errors import BadHeader, CorruptFrame
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import Header, NoHeader
from rocketmq_py.protocol.headers.group import GetConsumeStats
from rocketmq_py.protocol.headers.offset import QueueHeader
from rocketmq_py.protocol.requests import REQUEST_HEADERS, Request, RequestDecoder
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import JSON, ROCKETMQ, Frame, FrameDecoder
from tests.examples import examples
from tests.golden import files

ALL = RequestDecoder(RequestCode)
SAME = ("code", "opaque", "flag", "version", "language", "remark", "header", "is_oneway")


def frame(data: bytes) -> Frame:
    [one] = FrameDecoder().feed(data)
    return one


def same(fast: Request, slow: Request) -> bool:
    return all(getattr(fast, name) == getattr(slow, name) for name in SAME)


@pytest.mark.parametrize("name", files.REQUESTS)
def test_the_fast_and_the_slow_decoder_agree_on_java_requests(name: str) -> None:
    one = frame(files.request(name))
    command = decode_command(one)
    if name == "send_missing_field":
        with pytest.raises(BadHeader, match="missing required field `e`"):
            ALL.decode(one)
    else:
        assert same(ALL.decode(one), ALL.convert(command))


@pytest.mark.parametrize(
    "name", [name for name in files.REQUESTS if name not in ("send_missing_field", "unknown_code")]
)
def test_no_field_a_java_peer_sends_is_lost(name: str) -> None:
    command = decode_command(frame(files.request(name)))
    header = ALL.convert(command).header
    if isinstance(header, NoHeader):
        assert not command.ext
    else:
        assert header.to_ext() == command.ext


@st.composite
def header_of(draw: st.DrawFn, cls: type[Header]) -> Header:
    values: dict[str, object] = {}
    for field in msgspec.structs.fields(cls):
        if field.required or draw(st.booleans()):
            values[field.name] = draw(_value(field.type))
    return cls(**values)


@functools.cache
def _value(kind: object) -> st.SearchStrategy[object]:
    text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)
    described = msgspec.inspect.type_info(kind)
    kinds = described.types if isinstance(described, msgspec.inspect.UnionType) else (described,)
    one = next(one for one in kinds if not isinstance(one, msgspec.inspect.NoneType))
    if isinstance(one, msgspec.inspect.IntType):
        return st.integers(one.ge, one.le)
    return {msgspec.inspect.BoolType: st.booleans(), msgspec.inspect.StrType: text}[type(one)]


@pytest.mark.parametrize("code", sorted(REQUEST_HEADERS), ids=lambda code: code.name)
@settings(max_examples=examples(15))
@given(data=st.data())
def test_every_header_is_encoded_in_both_forms(code: RequestCode, data: st.DataObject) -> None:
    header = data.draw(header_of(REQUEST_HEADERS[code]))
    command = Command(code, opaque=7, flag=2, ext=header.to_ext(), remark="r")
    for serialize_type in (JSON, ROCKETMQ) if code < 2**15 else (JSON,):
        request = ALL.decode(frame(encode_command(command, serialize_type)))
        assert (request.code, request.opaque, request.remark, request.is_oneway) == (code, 7, "r", True)
        assert request.header == header


@pytest.mark.parametrize("code", sorted(REQUEST_HEADERS), ids=lambda code: code.name)
def test_a_missing_required_field_is_named(code: RequestCode) -> None:
    cls = REQUEST_HEADERS[code]
    for field in msgspec.structs.fields(cls):
        if not field.required:
            continue
        ext = {f.encode_name: "1" if f.type is not bool else "true" for f in msgspec.structs.fields(cls) if f.required}
        del ext[field.encode_name]
        with pytest.raises(BadHeader, match=f"missing required field `{field.encode_name}`"):
            ALL.decode(frame(encode_command(Command(code, ext=ext))))


def test_required_fields_are_missed_without_ext_fields() -> None:
    for header in (b'{"code":310}', b'{"code":310,"extFields":null}'):
        with pytest.raises(BadHeader, match="SendMessageV2: Object missing required field `a`"):
            ALL.decode(Frame(JSON, header, b""))


def test_a_value_of_the_wrong_type_is_named() -> None:
    ext = {"topic": "t", "queueId": "zero"}
    with pytest.raises(BadHeader, match=r"QueueHeader: queueId is 'zero': a whole number is expected"):
        ALL.decode(frame(encode_command(Command(RequestCode.GET_MIN_OFFSET, ext=ext))))


def test_values_of_other_types_and_a_language_by_ordinal_are_read() -> None:
    text = b'{"code":31,"language":9,"extFields":{"topic":"t","queueId":3,"nsd":false},"version":479}'
    request = ALL.decode(Frame(JSON, text, b""))
    assert request.header == QueueHeader(topic="t", queue_id=3, nsd=False)


@pytest.mark.parametrize("text", ["null", "true", "12", "1.5"])
def test_strings_that_look_like_numbers_stay_strings(text: str) -> None:
    ext = GetConsumeStats(consumer_group=text, topic=text).to_ext()
    request = ALL.decode(frame(encode_command(Command(RequestCode.GET_CONSUME_STATS, ext=ext))))
    assert (request.header.consumer_group, request.header.topic) == (text, text)


def test_the_dialect_of_fastjson_gives_the_same_header() -> None:
    request = ALL.decode(Frame(JSON, b"{code:31,opaque:5,extFields:{topic:'t',queueId:3}}", b""))
    assert (request.opaque, request.header) == (5, QueueHeader(topic="t", queue_id=3))


def test_unknown_members_and_fields_are_ignored() -> None:
    text = {"code": 34, "opaque": 1, "extFields": {"new": "x"}, "future": {"a": [1]}}
    assert ALL.decode(Frame(JSON, json.dumps(text).encode(), b"")).header == NoHeader()


def test_a_code_the_owner_does_not_handle_decodes_without_its_header() -> None:
    decoder = RequestDecoder([RequestCode.HEART_BEAT])
    for code in (RequestCode.PULL_MESSAGE, 29999):
        request = decoder.decode(frame(encode_command(Command(int(code), opaque=9, ext={"x": "y"}))))
        assert (request.code, request.opaque, request.header) == (code, 9, None)
    assert RequestDecoder([]).decode(frame(files.request("heartbeat"))).code == RequestCode.HEART_BEAT


@pytest.mark.parametrize("header", [b"", b"[]", b"{", b'{"code":null}', b'{"code":1' + b',"a":{' * 3000])
def test_garbage_is_a_corrupt_frame(header: bytes) -> None:
    with pytest.raises(CorruptFrame):
        ALL.decode(Frame(JSON, header, b""))


def test_only_codes_with_header_fields_are_listed() -> None:
    assert all(msgspec.structs.fields(cls) for cls in REQUEST_HEADERS.values())
