"""When a pause by flow control is logged, and when its end is."""

import logging

import pytest

from rocketmq_py.client.consumer.flow_control_log import FlowControlLog
from rocketmq_py.core.consumer.flow_control import COUNT_EXCEEDED, SUSPENDED, FlowLimits
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageQueue

LIMITS = FlowLimits()


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.WARNING)
    return FlowControlLog("g", ProcessQueue(MessageQueue("T", "b", 0), 0.0))


def test_a_pause_is_logged_after_a_second_and_then_once_a_minute(log, caplog):
    logged = []
    for tenth in range(1000, 2300):
        log.waits(COUNT_EXCEEDED, LIMITS, tenth / 10)
        if caplog.records:
            logged.append(tenth / 10 - 100)
            caplog.clear()
    assert logged == pytest.approx([1, 61, 121])
    log.pulls(230.0)
    [record] = caplog.records
    assert record.getMessage().endswith("again after 130 s")
    caplog.clear()
    log.pulls(231.0)
    assert not caplog.records


def test_a_pause_for_another_reason_ends_that_of_flow_control(log, caplog):
    log.waits(COUNT_EXCEEDED, LIMITS, 10.0)
    log.waits(SUSPENDED, LIMITS, 10.5)
    log.waits(COUNT_EXCEEDED, LIMITS, 11.0)
    log.waits(COUNT_EXCEEDED, LIMITS, 11.9)
    assert not caplog.records
    log.waits(COUNT_EXCEEDED, LIMITS, 12.0)
    log.waits(SUSPENDED, LIMITS, 14.0)
    assert [record.getMessage().rpartition(" after ")[2] for record in caplog.records][1:] == ["3 s"]
