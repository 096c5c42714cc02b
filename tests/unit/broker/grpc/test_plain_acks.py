from __future__ import annotations

import pytest

from rocketmq_py.broker.grpc.access import CallAccess
from rocketmq_py.broker.grpc.plain_acks import PlainAcks
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.grpc.definition import Resource
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.grpc.service import AckMessageEntry, AckMessageRequest, AckMessageResponse, StatusResponse
from rocketmq_py.server import Reply
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.wire.grpc import GrpcStatus
from tests.accelerated import needs_accelerator
from tests.unit.broker.harness import InProcess
from tests.unit.grpc.calls import Calls, Running, handle_of, new_message

pytestmark = needs_accelerator


def received(calls: Calls, count: int) -> list[str]:
    """The handles of so many messages of one pop."""
    calls.consume("t", "g")
    for number in range(count):
        calls.send(new_message("t", b"%d" % number))
    return [handle_of(message) for message in calls.receive("t", "g")[1]]


def begun(calls: Calls, *handles: str, more: str = "") -> Running:
    """A call that acknowledges messages, in a read that goes on."""
    running = calls.begin("AckMessage")
    entries = [AckMessageEntry(message_id=more, receipt_handle=handle) for handle in handles]
    running.tell(AckMessageRequest(group=Resource(name="g"), topic=Resource(name="t"), entries=entries))
    return running


def codes(running: Running) -> list[int]:
    [answer] = running.received(AckMessageResponse)
    return [entry.status.code for entry in answer.entries if entry.status is not None]


def test_the_permission_of_each_call_is_checked(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = received(calls, 2)
    calls.metadata = {"who": "friend"}
    mine = begun(calls, first)
    calls.metadata = {"who": "stranger"}
    other = begun(calls, second)
    checked = []

    def check(_: CallAccess, call: Call, *__: object, **more: str) -> None:
        checked.append((call.header(b"who"), more["topic"], more["group"]))
        if call.header(b"who") == "stranger":
            raise CallRefused(Code.UNAUTHORIZED, "no")

    monkeypatch.setattr(CallAccess, "check", check)
    assert calls.service.finish_read() is None
    assert codes(mine) == [Code.OK]
    [refused] = other.received(StatusResponse)
    assert refused.status is not None
    assert refused.status.code == Code.UNAUTHORIZED
    assert checked == [("friend", "t", "g"), ("stranger", "t", "g")]


def test_answers_wait_until_acknowledgements_are_durable(
    running: InProcess, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    handles = received(calls, 4)
    calls.service.finish_read()
    held = []
    monkeypatch.setattr(running.dispatcher, "call", lambda *call: held.append(call[2]))
    every = begun(calls, *handles)
    one = begun(calls, handles[0])
    gone = begun(calls, handles[1])
    gone.call.cancelled()
    assert calls.service.finish_read() is None
    assert every.carrier.end is None
    assert len(held) == 2  # of two queues
    held[0].encode(Reply())
    held[1].encode(Reply(ResponseCode.SYSTEM_ERROR, "the disk is full"))
    assert sorted(codes(every)) == [Code.OK] * 2 + [Code.INTERNAL_SERVER_ERROR] * 2
    assert len(codes(one)) == 1
    assert gone.carrier.messages == []


def test_many_and_large_requests_do_not_wait_for_the_end_of_a_read(calls: Calls) -> None:
    handles = received(calls, 2)
    running = [begun(calls, handles[0]) for _ in range(128)]
    large = begun(calls, handles[1], more="x" * 70_000)
    assert calls.service.finish_read() is None
    assert [codes(one) for one in [*running, large]] == [[Code.OK]] * 129


def test_a_failure_is_an_answer(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    [handle] = received(calls, 1)
    call = begun(calls, handle)

    def failing(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(PlainAcks, "_is_usual", failing)
    assert calls.service.finish_read() is None
    assert call.carrier.end is not None
    assert call.carrier.end[0] == GrpcStatus.INTERNAL
    assert "acknowledgements by gRPC failed" in caplog.text
