"""Many sends of one read: handled together where a handler takes them, otherwise one by one, answered in order."""

from types import SimpleNamespace

import pytest

from rocketmq_py.core.metrics.counters import RpcKey, RpcLatency
from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.server import Hold, Peer, Reply, Router, RunHold, RunReply, encode_reply, handles, handles_runs
from rocketmq_py.server.requests import dispatcher as module
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.wire.command import ONEWAY_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import Frame, FrameDecoder, RunDecoder

FIELDS = {"a": "g", "b": "t", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}


def frame(opaque, code=Code.SEND_MESSAGE_V2, flag=0, **more):
    (found,) = FrameDecoder().feed(encode_command(Command(code, opaque, flag, ext={**FIELDS, **more})))
    return found


class Run:
    """Sends as the accelerator combines them; ``together``: how many a handler takes at each index."""

    def __init__(self, frames, together=()):
        self.frames, self.together = frames, dict(together)

    def __len__(self):
        return len(self.frames)

    def frame(self, number):
        found = self.frames[number]
        return found.serialize_type, found.header, found.body


def run_of(*opaques, together=(), flag=0):
    return Run([frame(opaque, flag=flag) for opaque in opaques], together)


class Handlers:
    """Answers sends that it takes together with code 10, single ones with code 11."""

    def __init__(self):
        self.calls = []

    @handles(Code.SEND_MESSAGE_V2, lane="send")
    def send(self, peer, request, body):
        self.calls.append(("single", request.opaque))
        return Reply(11)

    @handles_runs(Code.SEND_MESSAGE_V2)
    def send_together(self, peer, run, begin):
        self.calls.append((peer.address, begin))
        count = run.together.get(begin)
        if count is None:
            return None
        opaques = [decode_command(one).opaque for one in run.frames[begin : begin + count]]
        frames = b"".join(encode_reply(Reply(10), opaque) for opaque in opaques)
        return RunReply(begin + count, lambda: opaques, lambda: frames)


class OnlySingle:
    @handles(Code.SEND_MESSAGE_V2, lane="send")
    def send(self, peer, request, body):
        return Reply(11)


PEER = Peer(("10.0.0.9", 5))


def serve(dispatcher, *items):
    served = dispatcher.serve(PEER, items)
    answers = [decode_command(one) for one in FrameDecoder().feed(b"".join(served.output))]
    return [(answer.opaque, answer.code) for answer in answers]


def test_sends_are_answered_in_order_together_or_one_by_one():
    handlers, commits = Handlers(), []
    dispatcher = Dispatcher(Router(handlers), after_read=lambda: commits.append(len(handlers.calls)))
    run = run_of(1, 2, 3, 4, 5, together={0: 2, 3: 1})
    answers = serve(dispatcher, frame(0), run, frame(6), run_of(), run_of(7, together={0: 1}), frame(8))
    assert answers == [(0, 11), (1, 10), (2, 10), (3, 11), (4, 10), (5, 11), (6, 11), (7, 10), (8, 11)]
    at = "10.0.0.9:5"
    assert handlers.calls == [
        ("single", 0), (at, 0), (at, 2), ("single", 3), (at, 3), (at, 4), ("single", 5), ("single", 6), (at, 0),
        ("single", 8),
    ]  # fmt: skip
    assert commits == [10]


def test_a_run_of_which_nothing_is_taken_is_offered_less_and_less_often():
    """Each offer looks at the kinds of all sends, so first sends to 64 queues would look at 64 times 64."""
    handlers = Handlers()
    dispatcher = Dispatcher(Router(handlers))
    answers = serve(dispatcher, run_of(*range(20), together={7: 3, 11: 1}))
    taken = {7, 8, 9, 11}
    assert answers == [(number, 10 if number in taken else 11) for number in range(20)]
    offered = [begin for who, begin in handlers.calls if who != "single"]
    assert offered == [0, 1, 3, 7, 10, 11, 12, 13, 15, 19], "from the beginning after some were taken"


