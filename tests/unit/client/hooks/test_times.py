"""Times under the names of Apache's clients."""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_py.client.hooks.hooks import Consumption, Reception, Sending
from rocketmq_py.client.hooks.times import (
    AWAIT,
    BOUNDS,
    DELIVERY,
    LABELS,
    PROCESS,
    SEND_COST,
    ConsumeTimes,
    ReceiveTimes,
    SendTimes,
)
from rocketmq_py.model import Message, MessageExt, MessageQueue


class Recorder:
    def __init__(self) -> None:
        self.seen: list[tuple[str, float, tuple[str, ...]]] = []

    def observe(self, name: str, milliseconds: float, labels: Mapping[str, str]) -> None:
        assert tuple(labels) == LABELS[name]
        self.seen.append((name, milliseconds, tuple(labels.values())))


def got(topic: str, born: int) -> MessageExt:
    head = (0, 0, 0, 2, 0, 0, 0, 0, born, b"", 0, b"", 0, 0, 1)
    message = MessageExt(head, topic, b"x", b"", "b")
    assert message.born_timestamp == born
    return message


def test_the_bounds_are_those_of_apache_s_clients() -> None:
    """A dashboard adds up the buckets of all clients of a group."""
    assert BOUNDS == {
        "rocketmq_send_cost_time": (1, 5, 10, 20, 50, 200, 500),
        "rocketmq_delivery_latency": (1, 5, 10, 20, 50, 200, 500),
        "rocketmq_await_time": (1, 5, 20, 100, 1_000, 5_000, 10_000),
        "rocketmq_process_time": (1, 5, 10, 100, 1_000, 10_000, 60_000),
    }


def test_sends() -> None:
    recorder = Recorder()
    hook = SendTimes(recorder, "c@1")
    sending = Sending("g", [Message("t", b"x")], oneway=False)
    sending.seconds = 0.5
    hook.after(sending)
    sending.error = ValueError()
    hook.after(sending)
    hook.after(Sending("g", [], oneway=False))
    assert recorder.seen == [(SEND_COST, 500.0, ("t", "c@1", "success")), (SEND_COST, 500.0, ("t", "c@1", "failure"))]


def test_listener_calls() -> None:
    recorder = Recorder()
    hook = ConsumeTimes(recorder, "c@1", lambda: 10_000)
    consumption = Consumption("g", MessageQueue("t", "b", 0), [got("t", 9_000), got("t", 11_000)])
    hook.before(consumption)
    consumption.seconds, consumption.succeeded = 0.25, True
    hook.after(consumption)
    consumption.succeeded = None
    hook.after(consumption)
    assert recorder.seen == [
        (DELIVERY, 1_000, ("t", "c@1", "g")), (DELIVERY, 0, ("t", "c@1", "g")),
        (PROCESS, 250.0, ("t", "c@1", "g", "success")), (PROCESS, 250.0, ("t", "c@1", "g", "failure")),
    ]  # fmt: skip


def test_how_long_messages_waited_for_their_listener() -> None:
    recorder, known, unknown = Recorder(), got("t", 10_000), got("t", 10_000)
    known.arrived = 7.0
    assert unknown.arrived is None
    hook = ConsumeTimes(recorder, "c@1", lambda: 10_000, lambda: 7.5)
    hook.before(Consumption("g", MessageQueue("t", "b", 0), [unknown, known]))
    assert [seen for seen in recorder.seen if seen[0] == AWAIT] == [(AWAIT, 500.0, ("t", "c@1", "g"))]


def test_receives() -> None:
    recorder = Recorder()
    ReceiveTimes(recorder, "c@1", lambda: 10_000).received(Reception("g", [got("t", 9_000), got("u", 4_000)], 0))
    assert recorder.seen == [(DELIVERY, 1_000, ("t", "c@1", "g")), (DELIVERY, 6_000, ("u", "c@1", "g"))]
