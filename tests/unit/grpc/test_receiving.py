from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Callable
from time import monotonic
from typing import Any
from unittest import mock

import pytest

from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.grpc.definition import Duration, Resource
from rocketmq_py.protocol.grpc.enums import ClientType, Code
from rocketmq_py.protocol.grpc.service import (
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    ForwardMessageToDeadLetterQueueRequest,
    ReceiveMessageResponse,
    StatusResponse,
)
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Reply
from rocketmq_py.wire.record import stored_messages
from tests.unit.broker.harness import InProcess
from tests.unit.grpc.calls import Calls, answer_of, handle_of, new_message, receive_request


def change(
    calls: Calls, handle: str, seconds: int, topic: str = "t", group: str = "g"
) -> ChangeInvisibleDurationResponse:
    request = ChangeInvisibleDurationRequest(
        group=Resource(name=group),
        topic=Resource(name=topic),
        receipt_handle=handle,
        invisible_duration=Duration(seconds=seconds),
    )
    return calls.call("ChangeInvisibleDuration", request, ChangeInvisibleDurationResponse)


def code_of(answer: ChangeInvisibleDurationResponse) -> int:
    assert answer.status is not None
    return answer.status.code


def test_a_message_is_received_once_and_acknowledged(running: InProcess, calls: Calls) -> None:
    calls.consume("t", "g")
    body = zlib.compress(b"text")
    calls.send(new_message("t", body, {"a": "b"}, tag="T", keys=["k"], body_encoding=2, message_id="ID"))
    code, [got] = calls.receive("t", "g")
    system = got.system_properties
    assert system is not None
    assert system.body_digest is not None
    assert (code, got.body, got.user_properties, system.body_digest.checksum) == (
        Code.OK, body, {"a": "b"}, hashlib.md5(body).hexdigest().upper(),
    )  # fmt: skip
    assert (system.tag, system.keys, system.message_id, system.body_encoding, system.delivery_attempt) == (
        "T",
        ["k"],
        "ID",
        2,
        1,
    )
    assert len(handle_of(got).split(" ")) == 9
    waiting = calls.start("ReceiveMessage", receive_request("t", "g"))
    running.turn(5_001)
    assert answer_of(waiting) == (Code.MESSAGE_NOT_FOUND, [])
    assert calls.ack("t", "g", handle_of(got)) == (Code.OK, [Code.OK])
    running.turn(60_000)
    waiting = calls.start("ReceiveMessage", receive_request("t", "g"))
    running.turn(5_001)
    assert answer_of(waiting)[0] == Code.MESSAGE_NOT_FOUND


def test_messages_of_a_pop_are_acknowledged_together_and_each_has_its_status(running: InProcess, calls: Calls) -> None:
    calls.consume("t", "g")
    for number in range(8):
        calls.send(new_message("t", b"%d" % number))
    handles = [handle_of(message) for message in calls.receive("t", "g")[1]]
    assert len(handles) == 8
    far = [handles[0].rsplit(" ", 2)[0] + f" {offset} 0" for offset in (9, 1 << 40, -1)]
    odd = [f"{start} {handle.partition(' ')[2]}" for start in (-5, 1 << 70) for handle in handles[:2]]
    with mock.patch.object(running.services.pop.acks, "ack", wraps=running.services.pop.acks.ack) as alone:
        code, found = calls.ack("t", "g", *handles[:6], *far, "no handle")
        assert alone.call_count == 2  # of the handles that are too far away
        assert calls.ack("t", "g", *odd)[0] == Code.OK
        assert alone.call_count == 6
    wrong = Code.INTERNAL_SERVER_ERROR
    assert (code, found) == (
        Code.MULTIPLE_RESULTS, [*[Code.OK] * 6, wrong, wrong, wrong, Code.INVALID_RECEIPT_HANDLE],
    )  # fmt: skip
    near = handles[7].rsplit(" ", 2)[0] + " 77 0"
    assert calls.ack("t", "g", handles[6], handles[7], near) == (Code.MULTIPLE_RESULTS, [Code.OK, Code.OK, wrong])
    running.turn(60_000)
    waiting = calls.start("ReceiveMessage", receive_request("t", "g"))
    running.turn(5_001)
    assert answer_of(waiting)[0] == Code.MESSAGE_NOT_FOUND


