"""Frames of a read in, buffers out: order, settling, errors, holds, lanes. No sockets."""

import asyncio
import logging

import pytest

from rocketmq_py.errors import BrokerError, ConnectionLost, MessageIllegal, StoreNotWritable
from rocketmq_py.protocol import requests as requests_module
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.offset import OffsetResponse
from rocketmq_py.server import Hold, LaneLimit, Peer, Reply, Router, handles
from rocketmq_py.server.requests import dispatcher as dispatch, dispatcher as dispatcher_module
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.server.requests.lanes import Lane
from rocketmq_py.server.sliced_work import SpareTime
from rocketmq_py.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import JSON, ROCKETMQ, FrameDecoder, encode_frame

QUEUE = {"topic": "t", "queueId": "3"}


class Handlers:
    def __init__(self):
        self.calls = []
        self.gate = asyncio.Event()
        self.error = None

    @handles(Code.GET_MAX_OFFSET)
    def echo(self, peer, request, body):
        self.calls.append((request.header.queue_id, body))
        return Reply(header=OffsetResponse(offset=request.header.queue_id), body=body)

    @handles(Code.GET_MIN_OFFSET)
    def fail(self, peer, request, body):
        raise self.error

    @handles(Code.QUERY_CONSUMER_OFFSET)
    def silent(self, peer, request, body):
        return None

    @handles(Code.PULL_MESSAGE)
    def hold(self, peer, request, body):
        return Hold(("t", 3), 1_000, payload=body)

    @handles(Code.QUERY_MESSAGE, lane="slow")
    async def slow(self, peer, request, body):
        try:
            await self.gate.wait()
        finally:
            self.calls.append(("ended", body))
        if self.error is not None:
            raise self.error
        return Reply(body=body)


def decode(data: bytes) -> list[Command]:
    return [decode_command(frame) for frame in FrameDecoder().feed(data)]


class Harness:
    """A dispatcher, one peer, and the answers as commands."""

    def __init__(self, **options):
        self.handlers = Handlers()
        self.log = []
        self.holds = []
        options.setdefault("after_read", lambda: self.log.append("settled"))
        self.dispatcher = Dispatcher(Router(self.handlers), on_hold=self._hold, **options)
        self.pushed = []
        self.peer = Peer(("10.0.0.9", 5), ("10.0.0.1", 10911), self.pushed.append)

    def _hold(self, hold, responder):
        self.holds.append((hold, responder))

    def serve(self, *commands, data=b""):
        frames = FrameDecoder().feed(b"".join(map(encode_command, commands)) + data)
        self.served = self.dispatcher.serve(self.peer, frames)
        return decode(b"".join(self.served.output))

    def ask(self, code, ext=None, **fields):
        (answer,) = self.serve(Command(code, ext=ext or {}, **fields))
        return answer

    @property
    def later(self):
        return decode(b"".join(self.pushed))


def test_requests_of_one_read_are_answered_in_order_after_one_commit():
    harness = Harness()
    requests = [Command(30, opaque=n, ext={"topic": "t", "queueId": str(n)}, body=b"%d" % n) for n in range(20)]
    answers = harness.serve(*requests)
    assert [(answer.opaque, answer.ext["offset"], answer.body) for answer in answers] == [
        (n, str(n), b"%d" % n) for n in range(20)
    ]
    assert harness.log == ["settled"]


def test_a_binary_header_is_answered_in_json():
    harness = Harness()
    answers = harness.serve(data=encode_command(Command(30, opaque=4, ext=QUEUE), ROCKETMQ))
    assert [(answer.opaque, answer.ext) for answer in answers] == [(4, {"offset": "3"})]
    (frame,) = FrameDecoder().feed(b"".join(harness.served.output))
    assert frame.serialize_type == JSON


def test_answers_are_encoded_after_the_commit():
    harness = Harness(after_read=lambda: setattr(reply.header, "offset", 99))
    reply = Reply(header=OffsetResponse(offset=-1))
    harness.handlers.error = None
    harness.dispatcher._routes[30] = harness.dispatcher._routes[30]._replace(method=lambda *_: reply)
    assert harness.ask(30, QUEUE).ext == {"offset": "99"}


