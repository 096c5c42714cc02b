"""Which brokers a producer keeps away from, by Java's tables."""

from __future__ import annotations

from collections import Counter

import pytest

from rocketmq_py.core.producer.latency_fault import AvailableFirst, BrokerFaults, LatencyFaultTolerance
from rocketmq_py.errors import BrokerError, ConfigError, ConnectError, NoRouteError, RequestTimeout, RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.testing import ManualClock

QUEUES = [MessageQueue("t", name, i) for name in "abc" for i in range(2)]


def faults(**options: object) -> BrokerFaults:
    return BrokerFaults(LatencyFaultTolerance(**options))  # type: ignore[arg-type]


def chosen(turn: AvailableFirst, avoid: str | None = None) -> set[str]:
    return {turn.pick(QUEUES, avoid).broker_name for _ in range(24)}


@pytest.mark.parametrize(
    ("latency", "pause"),
    # MQFaultStrategy.latencyMax and notAvailableDuration, 5.x
    [
        (0.0, 0),
        (0.05, 0),
        (0.1, 0),
        (0.549, 0),
        (0.55, 2),
        (1.8, 5),
        (3.0, 6),
        (4.9, 6),
        (5.0, 10),
        (15.0, 30),
        (60, 30),
    ],
)
def test_the_table_is_javas(latency: float, pause: float) -> None:
    known = faults()
    known.ended("a", latency, None, now=100.0)
    assert known.is_available("a", 100.0 + pause)
    assert pause == 0 or not known.is_available("a", 99.9 + pause)


@pytest.mark.parametrize("error", [BrokerError.of(2, "busy"), ConnectError("no"), RequestTimeout("no")])
def test_a_failed_broker_counts_as_a_latency_of_ten_seconds(error: RocketMQError) -> None:
    known = faults()
    known.ended("a", 0.001, error, now=0.0)
    assert not known.is_available("a", 9.9)
    assert known.is_available("a", 10.0)


@pytest.mark.parametrize("error", [BrokerError.of(13, "illegal"), NoRouteError("no")])
def test_failures_of_the_client_do_not_isolate_the_broker(error: RocketMQError) -> None:
    known = faults()
    known.ended("a", 0.001, error, now=0.0)
    assert known.is_available("a", 0.0)
    assert known.is_reachable("a")


def test_a_quick_answer_does_not_end_a_pause() -> None:
    known = faults()
    known.ended("a", 2.0, None, now=0.0)
    known.ended("a", 0.01, None, now=1.0)
    assert not known.is_available("a", 4.9)
    known.ended("a", 0.6, None, now=2.0)  # nor does a shorter one shorten it
    assert not known.is_available("a", 4.9)
    assert known.is_available("a", 5.0)


def test_available_brokers_come_first_then_reachable_ones_then_all() -> None:
    hands = ManualClock()

    def clock() -> float:
        return hands.now_ms / 1000

    known = faults(start_detector_enable=True)
    turn = AvailableFirst(known, clock)
    assert chosen(turn) == {"a", "b", "c"}
    known.ended("a", 1.0, None, clock())
    assert chosen(turn) == {"b", "c"}
    assert chosen(turn, avoid="b") == {"c"}
    known.ended("b", 0.1, ConnectError("no"), clock())
    known.ended("c", 0.1, ConnectError("no"), clock())
    assert chosen(turn) == {"a"}, "slow, but there"
    assert chosen(turn, avoid="a") == {"a", "b", "c"}, "as Java's: no queue is left over, so any"
    hands.advance(2.0)
    assert chosen(turn) == {"a"}
    hands.advance(8.0)
    assert chosen(turn) == {"a", "b", "c"}


def test_queues_of_available_brokers_take_turns() -> None:
    known = faults()
    known.ended("b", 1.0, None, 0.0)
    turn = AvailableFirst(known, lambda: 0.0)
    counts = Counter(turn.pick(QUEUES) for _ in range(40))
    assert set(counts) == {queue for queue in QUEUES if queue.broker_name != "b"}
    assert min(counts.values()) >= 8


def test_without_a_detector_an_unreachable_broker_is_only_avoided() -> None:
    known = faults()
    known.ended("a", 0.1, ConnectError("no"), 0.0)
    assert known.is_reachable("a")
    known.ended("a", 0.1, BrokerError.of(2, "busy"), 0.0)
    assert not known.is_reachable("a")


def test_the_detector_probes_each_broker_periodically() -> None:
    known = faults(start_detector_enable=True, detect_interval=2.0)
    known.ended("a", 0.1, ConnectError("no"), 0.0)
    known.ended("b", 1.0, None, 0.0)
    assert known.due(0.0) == ["a", "b"]
    assert known.due(1.9) == []
    assert known.answered("a")
    assert not known.answered("a"), "it is said once"
    assert known.is_reachable("a")
    known.forget("b")
    assert known.due(2.0) == ["a"]


@pytest.mark.parametrize(
    "options",
    [
        {"latency_max": (1.0,)},
        {"latency_max": (2.0, 1.0), "not_available_duration": (1.0, 1.0)},
        {"latency_max": (), "not_available_duration": ()},
        {"latency_max": (-1.0,), "not_available_duration": (1.0,)},
        {"detect_timeout": 0.0},
    ],
)
def test_invalid_latency_tables_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        LatencyFaultTolerance(**options).check()  # type: ignore[arg-type]


def test_the_defaults_are_javas() -> None:
    options = LatencyFaultTolerance()
    assert (options.detect_timeout, options.detect_interval) == (0.2, 2.0)