def test_a_call_that_waits_is_answered_by_the_next_message_unless_it_was_cancelled(
    running: InProcess, calls: Calls
) -> None:
    calls.consume("t", "g")
    cancelled = calls.start("ReceiveMessage", receive_request("t", "g"))
    waiting = calls.start("ReceiveMessage", receive_request("t", "g"))
    cancelled.call.cancelled()
    calls.send(new_message("t", b"now"))
    running.turn()
    running.turn(5_001)
    assert cancelled.carrier.messages == []
    code, [got] = answer_of(waiting)
    assert (code, got.body) == (Code.OK, b"now")


def test_a_message_that_was_not_acknowledged_comes_again(running: InProcess, calls: Calls) -> None:
    calls.consume("t", "g")
    calls.send(new_message("t", b"again"))
    [first] = calls.receive("t", "g")[1]
    answer = change(calls, handle_of(first), 20)
    assert code_of(answer) == Code.OK
    assert code_of(change(calls, handle_of(first), 20)) == Code.INVALID_RECEIPT_HANDLE
    newest = change(calls, answer.receipt_handle, 30)
    assert code_of(newest) == Code.OK
    for _ in range(40):
        running.turn(1_000)
    assert calls.ack("t", "g", newest.receipt_handle) == (Code.INVALID_RECEIPT_HANDLE, [Code.INVALID_RECEIPT_HANDLE])
    [second] = calls.receive("t", "g")[1]
    assert second.system_properties is not None
    assert (second.body, second.system_properties.delivery_attempt) == (b"again", 2)
    assert calls.ack("t", "g", handle_of(second)) == (Code.OK, [Code.OK])
    assert code_of(change(calls, handle_of(second), 20)) == Code.INVALID_RECEIPT_HANDLE


@pytest.mark.parametrize("seconds", [-1, 43_201])
def test_an_invisible_time_has_limits(calls: Calls, seconds: int) -> None:
    calls.consume("t", "g")
    calls.send(new_message("t"))
    [got] = calls.receive("t", "g")[1]
    assert code_of(change(calls, handle_of(got), seconds)) == Code.ILLEGAL_INVISIBLE_TIME
    for wanted in (9, 43_201):
        assert calls.receive("t", "g", invisible=wanted) == (Code.ILLEGAL_INVISIBLE_TIME, [])


