"""An overloaded server: refused requests and log lines, with a manual clock."""

import logging
from types import SimpleNamespace

import pytest

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.server import LaneLimit, Peer, Reply, Router, handles, loop_monitor
from rocketmq_py.server.loop_monitor import LoopMonitor
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.wire.command import ONEWAY_FLAG, Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

SEND = Command(RequestCode.GET_MAX_OFFSET, ext={"topic": "t", "queueId": "0"})
PULL = Command(RequestCode.GET_MIN_OFFSET, ext={"topic": "t", "queueId": "0"})


class Handlers:
    @handles(RequestCode.GET_MAX_OFFSET, lane="send")
    def send(self, peer: Peer, request, body):
        return Reply()

    @handles(RequestCode.GET_MIN_OFFSET, lane="pull")
    def pull(self, peer: Peer, request, body):
        return Reply()


class Machine:
    """A clock, a disk, and a dispatcher between them."""

    def __init__(self):
        self.time = self.work = 0.0
        self.write_takes = 0.0
        limits = {"send": LaneLimit(wait_ms=200), "pull": LaneLimit(wait_ms=5_000)}
        self.dispatcher = Dispatcher(Router(Handlers()), lanes=limits, after_read=self._write)
        self.full = set()
        self.pace = LoopMonitor(self.dispatcher, lambda: self.full, writing_limit_ms=1_000, clock=self)

    def now(self):
        return self.time

    def worked(self):
        return self.work

    def _write(self):
        self.time += self.write_takes

    def turn(self, seconds, work=None):
        """The loop is busy for that long, then looks at itself; what sends and pulls are answered after that."""
        self.time += seconds
        self.work += seconds if work is None else work
        self.pace.look()
        return self.ask(SEND).remark, self.ask(PULL).remark

    def ask(self, command):
        frames = FrameDecoder().feed(encode_command(command))
        (frame,) = FrameDecoder().feed(b"".join(self.dispatcher.serve(Peer(), frames).output))
        return decode_command(frame)


BUSY = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: {}ms, size of queue: 0"


def test_repeated_long_turns_refuse_lanes_that_waited_too_long():
    machine = Machine()
    assert machine.turn(0.05) == (None, None)
    assert machine.turn(1.05) == (None, None)
    assert machine.turn(0.35) == (BUSY.format(300), None)
    assert machine.ask(SEND).code == 2
    assert machine.turn(9.05) == (None, None)
    assert machine.turn(6.05) == (BUSY.format(6000), BUSY.format(6000))
    assert machine.turn(0.05) == (None, None)


def test_processor_time_of_other_programs_refuses_no_request():
    machine = Machine()
    assert [machine.turn(2.0, work=0.1) for _ in range(5)] == [(None, None)] * 5


def test_a_slow_disk_refuses_sends(monkeypatch):
    machine = Machine()
    monkeypatch.setattr("rocketmq_py.server.requests.dispatcher.monotonic", machine.now)
    machine.write_takes = 0.6
    assert machine.turn(2.0, work=0.0) == (None, None)
    machine.write_takes = 1.5
    assert machine.turn(2.0, work=0.0) == (None, None)
    remark, pull = machine.turn(2.0, work=0.0)
    assert remark == BUSY.replace("TIMEOUT", "PCBUSY").format(1500)
    assert pull is None
    machine.write_takes = 0.0
    machine.turn(0.05)
    assert machine.turn(0.05) == (None, None)


def refusal(caplog):
    [record] = [record for record in caplog.records if record.name.endswith("loop_monitor")]
    return record.getMessage().partition(":")[0]


def test_a_slow_disk_is_named_as_the_reason(monkeypatch, caplog):
    machine = Machine()
    monkeypatch.setattr("rocketmq_py.server.requests.dispatcher.monotonic", machine.now)
    machine.write_takes = 1.5
    for _ in range(3):
        machine.turn(2.0, work=0.0)
    assert refusal(caplog) == "the disk does not keep up"


def test_a_lane_that_is_full_is_one_of_a_disk_that_does_not_keep_up(caplog):
    machine = Machine()
    machine.full = {"send"}
    machine.turn(0.05)
    assert refusal(caplog) == "the disk does not keep up"


def test_a_refused_oneway_request_is_not_answered():
    machine = Machine()
    machine.turn(1.0)
    machine.turn(1.0)
    frames = FrameDecoder().feed(encode_command(Command(SEND.code, ext=SEND.ext, flag=ONEWAY_FLAG)))
    assert machine.dispatcher.serve(Peer(), frames).output == []