def test_runs_of_one_read_share_its_time(monkeypatch):
    now = [0.0]

    class Slow(Handlers):
        @handles(Code.SEND_MESSAGE_V2, lane="send")
        def send(self, peer, request, body):
            now[0] += module.SLICE_SECONDS / 4
            return super().send(peer, request, body)

    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    dispatcher = Dispatcher(Router(Slow()))
    runs = [run_of(1, 2), run_of(3, 4), run_of(5, 6), run_of(7)]
    served = dispatcher.serve(PEER, runs)
    assert len(FrameDecoder().feed(b"".join(served.output))) == 6
    assert served.rest == runs[3:]
    served = dispatcher.serve(PEER, served.rest)
    assert len(FrameDecoder().feed(b"".join(served.output))) == 1
    assert served.rest == []


def test_every_send_of_a_run_that_is_not_stored_is_answered_with_the_error():
    def settle():
        raise StoreNotWritable("the disk is full")

    dispatcher = Dispatcher(Router(Handlers()), after_read=settle)
    run = run_of(1, 2, 3, together={0: 2})
    assert serve(dispatcher, run) == [(1, 14), (2, 14), (3, 14)]


def test_sends_are_handled_one_by_one_where_nobody_takes_them_together():
    one_way = run_of(3, flag=ONEWAY_FLAG)
    for handlers, code in (((OnlySingle(),), 11), ((), 3)):
        dispatcher = Dispatcher(Router(*handlers), authorize_run=lambda *_: pytest.fail("there is nothing to verify"))
        assert serve(dispatcher, run_of(1, 2), one_way) == [(1, code), (2, code)]
    dispatcher = Dispatcher(Router(Handlers()))
    dispatcher.refuse({"send": "busy"})
    assert serve(dispatcher, run_of(1, 2, together={0: 2}), one_way) == [(1, 2), (2, 2)]
    assert dispatcher.refused == 3


def test_sends_that_are_not_verified_are_authorized_one_by_one():
    asked, seen = [], []

    def authorize_run(peer, run):
        asked.append((peer, run))
        return Run(run.frames, {0: 1})  # the second and the third were not verified

    def authorize(peer, command):
        seen.append((peer, command.opaque))
        return Reply(16) if command.opaque == 3 else None

    dispatcher = Dispatcher(Router(Handlers()), authorize=authorize, authorize_run=authorize_run)
    run = run_of(1, 2, 3, together={0: 3})
    assert serve(dispatcher, run) == [(1, 10), (2, 11), (3, 16)]
    assert asked == [(PEER, run)]
    assert seen == [(PEER, 2), (PEER, 3)]


def test_sends_are_combined_where_the_accelerator_is_and_runs_are_taken_and_authorized(monkeypatch):
    class Accelerator:
        def cut_read(self, data, max_frame, make, overtaken, telling):
            return [max_frame, make, overtaken, telling], len(data), 8, None

        def TellingProperties(self, by_value, by_presence):  # noqa: N802 - a class
            assert {"TAGS", "DELAY", "UNIQ_KEY", "KEYS", "TRAN_MSG", "PGROUP", "WAIT"} <= set(by_value)
            assert by_presence == ["__SHARDINGKEY"]
            return "telling"

    def admit(*_):
        return None

    accelerator = Accelerator()
    cases = [
        (accelerator, Handlers(), {}, RunDecoder),
        (accelerator, Handlers(), {"authorize": admit, "authorize_run": admit}, RunDecoder),
        (accelerator, Handlers(), {"authorize": admit}, FrameDecoder),
        (accelerator, OnlySingle(), {}, FrameDecoder),
        (None, Handlers(), {}, FrameDecoder),
    ]
    for found, handlers, options, kind in cases:
        monkeypatch.setattr(module, "installed", lambda found=found: found)
        decoder = Dispatcher(Router(handlers), **options).frame_decoder(1_234)
        assert (type(decoder), decoder.max_frame) == (kind, 1_234)
        if kind is RunDecoder:
            assert decoder.feed(b"data") == [1_234, Frame, (Code.END_TRANSACTION,), "telling"]


