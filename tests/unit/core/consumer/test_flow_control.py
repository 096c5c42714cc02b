import pytest

from rocketmq_py.core.consumer import flow_control
from rocketmq_py.core.consumer.flow_control import FlowLimits, decide_pull
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.errors import BrokerError, ConnectionLost
from rocketmq_py.model import MessageQueue

OPEN = {"running": True, "suspended": False, "subscribed": True}


@pytest.fixture
def queue():
    return ProcessQueue(MessageQueue("T", "broker-a", 0), 0.0)


def test_an_idle_queue_is_pulled(queue):
    assert decide_pull(queue, FlowLimits(), **OPEN) == flow_control.PULL


def test_the_checks_come_in_order(queue, messages):
    queue.put(messages(*range(5)))
    limits, state = FlowLimits(count=4), {"running": False, "suspended": True, "subscribed": False}
    queue.dropped = True
    assert decide_pull(queue, limits, **state) == flow_control.DROP
    queue.dropped = False
    assert decide_pull(queue, limits, **state) == flow_control.NOT_RUNNING
    assert decide_pull(queue, limits, **{**state, "running": True}) == flow_control.SUSPENDED
    assert decide_pull(queue, limits, **{**OPEN, "subscribed": False}) == flow_control.COUNT_EXCEEDED
    assert decide_pull(queue, FlowLimits(), **{**OPEN, "subscribed": False}, usable=False) == flow_control.NOT_LOCKED
    assert decide_pull(queue, FlowLimits(), **{**OPEN, "subscribed": False}) == flow_control.NOT_SUBSCRIBED


def test_limits_are_strict(queue, messages):
    queue.put(messages(*range(1000)))
    assert decide_pull(queue, FlowLimits(), **OPEN) == flow_control.PULL
    queue.put(messages(1000))
    assert decide_pull(queue, FlowLimits(), **OPEN) == flow_control.COUNT_EXCEEDED
    assert flow_control.COUNT_EXCEEDED.delay == 0.05


def test_messages_being_pulled_count_towards_the_limits(queue, messages):
    queue.put(messages(*range(990)))
    assert decide_pull(queue, FlowLimits(), **OPEN, coming=10) == flow_control.PULL
    assert decide_pull(queue, FlowLimits(), **OPEN, coming=11) == flow_control.COUNT_EXCEEDED
    assert (
        decide_pull(queue, FlowLimits(mebibytes=1), **OPEN, coming_bytes=2 * flow_control.MEBIBYTE)
        == flow_control.SIZE_EXCEEDED
    )
    assert decide_pull(queue, FlowLimits(span=1000), **OPEN, coming=10) == flow_control.PULL
    assert decide_pull(queue, FlowLimits(count=2000, span=1000), **OPEN, coming=12) == flow_control.SPAN_EXCEEDED


def test_size_counts_whole_mebibytes(queue, messages):
    queue.put(messages(0, 1, body=bytes(flow_control.MEBIBYTE - 1)))
    assert decide_pull(queue, FlowLimits(mebibytes=1), **OPEN) == flow_control.PULL
    queue.put(messages(2, body=b"xy"))
    assert decide_pull(queue, FlowLimits(mebibytes=1), **OPEN) == flow_control.SIZE_EXCEEDED


def test_a_stuck_message_stops_pulling_at_the_span_limit(queue, messages):
    queue.put(messages(0, 2000))
    assert decide_pull(queue, FlowLimits(), **OPEN) == flow_control.PULL
    queue.put(messages(2001))
    assert decide_pull(queue, FlowLimits(), **OPEN) == flow_control.SPAN_EXCEEDED
    assert decide_pull(queue, FlowLimits(span=None), **OPEN) == flow_control.PULL


def test_a_stuck_message_beside_fast_ones_stops_pulling_at_the_limit(queue, messages):
    """The others are acked at once, so that the stuck one is the only one held."""
    pulled = messages(*range(2001))
    queue.put(pulled)
    queue.ack(pulled[1:])
    assert queue.count == 1
    assert decide_pull(queue, FlowLimits(), **OPEN) == flow_control.PULL
    assert decide_pull(queue, FlowLimits(), **OPEN, coming=1) == flow_control.SPAN_EXCEEDED
    last = messages(2001)
    queue.put(last)
    queue.ack(last)
    assert decide_pull(queue, FlowLimits(), **OPEN) == flow_control.SPAN_EXCEEDED
    queue.ack(pulled[:1])
    assert decide_pull(queue, FlowLimits(), **OPEN) == flow_control.PULL


def test_limits_of_a_topic_are_shared_by_its_queues():
    assert FlowLimits().shared(1000, -1, 4) == FlowLimits(count=250)
    assert FlowLimits().shared(3, 2, 4) == FlowLimits(count=1, mebibytes=1)
    assert FlowLimits().shared(-1, -1, 4) == FlowLimits()
    assert FlowLimits().shared(10, 10, 0) == FlowLimits()


def test_a_failed_pull_waits_a_second_unless_the_broker_asks_for_flow_control():
    assert flow_control.failure_delay(ConnectionLost("x")) == 1.0
    assert flow_control.failure_delay(BrokerError.of(2, "busy")) == 1.0
    assert flow_control.failure_delay(BrokerError.of(215, "slow down")) == 0.02


@pytest.mark.parametrize(
    ("offset", "from_master", "with_subscription", "flags"),
    [(0, True, False, 2), (5, True, False, 3), (5, False, False, 2), (5, True, True, 7)],
)
def test_pulls_carry_system_flags(offset, from_master, with_subscription, flags):
    assert flow_control.pull_flags(offset, from_master=from_master, with_subscription=with_subscription) == flags