def test_overload_is_logged_when_it_begins_and_ends(caplog):
    caplog.set_level(logging.INFO)
    machine = Machine()

    def told():
        return [record for record in caplog.records if record.name.endswith("loop_monitor")]

    refused = [machine.turn(1.0)[0] for _ in range(10)].count(BUSY.format(950))
    assert [record.levelname for record in told()] == ["WARNING"]
    assert "more requests come than can be served: requests (send) are refused" in caplog.text
    for _ in range(30):
        machine.turn(1.0, work=0.0)
    assert refused > 1
    assert told()[-1].getMessage() == f"requests are served in time again; {refused} were refused"
    assert len(told()) == 2
    machine.turn(1.0)
    machine.turn(1.0)
    assert len(told()) == 3
    for _ in range(30):
        machine.turn(1.0, work=0.0)
    assert told()[-1].getMessage() == "requests are served in time again; 1 were refused"


def test_the_end_of_an_overload_is_logged_after_fifteen_seconds(caplog):
    machine = Machine()
    machine.turn(1.0)
    machine.turn(1.0)
    machine.turn(15.0, work=0.0)
    assert not any("in time again" in message for message in caplog.messages)
    machine.turn(0.25, work=0.0)
    assert caplog.messages[-1] == "requests are served in time again; 1 were refused"


def test_long_turns_are_counted_by_what_the_thread_worked():
    machine = Machine()
    machine.turn(1.05, work=2.0)
    machine.turn(1.05, work=0.5)
    machine.turn(1.05, work=0.0)
    assert (machine.dispatcher.slow_turns.count, machine.dispatcher.slow_turns.longest_ms) == (2, 1000)


@pytest.mark.parametrize(("late", "takes", "refused"), [(1.0, 1.0, True), (1.0, 0.9995, False), (0.9995, 1.0, False)])
def test_a_write_of_a_second_is_slow(monkeypatch, late, takes, refused):
    machine = Machine()
    machine.pace = LoopMonitor(machine.dispatcher, clock=machine)
    monkeypatch.setattr("rocketmq_py.server.requests.dispatcher.monotonic", lambda: machine.time)
    machine.turn(late + 0.05, work=0.0)
    machine.time = 0.0
    machine.write_takes = takes
    machine.ask(SEND)
    assert (machine.turn(0.05, work=0.0)[0] is not None) is refused


@pytest.mark.parametrize("limits", [None, {"send": LaneLimit(wait_ms=None)}])
def test_without_limits_no_request_is_refused(limits):
    machine = Machine()
    machine.dispatcher = Dispatcher(Router(Handlers()), lanes=limits)
    machine.pace = LoopMonitor(machine.dispatcher, clock=machine)
    assert [machine.turn(60.0) for _ in range(3)] == [(None, None)] * 3


def test_limits_can_change_while_it_runs():
    machine = Machine()
    machine.dispatcher.lanes.limit({"pull": LaneLimit(wait_ms=100)})
    machine.turn(1.05)
    assert machine.turn(1.05) == (None, BUSY.format(1000))


def test_requests_of_a_full_lane_are_refused_until_it_has_room():
    machine = Machine()
    machine.full = {"send"}
    for _ in range(3):
        assert machine.turn(0.05) == ("[OVERLOAD]system busy, start flow control for a while", None)
    machine.full = set()
    assert machine.turn(0.05) == (None, None)


class Timers:
    """A loop that only notes what is to be called later."""

    def __init__(self):
        self.made = []

    def call_later(self, seconds, what):
        timer = SimpleNamespace(seconds=seconds, call=what, cancelled=0)
        timer.cancel = lambda: setattr(timer, "cancelled", timer.cancelled + 1)
        self.made.append(timer)
        return timer


def test_checks_are_repeated_until_they_are_stopped(monkeypatch):
    machine, timers, looks = Machine(), Timers(), []
    monkeypatch.setattr(loop_monitor.asyncio, "get_running_loop", lambda: timers)
    monkeypatch.setattr(machine.pace, "look", lambda: looks.append(1))
    machine.pace.stop()  # before the start, without effect
    machine.pace.start()
    assert (len(timers.made), looks) == (1, [])
    timers.made[0].call()
    assert (len(timers.made), looks) == (2, [1])
    assert {timer.seconds for timer in timers.made} == {0.05}
    machine.pace.stop()
    machine.pace.stop()
    assert [timer.cancelled for timer in timers.made] == [0, 1]