def test_sends_are_not_combined_once_they_are_answered_with_go_away(monkeypatch):
    monkeypatch.setattr(module, "installed", lambda: SimpleNamespace(cut_read=None, TellingProperties=lambda *_: None))
    for kept, kind in ((True, RunDecoder), (False, FrameDecoder)):
        dispatcher = Dispatcher(Router(Handlers()))
        away = SimpleNamespace(over=lambda route, kept=kept: route if kept else route._replace(run=None))
        dispatcher.send_away(away)
        assert type(dispatcher.frame_decoder(1_234)) is kind


# -- overload


def test_lanes_are_refused_with_their_remarks_until_the_next_call():
    dispatcher = Dispatcher(Router(Handlers()))
    assert (dispatcher.refuses, dispatcher.refused) == (False, 0)
    for remarks, code, refuses, refused in (
        ({"other": "x"}, 11, True, 0), ({"send": "busy", "other": "x"}, 2, True, 1), ({}, 11, False, 1),
    ):  # fmt: skip
        dispatcher.refuse(remarks)
        assert serve(dispatcher, frame(1)) == [(1, code)]
        assert (dispatcher.refuses, dispatcher.refused) == (refuses, refused)
    dispatcher.refuse({"send": "busy"})
    (answer,) = FrameDecoder().feed(b"".join(dispatcher.serve(PEER, [frame(1)]).output))
    assert decode_command(answer).remark == "busy"


def test_the_longest_commit_is_measured_only_while_it_is_asked_for(monkeypatch):
    time, takes = [100.0], [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: time[0])

    def settle():
        time[0] += takes[0]
        if takes[0] == 4:
            raise StoreNotWritable("the disk is full")

    dispatcher = Dispatcher(Router(Handlers()), after_read=settle)
    longest = []
    for step in (1, "on", 2, 1, "on", 1, 4, "off", 3):
        if isinstance(step, str):
            dispatcher.time_writes(on=step == "on")
        else:
            takes[0] = float(step)
            serve(dispatcher, frame(1))
        longest.append(dispatcher.longest_write)
    assert longest == [0.0, 0.0, 2.0, 2.0, 0.0, 1.0, 4.0, 0.0, 0.0]
    without_store = Dispatcher(Router(Handlers()))
    without_store.time_writes(on=True)
    assert serve(without_store, frame(1)) == [(1, 11)]
    assert without_store.longest_write == 0.0


# -- answers that wait


class Waiting(Handlers):
    """Holds the answers to what it takes together."""

    @handles_runs(Code.SEND_MESSAGE_V2)
    def send_together(self, peer, run, begin):
        found = super().send_together(peer, run, begin)
        if found is None:
            return None

        def fail(code, remark):
            return b"".join(encode_reply(Reply(code, remark), opaque) for opaque in found.opaques())

        return found._replace(held=RunHold(Hold("safe", 60_000, found.stop), fail))


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(("reply", "code", "remark"), [(Reply(), 10, None), (Reply(12, "no slave"), 12, "no slave")])
def test_the_answers_to_a_run_may_wait(counts, reply, code, remark, monkeypatch):
    now, held, written = [5.0], [], []
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    peer = Peer(("10.0.0.9", 5), write=written.append)
    dispatcher = Dispatcher(Router(Waiting()), on_hold=lambda hold, responder: held.append((hold, responder)))
    latency = dispatcher.latency = RpcLatency() if counts else None
    served = dispatcher.serve(peer, [run_of(1, 2, 3, together={0: 2})])
    assert [one.opaque for one in decoded(served.output)] == [3], "the others wait"
    [(hold, responder)] = held
    assert (hold.key, hold.payload, responder.peer, responder.alive) == ("safe", 2, peer, True)
    now[0] += 0.25
    responder.reply(reply)
    assert [(one.opaque, one.code, one.remark) for one in decoded(written)] == [(1, code, remark), (2, code, remark)]
    assert not responder.alive
    responder.reply(reply)
    assert len(written) == 1
    if latency is not None:
        key = RpcKey(Code.SEND_MESSAGE_V2, reply.code, False, "success")
        assert (latency.spans[key].count, latency.spans[key].total) == (2, 500)


def decoded(frames):
    return [decode_command(one) for one in FrameDecoder().feed(b"".join(map(bytes, frames)))]