def test_a_busy_broker_leaves_the_old_handle(running: InProcess, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    calls.consume("t", "g")
    calls.send(new_message("t"))
    [got] = calls.receive("t", "g")[1]
    monkeypatch.setattr(running.dispatcher, "call", lambda *_: Reply(ResponseCode.SYSTEM_BUSY))
    answer = change(calls, handle_of(got), 20)
    assert (code_of(answer), answer.receipt_handle) == (Code.TOO_MANY_REQUESTS, handle_of(got))


def test_handles_are_judged_one_by_one(calls: Calls) -> None:
    calls.consume("t", "g")
    calls.send(new_message("t"))
    [got] = calls.receive("t", "g")[1]
    words = handle_of(got).split(" ")
    bad = [
        "",
        "x",
        " ".join(words[:7]),
        " ".join([*words[:4], "3", *words[5:]]),
        " ".join([*words[:5], "other", *words[6:]]),
        " ".join([*words[:8], "-2"]),
        " ".join([*words[:8], str(1 << 63)]),
    ]
    assert calls.ack("t", "g", *bad, handle_of(got)) == (
        Code.MULTIPLE_RESULTS,
        [Code.INVALID_RECEIPT_HANDLE] * 7 + [Code.OK],
    )
    assert calls.ack("t", "g", *bad)[0] == Code.INVALID_RECEIPT_HANDLE
    assert calls.ack("t", "g") == (Code.BAD_REQUEST, [])


def test_tags_are_compared_as_text_and_expressions_checked(calls: Calls) -> None:
    calls.consume("t", "g")
    calls.send(new_message("t", b"1", tag="Aa"))
    calls.send(new_message("t", b"2", tag="BB"))  # the same hash
    code, messages = calls.receive("t", "g", expression="Aa || C")
    assert (code, [one.body for one in messages]) == (Code.OK, [b"1"])
    assert calls.receive("t", "other", kind=2, expression="a >")[0] == Code.ILLEGAL_FILTER_EXPRESSION


def test_a_message_with_another_tag_only_is_no_message(running: InProcess, calls: Calls) -> None:
    calls.consume("t", "g")
    calls.send(new_message("t", b"2", tag="BB"))
    assert calls.receive("t", "g", expression="Aa") == (Code.MESSAGE_NOT_FOUND, [])


def test_a_group_in_order_waits_for_its_messages(running: InProcess, calls: Calls) -> None:
    calls.consume("fifo", "orderly")
    for body in (b"1", b"2"):
        calls.send(new_message("fifo", body, message_group="g"))
    request = receive_request("fifo", "orderly", queue=0)
    request.batch_size = 1
    code, [first] = answer_of(calls.start("ReceiveMessage", request))
    assert (code, first.body) == (Code.OK, b"1")
    waiting = calls.start("ReceiveMessage", request)
    assert waiting.carrier.end is None
    changed = change(calls, handle_of(first), 20, "fifo", "orderly")
    assert calls.ack("fifo", "orderly", changed.receipt_handle) == (Code.OK, [Code.OK])
    running.turn(20)
    assert [one.body for one in answer_of(waiting)[1]] == [b"2"]


def dead_letters(running: InProcess, group: str) -> list[bytes]:
    found = running.services.store.get(f"%DLQ%{group}", 0, 0, 32)
    return [one.body for one in stored_messages(bytes(found.body))]


def test_a_message_is_forwarded_to_the_dead_letters(running: InProcess, calls: Calls) -> None:
    calls.consume("t", "g")
    calls.send(new_message("t", b"bad"))
    [got] = calls.receive("t", "g")[1]
    request = ForwardMessageToDeadLetterQueueRequest(
        group=Resource(name="g"), topic=Resource(name="t"), receipt_handle=handle_of(got)
    )
    assert calls.code("ForwardMessageToDeadLetterQueue", request) == Code.OK
    assert dead_letters(running, "g") == [b"bad"]
    request.receipt_handle = " ".join([*handle_of(got).split(" ")[:8], "7777777"])
    assert calls.code("ForwardMessageToDeadLetterQueue", request) == Code.INTERNAL_SERVER_ERROR


def test_a_message_with_too_many_attempts_is_a_dead_letter(running: InProcess, calls: Calls) -> None:
    calls.consume("t", "once")
    calls.send(new_message("t", b"bad"))
    [got] = calls.receive("t", "once")[1]
    assert code_of(change(calls, handle_of(got), 0, group="once")) == Code.OK
    for _ in range(5):
        running.turn(1_000)
    assert calls.receive("t", "once") == (Code.MESSAGE_NOT_FOUND, [])
    assert dead_letters(running, "once") == [b"bad"]


def test_what_a_receive_needs(running: InProcess, calls: Calls) -> None:
    calls.consume("t", "g")
    assert calls.receive("absent", "g")[0] == Code.TOPIC_NOT_FOUND
    running.services.topics.put([TopicConfig(topic_name="write", perm=2)])
    assert calls.receive("write", "g")[0] == Code.FORBIDDEN
    assert calls.receive("t", "a b")[0] == Code.ILLEGAL_CONSUMER_GROUP
    assert calls.receive("a b", "g")[0] == Code.ILLEGAL_TOPIC
    late = calls.start("ReceiveMessage", receive_request("t", "g"), monotonic() + 4)
    [answer] = late.received(StatusResponse)
    assert answer.status is not None
    assert answer.status.code == Code.ILLEGAL_POLLING_TIME


def test_a_push_consumer_without_a_stream_gets_nothing(calls: Calls) -> None:
    stream = calls.consume("t", "g", kind=ClientType.PUSH_CONSUMER)
    calls.send(new_message("t"))
    stream.call.cancelled()
    assert calls.receive("t", "g", auto_renew=True) == (Code.MESSAGE_NOT_FOUND, [])


def test_damaged_answers_are_told(running: InProcess, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    calls.consume("t", "g")
    calls.send(new_message("t"))
    call = running.dispatcher.call

    def damaged(request: Request, *more: Any) -> Reply | None:
        reply = call(request, *more)
        assert reply is not None
        reply.body = b"x" * 99
        return reply

    monkeypatch.setattr(running.dispatcher, "call", damaged)
    assert calls.receive("t", "g") == (Code.INTERNAL_SERVER_ERROR, [])


async def until(holds: Callable[[], bool]) -> None:
    """Let the event loop turn until something holds."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - there is no event: the call is the test's own
            await asyncio.sleep(0)


def test_a_client_that_sends_no_settings_again_gets_messages(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart of its broker, for instance: Apache's client for Python sends them every five minutes."""
    monkeypatch.setattr("rocketmq_py.grpc.sessions.WAIT_SECONDS", 0.01)

    async def receive() -> None:
        calls.client_id = "unannounced"
        for body in (b"first", b"second"):
            calls.send(new_message("t", body))
            stream = calls.start("ReceiveMessage", receive_request("t", "g"))
            if body == b"first":
                await until(lambda stream=stream: stream.carrier.end is not None)  # type: ignore[misc]
            assert [one.body for one in answer_of(stream)[1]] == [body]

    asyncio.run(receive())


def test_a_call_that_ends_while_settings_are_awaited_is_forgotten(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rocketmq_py.grpc.sessions.WAIT_SECONDS", 0.01)

    async def receive() -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        calls.client_id = "unannounced"
        gone = calls.start("ReceiveMessage", receive_request("t", "g"))
        gone.call.cancelled()
        stays = calls.start("ReceiveMessage", receive_request("t", "g"))
        calls.send(new_message("t", b"one"))
        await until(lambda: stays.carrier.end is not None)
        assert gone.carrier.messages == []
        assert faults == []

    asyncio.run(receive())


def test_a_call_waits_for_the_settings_of_its_client(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketmq_py.grpc.sessions.WAIT_SECONDS", 0.01)

    async def receive() -> None:
        calls.send(new_message("t", b"early"))
        early = calls.start("ReceiveMessage", receive_request("t", "g"))
        other = calls.start("ReceiveMessage", receive_request("t", "g", invisible=1))
        gone = calls.start("ReceiveMessage", receive_request("t", "g"))
        gone.call.cancelled()
        calls.consume("t", "g")
        await until(lambda: early.carrier.end is not None and other.carrier.end is not None)
        assert [one.body for one in answer_of(early)[1]] == [b"early"]
        assert answer_of(other)[0] == Code.ILLEGAL_INVISIBLE_TIME
        assert gone.carrier.messages == []
        calls.client_id = "never"
        never = calls.start("ReceiveMessage", receive_request("t", "g", auto_renew=True))
        await until(lambda: never.carrier.end is not None)
        [answer] = never.received(ReceiveMessageResponse)
        assert answer.status is not None
        assert answer.status.code == Code.UNRECOGNIZED_CLIENT_TYPE

    asyncio.run(receive())