def test_a_failed_commit_makes_no_answer_a_success():
    def settle():
        raise StoreNotWritable("the disk is full")

    harness = Harness(after_read=settle)
    answers = harness.serve(Command(30, opaque=1, ext=QUEUE), Command(30, opaque=2, ext=QUEUE))
    assert [(answer.opaque, answer.code, answer.remark) for answer in answers] == [
        (1, 14, "the disk is full"), (2, 14, "the disk is full"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (BrokerError(17, "no such topic"), 17, "no such topic"),
        (MessageIllegal("too long"), 13, "too long"),
        (StoreNotWritable("closing"), 14, "closing"),
        (ZeroDivisionError("division by zero"), 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_an_error_of_a_handler_becomes_an_answer(error, code, remark):
    harness = Harness()
    harness.handlers.error = error
    answer = harness.ask(31, QUEUE)
    assert (answer.code, answer.remark) == (code, remark)


def test_only_an_unexpected_error_is_logged(caplog):
    harness = Harness()
    for error in (BrokerError(17, "no such topic"), KeyError("x")):
        harness.handlers.error = error
        harness.ask(31, QUEUE)
    assert [record.getMessage() for record in caplog.records] == ["GET_MIN_OFFSET of 10.0.0.9:5 failed"]
    assert caplog.records[0].exc_info[0] is KeyError


def test_an_unknown_code_is_answered_in_java_s_words():
    answer = Harness().ask(9999, QUEUE, opaque=6)
    assert (answer.opaque, answer.code, answer.remark) == (6, 3, " request type 9999 not supported")


def test_a_missing_field_is_named():
    answer = Harness().ask(30, {"topic": "t"}, opaque=8)
    assert (answer.opaque, answer.code) == (8, 1)
    assert "queueId" in answer.remark


def test_a_field_of_the_wrong_type_is_named_and_the_next_request_is_served():
    harness = Harness()
    answers = harness.serve(Command(30, opaque=1, ext={"topic": "t", "queueId": "x"}), Command(30, opaque=2, ext=QUEUE))
    assert [answer.code for answer in answers] == [1, 0]
    assert "queueId" in answers[0].remark


@pytest.mark.parametrize("ext", [QUEUE, {}], ids=["good", "bad"])
@pytest.mark.parametrize("code", [30, 31, 9999])
def test_a_oneway_request_is_never_answered(code, ext, caplog):
    harness = Harness()
    harness.handlers.error = KeyError("x")
    caplog.set_level(logging.CRITICAL, "rocketmq_py.server")
    assert harness.serve(Command(code, flag=ONEWAY_FLAG, ext=ext)) == []
    assert harness.log == ["settled"]


def test_a_handler_may_return_no_answer():
    assert Harness().serve(Command(14, ext={"consumerGroup": "g", **QUEUE})) == []


def test_a_corrupt_header_ends_the_read_after_earlier_requests():
    harness = Harness()
    answers = harness.serve(Command(30, opaque=1, ext=QUEUE), data=encode_frame(b"no header") + encode_frame(b"{}"))
    assert [answer.opaque for answer in answers] == [1]
    assert "cannot be understood" in str(harness.served.fault)
    assert harness.log == ["settled"]


def test_an_unknown_serialize_type_is_a_fault():
    harness = Harness()
    assert harness.serve(data=encode_frame(b"{}", serialize_type=9)) == []
    assert "unknown serialize type 9" in str(harness.served.fault)


# -- holds

PULL = {
    "consumerGroup": "g", "topic": "t", "queueId": "3", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "2",
    "commitOffset": "0", "suspendTimeoutMillis": "1000", "subVersion": "0",
}  # fmt: skip


def test_a_held_request_is_answered_once_and_later():
    harness = Harness()
    assert harness.serve(Command(11, opaque=5, ext=PULL, body=b"x")) == []
    ((hold, responder),) = harness.holds
    assert (hold.key, hold.deadline_ms, hold.payload, responder.alive) == (("t", 3), 1_000, b"x", True)
    responder.reply(Reply(19, "nothing"))
    responder.reply(Reply(0))
    assert [(answer.opaque, answer.code) for answer in harness.later] == [(5, 19)]
    assert not responder.alive


def test_a_held_request_of_a_lost_connection_is_not_answered():
    harness = Harness()
    harness.serve(Command(11, opaque=5, ext=PULL))
    ((_, responder),) = harness.holds
    harness.peer.lost()
    assert not responder.alive
    responder.reply(Reply())
    assert harness.later == []


def test_a_oneway_request_is_not_held():
    harness = Harness()
    harness.serve(Command(11, flag=ONEWAY_FLAG, ext=PULL))
    assert harness.holds == []


def test_a_hold_without_a_callback_is_answered_with_an_error():
    dispatcher = Dispatcher(Router(Handlers()))
    served = dispatcher.serve(Peer(), FrameDecoder().feed(encode_command(Command(11, ext=PULL))))
    (answer,) = decode(b"".join(served.output))
    assert answer.code == 1
    assert "on_hold" in answer.remark


# -- asynchronous handlers

KEY = {"topic": "t", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"}


def run_async(scenario, **options):
    async def main():
        return await scenario(Harness(**options))

    return asyncio.run(main())


def test_an_asynchronous_handler_does_not_delay_other_requests():
    async def scenario(harness):
        answers = harness.serve(Command(12, opaque=1, ext=KEY, body=b"slow"), Command(30, opaque=2, ext=QUEUE))
        assert [answer.opaque for answer in answers] == [2]
        harness.handlers.gate.set()
        await harness.dispatcher.drain(5)
        assert [(answer.opaque, answer.body) for answer in harness.later] == [(1, b"slow")]
        assert harness.log == ["settled", "settled"]

    run_async(scenario)


def test_a_full_lane_refuses_requests_until_it_has_room():
    async def scenario(harness):
        answers = harness.serve(*(Command(12, opaque=n, ext=KEY) for n in range(3)))
        assert [(answer.opaque, answer.code) for answer in answers] == [(2, 2)]
        assert answers[0].remark == "[OVERLOAD]system busy, start flow control for a while"
        harness.handlers.gate.set()
        await harness.dispatcher.drain(5)
        assert harness.serve(Command(12, opaque=9, ext=KEY)) == []
        await harness.dispatcher.drain(5)
        assert {answer.opaque for answer in harness.later} == {0, 1, 9}

    run_async(scenario, lanes={"slow": LaneLimit(in_flight=2)})


def test_a_full_lane_is_logged_once_until_it_has_been_empty(caplog):
    async def scenario(harness):
        full = ["2 requests of lane slow are being handled: more are refused as busy"]
        for times in (1, 2):
            harness.handlers.gate.clear()
            for _ in range(3):
                harness.serve(*(Command(12, opaque=n, ext=KEY) for n in range(4)))
            assert caplog.messages == full * times
            harness.handlers.gate.set()
            await harness.dispatcher.drain(5)
            assert not harness.dispatcher._tasks

    run_async(scenario, lanes={"slow": LaneLimit(in_flight=2)})


def test_a_lane_that_is_not_empty_is_not_logged_again(caplog):
    lane = Lane("slow", LaneLimit(in_flight=2))
    lane.running, lane.is_full_logged = 2, True
    logged = []
    for _ in range(2):
        lane.leave()
        logged.append((lane.running, lane.is_full_logged, lane.is_full))
    assert logged == [(1, True, False), (0, False, False)]
    lane.running = 2
    assert lane.is_full
    lane.leave()
    assert not lane.is_full_logged


def test_an_error_of_an_asynchronous_handler_becomes_an_answer():
    async def scenario(harness):
        harness.handlers.error = BrokerError(16, "forbidden")
        harness.handlers.gate.set()
        harness.serve(Command(12, opaque=1, ext=KEY))
        await harness.dispatcher.drain(5)
        assert [(answer.code, answer.remark) for answer in harness.later] == [(16, "forbidden")]

    run_async(scenario)


async def test_draining_waits_for_handlers_and_queued_requests_together():
    harness, loop = Harness(), asyncio.get_running_loop()
    harness.serve(Command(12, opaque=1, ext=KEY))
    loop.call_later(1.0, harness.handlers.gate.set)
    await harness.dispatcher.drain(5)
    assert [answer.opaque for answer in harness.later] == [1]


def test_draining_cancels_unfinished_handlers():
    async def scenario(harness):
        harness.serve(Command(12, opaque=1, ext=KEY))
        await asyncio.sleep(0)
        await harness.dispatcher.drain(0.01)
        assert harness.later == []
        assert harness.handlers.calls == [("ended", b"")]
        assert not harness.dispatcher._tasks
        assert harness.dispatcher.lanes["slow"].running == 0

    run_async(scenario)


# -- requests in slices


class SlicedHandlers:
    """Each request takes four of its clock's seconds."""

    def __init__(self):
        self.now = 0.0
        self.handled = []

    @handles(Code.GET_MAX_OFFSET, sliced=True, lane="slow")
    def sliced(self, peer, request, body):
        self.now += 4
        self.handled.append(body)
        if body == b"fail":
            raise BrokerError(16, "forbidden")
        return Reply(body=body)

    @handles(Code.GET_MIN_OFFSET)
    def quick(self, peer, request, body):
        self.handled.append(body)
        return Reply(body=body)


class SlicedHarness(Harness):
    def __init__(self, **options):
        super().__init__(**options)
        self.handlers = SlicedHandlers()
        spare_time = SpareTime(1.0, lambda: self.handlers.now)
        self.dispatcher = Dispatcher(Router(self.handlers), spare_time=spare_time, **options)


def ask_sliced(*bodies):
    return [Command(30, opaque=n, ext=QUEUE, body=body) for n, body in enumerate(bodies)]


def test_sliced_requests_beyond_their_share_do_not_delay_others():
    async def scenario(harness):
        others = Command(31, opaque=7, ext=QUEUE, body=b"quick")
        answers = harness.serve(*ask_sliced(b"a", b"b", b"fail", b"c"), others)
        assert [answer.opaque for answer in answers] == [0, 7]
        assert harness.handlers.handled == [b"a", b"quick"]
        await harness.dispatcher.drain(5)
        assert harness.handlers.handled[2:] == [b"b", b"fail", b"c"]
        assert [(answer.opaque, answer.code) for answer in harness.later] == [(1, 0), (2, 16), (3, 0)]

    asyncio.run(scenario(SlicedHarness()))


def test_a_queued_request_whose_connection_is_closed_is_dropped():
    async def scenario(harness):
        harness.serve(*ask_sliced(b"a", b"b", b"c"))
        harness.peer.lost()
        await harness.dispatcher.drain(5)
        assert harness.handlers.handled == [b"a"]
        assert harness.dispatcher.lanes["slow"].running == 0

    asyncio.run(scenario(SlicedHarness()))


def test_queued_requests_of_a_turn_end_with_its_time_budget():
    async def scenario(harness):
        harness.serve(*ask_sliced(*[b"%d" % number for number in range(100)]))
        assert harness.handlers.handled == [b"0"]
        harness.dispatcher._slices._clock = lambda: harness.handlers.now * 0.001
        turns = 0
        while len(harness.handlers.handled) < 100:
            before = len(harness.handlers.handled)
            await asyncio.sleep(0)
            turns += 1
            assert len(harness.handlers.handled) - before <= 3
        assert len(harness.later) == 99
        assert turns >= 33

    asyncio.run(scenario(SlicedHarness()))


def test_sliced_requests_that_wait_are_limited_by_their_lane():
    async def scenario(harness):
        answers = harness.serve(*ask_sliced(b"a", b"b", b"c", b"d"))
        assert [(answer.opaque, answer.code) for answer in answers] == [(0, 0), (3, 2)]
        await harness.dispatcher.drain(5)
        assert {answer.opaque for answer in harness.later} == {1, 2}

    asyncio.run(scenario(SlicedHarness(lanes={"slow": LaneLimit(in_flight=2)})))


# -- requests the other way

QUESTION = Command(Code.GET_CONSUMER_RUNNING_INFO, ext={"consumerGroup": "g"})


async def asked(harness) -> tuple[asyncio.Task, Command]:
    """A request made of the peer, and what the peer was sent."""
    task = asyncio.create_task(harness.peer.invoke(QUESTION, 5))
    await asyncio.sleep(0)
    return task, harness.later[-1]


def test_answers_of_the_peer_are_matched_while_its_requests_are_served():
    async def scenario(harness):
        task, question = await asked(harness)
        answer = Command(0, opaque=question.opaque, flag=RESPONSE_FLAG, body=b"info")
        answers = harness.serve(Command(30, opaque=question.opaque, ext=QUEUE), answer)
        assert [one.ext for one in answers] == [{"offset": "3"}]
        assert (await task).body == b"info"
        assert not harness.peer.calls

    run_async(scenario)


@pytest.mark.parametrize("code", [0, 1, 30, 9999])
def test_an_unexpected_answer_is_dropped(code):
    harness = Harness()
    assert harness.serve(Command(code, flag=RESPONSE_FLAG, opaque=77)) == []
    assert harness.handlers.calls == []


def test_open_requests_fail_with_a_lost_connection():
    async def scenario(harness):
        task, _ = await asked(harness)
        harness.peer.lost()
        with pytest.raises(ConnectionLost, match=r"10\.0\.0\.9:5 disconnected before it answered"):
            await task

    run_async(scenario)


def test_a_read_with_large_answers_is_served_in_parts():
    harness = Harness()
    requests = [Command(30, opaque=n, ext=QUEUE, body=b"x") for n in range(70)]
    answers = harness.serve(*requests)
    parts = [len(answers)]
    while harness.served.rest:
        harness.served = harness.dispatcher.serve(harness.peer, list(harness.served.rest))
        more = decode(b"".join(harness.served.output))
        parts.append(len(more))
        answers += more
    assert parts == [32, 32, 6]
    assert [answer.opaque for answer in answers] == list(range(70))


def test_answers_without_a_body_are_written_together():
    harness = Harness()
    assert len(harness.serve(*(Command(30, opaque=n, ext=QUEUE) for n in range(70)))) == 70


# -- authorization


def refuse_all(peer, command):
    del peer
    return Reply(ResponseCode.NO_PERMISSION, f"code {command.code}")


def raw(header, body=b""):
    return encode_frame(header, body)


DEEP = b"[" * 70 + b"]" * 70


def test_the_handler_gets_the_authorized_command():
    seen = []
    harness = Harness(authorize=lambda _, command: seen.append(command))
    answer = harness.ask(30, QUEUE, body=b"x", opaque=8)
    assert (answer.opaque, answer.ext) == (8, {"offset": "3"})
    ((command, calls),) = zip(seen, harness.handlers.calls, strict=True)
    assert (command.ext["queueId"], command.body) == ("3", b"x")
    assert calls == (3, b"x")


@pytest.mark.parametrize("header", [
    b'{"code":30,"opaque":7,"extFields":{"topic":"t","queueId":"3","x":"\xff","y":' + DEEP + b"}}",
    b'{"code":30,"opaque":7,"x":"\xff","y":' + DEEP + b',"extFields":{"topic":"t","queueId":"3"}}',
    b'{"code":30,"opaque":7,"language":"\xc2\xb2","extFields":{"topic":"t","queueId":"3"}}',
    b'{"code":1,"code":30,"opaque":7,"extFields":{"topic":"t","queueId":"3"}}',
])  # fmt: skip
def test_every_header_is_authorized(header):
    harness = Harness(authorize=refuse_all)
    (answer,) = harness.serve(data=raw(header))
    assert (answer.opaque, answer.code, answer.remark) == (7, ResponseCode.NO_PERMISSION, "code 30")
    assert harness.handlers.calls == []


@pytest.mark.parametrize("authorize", [None, refuse_all, lambda *_: None])
def test_a_corrupt_frame_ends_the_connection_before_authorization(authorize):
    harness = Harness(authorize=authorize)
    corrupt = raw(b'{"code":30,"extFields":{"topic":"t","queueId":"3"},"x":' + b"[" * 5000 + b"]" * 5000 + b"}")
    answers = harness.serve(Command(99_999, opaque=1), data=corrupt + encode_command(Command(30, ext=QUEUE)))
    assert [answer.opaque for answer in answers] == [1]
    assert harness.served.fault is not None
    assert harness.handlers.calls == []


def test_denied_requests_are_answered_in_order_and_oneway_ones_dropped(caplog):
    harness = Harness(authorize=lambda peer, command: refuse_all(peer, command) if command.opaque % 2 else None)
    requests = [Command(30, opaque=n, ext=QUEUE) for n in range(4)]
    answers = harness.serve(*requests, Command(30, opaque=5, ext=QUEUE, flag=ONEWAY_FLAG))
    assert [(answer.opaque, answer.code) for answer in answers] == [(0, 0), (1, 16), (2, 0), (3, 16)]
    assert caplog.messages == ["one-way request 30 of 10.0.0.9:5 is dropped: code 30"]


def test_a_request_is_authorized_once_although_its_answer_waits():
    seen = []
    harness = Harness(authorize=lambda _, command: seen.append(command.opaque))
    harness.serve(*(Command(30, opaque=n, ext=QUEUE, body=b"x") for n in range(40)))
    assert seen == list(range(32))
    harness.dispatcher.serve(harness.peer, list(harness.served.rest))
    assert seen == list(range(40))


async def test_requests_are_authorized_while_answers_are_pending():
    harness = Harness(authorize=refuse_all)
    waiter = asyncio.ensure_future(harness.peer.invoke(Command(39), 60))
    await asyncio.sleep(0)
    assert harness.ask(30, QUEUE).code == ResponseCode.NO_PERMISSION
    assert harness.serve(Command(0, opaque=0, flag=RESPONSE_FLAG, remark="mine")) == []
    assert (await waiter).remark == "mine"


@pytest.mark.parametrize("authorize", [None, lambda *_: None])
def test_a_request_with_refused_fields_is_decoded_once(authorize, monkeypatch):
    decoded = []
    for place in (dispatch, requests_module):
        monkeypatch.setattr(place, "decode_command", lambda frame: decoded.append(frame) or decode_command(frame))
    harness = Harness(authorize=authorize)
    answer = harness.ask(30, {"topic": "t"}, opaque=6)
    assert (answer.opaque, answer.code) == (6, ResponseCode.SYSTEM_ERROR)
    assert "missing required field `queueId`" in answer.remark
    assert len(decoded) == 1


# -- many requests in one read


def test_a_long_read_continues_in_the_next_loop_turn(monkeypatch):
    time = [0.0]

    def tick():
        time[0] += 0.004  # each look at the clock comes after some work
        return time[0]

    monkeypatch.setattr(dispatcher_module, "monotonic", tick)
    harness = Harness()
    requests = [Command(30, opaque=n, ext={"topic": "t", "queueId": str(n)}) for n in range(20)]
    seen = [answer.opaque for answer in harness.serve(*requests)]
    assert 0 < len(seen) < 20
    while harness.served.rest:
        harness.served = harness.dispatcher.serve(harness.peer, list(harness.served.rest))
        seen += [answer.opaque for answer in decode(b"".join(harness.served.output))]
    assert seen == list(range(20))


def test_a_long_handler_is_named_with_its_request_and_its_peer(monkeypatch):
    time = [0.0]
    monkeypatch.setattr(dispatcher_module, "monotonic", lambda: time[0])
    harness = Harness()

    def long(*_):
        time[0] += 0.3
        return Reply()

    harness.dispatcher._routes[30] = harness.dispatcher._routes[30]._replace(method=long)
    harness.serve(Command(30, ext=QUEUE), Command(30, ext=QUEUE))
    assert len(harness.served.rest) == 1
    harness.dispatcher.slow_turns.turn_ended(0.3, 0.3)
    assert harness.dispatcher.slow_turns.longest_name == "GET_MAX_OFFSET (30) of 10.0.0.9:5"


def test_a_short_read_is_not_named(monkeypatch):
    monkeypatch.setattr(dispatcher_module, "monotonic", lambda: 0.0)
    harness, noted = Harness(), []
    monkeypatch.setattr(harness.dispatcher.slow_turns, "note", lambda *note: noted.append(note))
    harness.serve(Command(30, ext=QUEUE))
    assert noted == []


def test_a_long_commit_is_named(monkeypatch):
    time = [0.0]
    monkeypatch.setattr(dispatcher_module, "monotonic", lambda: time[0])
    harness = Harness(after_read=lambda: time.__setitem__(0, 0.2))
    harness.serve(Command(30, ext=QUEUE))
    harness.dispatcher.slow_turns.turn_ended(0.2, 0.2)
    assert harness.dispatcher.slow_turns.longest_name == "storing the messages of 1 requests of 10.0.0.9:5"
