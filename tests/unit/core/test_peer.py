"""Bytes in, events out: answers paired with requests, requests of the other side, deadlines."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.core.peer import NEVER, InFlight, Peer, Reply
from rocketmq_py.errors import BadHeader, CorruptFrame
from rocketmq_py.protocol.headers.offset import OffsetResponse
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import JSON, ROCKETMQ, Frame, encode_frame


def answer(opaque: int, code: int = 0, body: bytes = b"", **ext: str) -> Command:
    return Command(code, opaque, RESPONSE_FLAG, ext=ext, body=body)


def fed_by_bytes(peer: Peer[str], data: bytes) -> tuple[list[tuple[str, Reply]], list[Command]]:
    answers, requests = [], []
    for i in range(len(data)):
        some_answers, some_requests = peer.receive(data[i : i + 1])
        answers += some_answers
        requests += some_requests
    return answers, requests


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
@pytest.mark.parametrize("by_bytes", [False, True])
def test_answers_are_matched_to_requests_in_any_order(serialize_type: int, by_bytes: bool) -> None:
    peer: Peer[str] = Peer()
    first, second = peer.add("first"), peer.add("second")
    stream = b"".join(
        encode_command(command, serialize_type)
        for command in (answer(second, body=b"two", offset="7"), answer(first, code=17))
    )
    answers, requests = fed_by_bytes(peer, stream) if by_bytes else peer.receive(stream)
    assert [(token, reply.code, reply.body) for token, reply in answers] == [("second", 0, b"two"), ("first", 17, b"")]
    assert answers[0][1].header(OffsetResponse).offset == 7
    assert answers[0][1].ext == {"offset": "7"}
    assert requests == []
    assert len(peer) == 0


def test_requests_of_the_peer_with_the_same_opaque_are_distinguished() -> None:
    peer: Peer[str] = Peer()
    opaque = peer.add("ours")
    pushed = Command(40, opaque, ext={"consumerGroup": "g"})
    answers, requests = peer.receive(encode_command(pushed) + encode_command(answer(opaque)))
    assert [request.code for request in requests] == [40]
    assert requests[0].ext == {"consumerGroup": "g"}
    assert [token for token, _ in answers] == ["ours"]


def test_an_unexpected_answer_is_dropped() -> None:
    peer: Peer[str] = Peer()
    opaque = peer.add("taken")
    assert peer.take(opaque) == "taken"
    assert peer.take(opaque) is None
    assert peer.receive(encode_command(answer(opaque)) + encode_command(answer(999))) == ([], [])


def test_an_answer_in_fastjsons_dialect_is_understood() -> None:
    peer: Peer[str] = Peer()
    opaque = peer.add("odd")
    header = b'{"code":0,"opaque":%d,"flag":1,"extFields":{"offset":7,"ok":true,3:"x"},"version":1}' % opaque
    answers, _ = peer.receive(encode_frame(header, b""))
    assert answers[0][1].ext == {"offset": "7", "ok": "true", "3": "x"}


@pytest.mark.parametrize("ext", [b"null", b"{}"])
def test_an_answer_without_header_fields(ext: bytes) -> None:
    peer: Peer[str] = Peer()
    header = b'{"code":1,"opaque":%d,"flag":1,"remark":"why","extFields":%b}' % (peer.add("x"), ext)
    answers, _ = peer.receive(encode_frame(header, b""))
    reply = answers[0][1]
    assert reply.ext == {}
    assert reply.command() == Command(1, reply.opaque, 1, "why", version=0)
    with pytest.raises(BadHeader, match="OffsetResponse"):
        reply.header(OffsetResponse)


def test_a_header_field_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(BadHeader, match="offset"):
        Reply(0, 1, fields=msgspec.Raw(b'{"offset":"seven"}')).header(OffsetResponse)


@pytest.mark.parametrize("garbage", [b"\x00\x00\x00\x10\x00\x00\x00\x04nope????????", b"GET / HTTP/1.1\r\n\r\n"])
def test_garbage_is_a_corrupt_frame(garbage: bytes) -> None:
    with pytest.raises(CorruptFrame):
        Peer().receive(garbage)


def test_a_request_whose_answer_came_before_a_corrupt_frame_in_one_read_is_abandoned() -> None:
    peer: Peer[str] = Peer()
    stream = encode_command(answer(peer.add("answered"))) + encode_frame(b'z"code":0}')
    peer.add("unanswered")
    with pytest.raises(CorruptFrame):
        peer.receive(stream)
    assert peer.abandon() == ["answered", "unanswered"]


def test_deadlines_expire_in_any_order_and_only_once() -> None:
    flight: InFlight[str] = InFlight()
    flight.add("late", 30.0)
    flight.add("early", 10.0)
    flight.add("its own clock")
    assert flight.next_deadline == 10.0
    assert flight.expire(9.9) == []
    assert flight.expire(10.0) == ["early"]
    assert flight.next_deadline == 30.0
    assert flight.expire(1000.0) == ["late"]
    assert flight.next_deadline == NEVER
    assert flight.abandon() == ["its own clock"]
    assert len(flight) == 0


def test_an_answered_request_does_not_expire() -> None:
    flight: InFlight[str] = InFlight()
    opaque = flight.add("answered", 10.0)
    flight.take(opaque)
    assert flight.expire(10.0) == []
    assert flight.next_deadline == NEVER


def test_opaque_numbers_are_positive_and_distinct() -> None:
    flight: InFlight[int] = InFlight()
    numbers = [flight.number(), flight.add(1), flight.number(), flight.add(2)]
    assert len(set(numbers)) == 4
    assert min(numbers) >= 0


@pytest.mark.parametrize(("fields", "ext"), [
    (b'{"offset":7}', {"offset": "7"}),
    (b'{"offset":"7","x":"\xff"}', {"offset": "7", "x": "\ufffd"}),
    (b'{"offset":"7","x":{"y":[1]}}', {"offset": "7", "x": '{"y":[1]}'}),
    (b'{"offset":"7","x":' + b"[" * 70 + b"]" * 70 + b',"y":"\xff"}',
     {"offset": "7", "x": "[" * 70 + "]" * 70, "y": "\ufffd"}),
    (b'{"offset":"7","x":null}', {"offset": "7"}),
])  # fmt: skip
def test_fields_of_answers_and_requests_are_read_alike(fields: bytes, ext: dict[str, str]) -> None:
    peer: Peer[str] = Peer()
    opaque = peer.add("x")
    header = b'{"code":0,"flag":1,"opaque":%d,"extFields":%s}' % (opaque, fields)
    [(_, reply)], _ = peer.receive(encode_frame(header))
    assert reply.ext == ext == decode_command(Frame(JSON, header, b"")).ext
    assert reply.header(OffsetResponse).offset == 7


@pytest.mark.parametrize("fields", [b"[1]", b"5", b'"x"', b'{"offset":"x"}', b"{}", b"null"])
def test_malformed_fields_of_an_answer_are_refused(fields: bytes) -> None:
    peer: Peer[str] = Peer()
    header = b'{"code":0,"flag":1,"opaque":%d,"extFields":%s}' % (peer.add("x"), fields)
    [(_, reply)], _ = peer.receive(encode_frame(header))
    with pytest.raises(BadHeader):
        reply.header(OffsetResponse)


@pytest.mark.parametrize("where", [b'"x":%s', b'"extFields":{"x":%s}'])
def test_an_answer_that_is_nested_too_deeply_ends_the_connection(where: bytes) -> None:
    peer: Peer[str] = Peer()
    header = b'{"code":0,"flag":1,"opaque":%d,' % peer.add("x") + where % (b"[" * 5000 + b"]" * 5000) + b"}"
    with pytest.raises(CorruptFrame):
        peer.receive(encode_frame(header))
