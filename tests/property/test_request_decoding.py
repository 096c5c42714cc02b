"""All decoders agree on the code, flags and fields of any header, or refuse it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings, strategies as st

from rocketmq_py.errors import BadHeader, CorruptFrame
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.requests import REQUEST_HEADERS, RequestDecoder
from rocketmq_py.server import Peer, Reply, Router, handles
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.wire.command import Command, decode_command, language_name
from rocketmq_py.wire.frame import JSON, ROCKETMQ, Frame
from tests.examples import examples

CODES = (Code.GET_BROKER_CONFIG, Code.SEND_MESSAGE_V2, Code.GET_MAX_OFFSET, Code.GET_CONSUMER_RUNNING_INFO,
         Code.RESET_CONSUMER_CLIENT_OFFSET, Code.AUTH_CREATE_USER)  # fmt: skip
DECODER = RequestDecoder(CODES)
CORRUPT = "corrupt"


class Seen(NamedTuple):
    """What a decoder made of a header; ``header`` is None for a request that is refused for its fields."""

    code: int
    opaque: int
    flag: int
    version: int
    language: str
    remark: str | None
    header: Any


class Handlers:
    """Note every request that reaches a handler."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def _note(self, peer: Peer, request: Any, body: bytes) -> Reply:
        del peer, body
        self.seen.append(seen_of(request, request.header))
        return Reply()

    config = handles(Code.GET_BROKER_CONFIG)(lambda *a: a[0]._note(*a[1:]))
    send = handles(Code.SEND_MESSAGE_V2)(lambda *a: a[0]._note(*a[1:]))
    offset = handles(Code.GET_MAX_OFFSET)(lambda *a: a[0]._note(*a[1:]))
    running = handles(Code.GET_CONSUMER_RUNNING_INFO)(lambda *a: a[0]._note(*a[1:]))
    reset = handles(Code.RESET_CONSUMER_CLIENT_OFFSET)(lambda *a: a[0]._note(*a[1:]))
    user = handles(Code.AUTH_CREATE_USER)(lambda *a: a[0]._note(*a[1:]))


def seen_of(request: Any, header: Any) -> Seen:
    return Seen(
        request.code, request.opaque, request.flag, request.version, language_name(request.language), request.remark,
        header,
    )  # fmt: skip


def tolerant(frame: Frame) -> Seen | str:
    try:
        command = decode_command(frame)
    except CorruptFrame:
        return CORRUPT
    cls = REQUEST_HEADERS.get(Code(command.code)) if command.code in CODES else None
    try:
        return seen_of(command, DECODER.convert(command).header if cls else None)
    except BadHeader:
        return seen_of(command, None)


def direct(frame: Frame) -> Seen | str:
    try:
        request = DECODER.decode(frame)
    except CorruptFrame:
        return CORRUPT
    except BadHeader as e:
        return seen_of(e.command, None)
    return seen_of(request, request.header if request.code in CODES and request.code in REQUEST_HEADERS else None)


def served(frame: Frame, *, guarded: bool) -> tuple[list[Seen], list[Command], bool]:
    """What the handlers of a dispatcher saw, what its access check saw, and whether it ends the connection."""
    handlers, looked_at = Handlers(), []
    authorize = (lambda _, command: looked_at.append(command)) if guarded else None
    dispatcher = Dispatcher(Router(handlers), authorize=authorize)
    outcome = dispatcher.serve(Peer(), [frame])
    return handlers.seen, looked_at, outcome.fault is not None


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 30), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=6),
    st.sampled_from(["1", "1.0", "1e2", "-0", " 5", "true", "TRUE", "null", "", "²", "9" * 30, "a\x01b\x02"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
FIELDS = st.sampled_from(
    ["topic", "queueId", "committed", "a", "b", "c", "d", "e", "f", "g", "h", "i", "m", "username", "consumerGroup",
     "clientId", "jstackEnable", "timestamp", "group", "isForce", "bname", "zz", "\u00e9"]
)  # fmt: skip
MEMBERS = st.sampled_from(["code", "flag", "opaque", "version", "language", "remark", "extFields", "zz"])
CODE_VALUES = st.sampled_from([*map(int, CODES), *(str(int(code)) for code in CODES), 26.0, 99_999, -1])


@st.composite
def objects(draw: st.DrawFn, names: st.SearchStrategy[str], values: Any, least: int = 0) -> str:
    """The text of an object whose members may be there several times."""
    members = []
    for name in draw(st.lists(names, min_size=least, max_size=8)):
        text = draw(values(name))
        members.append(f"{json.dumps(name)}:{text}")
    return "{" + ",".join(members) + "}"


def field_value(_: str) -> st.SearchStrategy[str]:
    return VALUES.map(json.dumps)


def member_value(name: str) -> st.SearchStrategy[str]:
    if name == "extFields":
        return objects(FIELDS, field_value) | st.just("null")
    return (CODE_VALUES if name == "code" else VALUES).map(json.dumps)


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """A whole header: one that fits its code, or members of any kind; then bytes of it may be changed."""
    code = draw(st.sampled_from(CODES))
    if draw(st.booleans()):
        fitting = ",".join(f'"{name}":{text}' for name, text in FITTING[code].items())
        more = draw(objects(FIELDS, field_value))[1:-1]
        ext = "{" + ",".join(filter(None, [fitting, more])) + "}"
        text = f'{{"code":{int(code)},"extFields":{ext},"flag":{draw(st.integers(0, 3))},"opaque":7}}'
    else:
        text = draw(objects(MEMBERS, member_value, least=1))
        text = f'{{"code":{int(code)},{text[1:]}'
    data = bytearray(text.encode())
    for place, new in draw(st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(max_size=3)), max_size=3)):
        at = place % (len(data) + 1)
        data[at : at + len(new) % 2] = new
    return bytes(data)


