"""Requests that came by another protocol: handled like those of remoting, answered once what they stored is durable."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.core.metrics.counters import RpcLatency
from rocketmq_py.errors import BrokerError, StoreNotWritable
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import LaneLimit, Reply
from rocketmq_py.server.peer import Responder
from rocketmq_py.wire.command import Command
from tests.unit.server.requests.test_dispatcher import QUEUE, Harness


class Caller(Responder):
    """Keeps the replies that come later."""

    __slots__ = ("replies",)

    def __init__(self, harness: Harness) -> None:
        super().__init__(harness.peer, 7)
        self.replies: list[Reply] = []

    def reply(self, reply: Reply) -> None:
        self.replies.append(reply)


def request(harness: Harness, code: int, **fields: str) -> Request:
    return harness.dispatcher._decoder.convert(Command(code, opaque=7, ext=fields))


def call(harness: Harness, code: int, body: bytes = b"", **fields: str) -> tuple[Reply | None, Caller]:
    caller = Caller(harness)
    return harness.dispatcher.call(request(harness, code, **fields), body, caller), caller


def test_a_call_is_answered_at_once_and_stored_by_the_end_of_the_read() -> None:
    harness = Harness()
    reply, caller = call(harness, Code.GET_MAX_OFFSET, b"x", **QUEUE)
    assert reply is not None
    assert (reply.code, reply.header.offset, reply.body, caller.replies) == (0, 3, b"x", [])
    assert harness.handlers.calls == [(3, b"x")]
    assert harness.log == []
    assert harness.dispatcher.finish_read() is None
    assert harness.log == ["settled"]
    nothing, _ = call(harness, Code.QUERY_CONSUMER_OFFSET, consumerGroup="g", **QUEUE)
    assert nothing == Reply()


def test_a_call_of_an_unknown_code_is_refused() -> None:
    reply, _ = call(Harness(), 9999)
    assert reply is not None
    assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize(("error", "code"), [
    (BrokerError(ResponseCode.TOPIC_NOT_EXIST, "no topic"), ResponseCode.TOPIC_NOT_EXIST),
    (ZeroDivisionError(), ResponseCode.SYSTEM_ERROR),
])  # fmt: skip
def test_a_failed_call_has_the_reply_of_remoting(error: Exception, code: int) -> None:
    harness = Harness()
    harness.handlers.error = error
    reply, _ = call(harness, Code.GET_MIN_OFFSET, **QUEUE)
    assert reply is not None
    assert reply.code == code


def test_a_call_that_waits_is_held_for_its_caller() -> None:
    harness = Harness()
    fields = {
        "consumerGroup": "g", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "0", "commitOffset": "0",
        "suspendTimeoutMillis": "1", "subVersion": "0", **QUEUE,
    }  # fmt: skip
    reply, caller = call(harness, Code.PULL_MESSAGE, b"held", **fields)
    assert reply is None
    [(hold, responder)] = harness.holds
    assert (hold.payload, responder) == (b"held", caller)


def query(harness: Harness, body: bytes) -> tuple[Reply | None, Caller]:
    fields = {"topic": "t", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"}
    return call(harness, Code.QUERY_MESSAGE, body, **fields)


@pytest.mark.parametrize(("error", "code"), [
    (None, ResponseCode.SUCCESS),
    (BrokerError(ResponseCode.NO_PERMISSION, "no"), ResponseCode.NO_PERMISSION),
])  # fmt: skip
def test_an_asynchronous_call_is_answered_when_its_handler_ends(error: Exception | None, code: int) -> None:
    async def scenario() -> None:
        harness = Harness()
        harness.handlers.error = error
        reply, caller = query(harness, b"later")
        assert reply is None
        await asyncio.sleep(0)
        assert caller.replies == []
        harness.handlers.gate.set()
        await harness.dispatcher.drain(5)
        assert [one.code for one in caller.replies] == [code]
        assert harness.log == ["settled"]

    asyncio.run(scenario())


def test_calls_beyond_a_lane_are_refused_as_busy_and_leave_it_when_they_end() -> None:
    async def scenario() -> None:
        harness = Harness(lanes={"slow": LaneLimit(1, 0)})
        _, first = query(harness, b"1")
        refused, _ = query(harness, b"2")
        assert refused is not None
        assert refused.code == ResponseCode.SYSTEM_BUSY
        harness.handlers.gate.set()
        await harness.dispatcher.drain(5)
        assert [one.code for one in first.replies] == [0]
        assert query(harness, b"3")[0] is None
        await harness.dispatcher.drain(5)

    asyncio.run(scenario())


def test_what_could_not_be_stored_is_no_success() -> None:
    def settle() -> None:
        raise StoreNotWritable("the disk is full")

    async def scenario() -> None:
        harness = Harness(after_read=settle)
        failed = harness.dispatcher.finish_read()
        assert failed is not None
        assert failed.code != 0
        assert "the disk is full" in str(failed.remark)
        harness.handlers.gate.set()
        _, caller = query(harness, b"x")
        await harness.dispatcher.drain(5)
        assert [one.code for one in caller.replies] == [failed.code]

    asyncio.run(scenario())
    assert Harness(after_read=None).dispatcher.finish_read() is None


def test_calls_are_counted_with_requests_of_remoting() -> None:
    harness = Harness()
    latency = harness.dispatcher.latency = RpcLatency()
    call(harness, Code.GET_MAX_OFFSET, **QUEUE)
    harness.handlers.error = BrokerError(ResponseCode.NO_PERMISSION, "no")
    call(harness, Code.GET_MIN_OFFSET, **QUEUE)
    assert {(key.request, key.response) for key in latency.spans} == {
        (int(Code.GET_MAX_OFFSET), 0), (int(Code.GET_MIN_OFFSET), int(ResponseCode.NO_PERMISSION)),
    }  # fmt: skip