FITTING = {
    Code.GET_BROKER_CONFIG: {},
    Code.SEND_MESSAGE_V2: dict.fromkeys("abci", '"t"') | dict.fromkeys("defgh", '"3"'),
    Code.GET_MAX_OFFSET: {"topic": '"t"', "queueId": '"3"'},
    Code.GET_CONSUMER_RUNNING_INFO: {"consumerGroup": '"g"', "clientId": '"c"'},
    Code.RESET_CONSUMER_CLIENT_OFFSET: {"topic": '"t"', "group": '"g"', "timestamp": "5"},
    Code.AUTH_CREATE_USER: {"username": '"u"'},
}


def nested(levels: int, where: str = "zz") -> bytes:
    value = "[" * levels + "]" * levels
    text = f'"extFields":{{"zz":{value}}}' if where == "extFields" else f'"zz":{value}'
    return f'{{"code":26,{text}}}'.encode()


ATTACKS = [
    b'{"code":26,"extFields":{"x":"\xff","y":' + b"[" * 70 + b"]" * 70 + b"}}",
    b'{"code":26,"x":"\xff","y":' + b"[" * 70 + b"]" * 70 + b"}",
    nested(511), nested(513), nested(700), nested(1000), nested(5000), nested(511, "extFields"),
    nested(700, "extFields"), nested(5000, "extFields"), nested(480), b'{"code":26,"zz":"' + b"[" * 3000 + b'"}',
    b'{"code":26,"code":105}', b'{"code":105,"code":26}', b'{"zz":1,"code":26,"code":26}', b'{"code":"26"}',
    b'{"code":26.0}', b'{"code":null}', b'{"code":true}', b'{"code":26,"extFields":{"x":NaN}}',
    b'{"code":26,"x":1e999}', b'{"code":26,"extFields":{"x":{"y":1e999}}}',
    b'{"code":26,"x":"\\ud800"}', b'{"code":26,"x":"\\ud800zzzzzzzzzzzz"}', b'{"code":26,"\\ud800zzzzzzzz":1}',
    b'{"code":26,"x":"\\ud83d\\ude00"}', b'{"code":26,"x":"\\z"}', b'{"code":26} x', b'{"code":26}\0', b"",
    b'\xef\xbb\xbf{"code":26}', b"null", b"[]", b"{}", b"{'code':26}", b"{code:26,}",
    b'{"code":26,"extFields":{"a":"1"},"extFields":{"b":"2"}}', b'{"code":26,"extFields":[]}',
    b'{"code":26,"language":"\xc2\xb2"}', b'{"code":26,"language":"' + b"9" * 5000 + b'"}',
    b'{"code":26,"remark":"\xff"}',
    b'{"code":26,"opaque":' + b"9" * 50 + b"}", b'{"code":26,"opaque":' + b"9" * 5000 + b"}",
    b'{"code":30,"extFields":{"topic":"t","queueId":"3","topic":"u"}}',
    b'{"code":30,"extFields":{"topic":"t","queueId":"x","queueId":"3"}}',
    b'{"code":30,"extFields":{"topic":"t","queueId":9007199254740993.0}}',
    b'{"code":30,"extFields":{"topic":"t","queueId":1e2,"committed":1}}',
    b'{"code":30,"extFields":{"topic":5,"queueId":1.0}}', b'{"code":30,"extFields":{"topic":"\xff","queueId":1}}',
    b'{"code":30,"extFields":{"topic":"t","queueId":3,"committed":null}}',
]  # fmt: skip


def check(frame: Frame) -> None:
    wanted = tolerant(frame)
    assert direct(frame) == wanted
    plain, _, plain_fault = served(frame, guarded=False)
    guarded, looked_at, guarded_fault = served(frame, guarded=True)
    assert plain == guarded
    assert plain_fault == guarded_fault == (wanted == CORRUPT)
    if plain:
        (handled,), (command,) = plain, looked_at
        assert handled == wanted._replace(header=handled.header)
        assert handled.header == DECODER.convert(command).header


@pytest.mark.parametrize("header", ATTACKS, ids=lambda header: repr(header[:60]))
def test_hostile_headers_are_decoded_alike_or_refused(header: bytes) -> None:
    check(Frame(JSON, header, b""))


@given(headers())
@example(b'{"code":26,"extFields":{"\xff":"1","\xff\xff":2}}')
@settings(max_examples=examples(400))
def test_nearly_valid_headers_are_decoded_alike_or_refused(header: bytes) -> None:
    check(Frame(JSON, header, b""))


@given(st.sampled_from([JSON, ROCKETMQ, 2, 255]), st.binary(max_size=80))
def test_random_bytes_are_decoded_alike_or_refused(serialize_type: int, header: bytes) -> None:
    check(Frame(serialize_type, header, b""))
