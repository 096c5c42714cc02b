"""What is told of queues in trouble."""

import logging

from rocketmq_py.client.consumer.failure_log import FailureLog
from rocketmq_py.errors import ConnectError, ConnectionLost, NoRouteError, PermissionDenied, SystemBusy

WARNED, QUIET = logging.WARNING, logging.DEBUG


def test_a_lost_broker_is_told_once_for_all_its_queues() -> None:
    lost: set[str] = set()
    first, second, other = FailureLog("a", lost), FailureLog("a", lost), FailureLog("b", lost)
    assert first.failed(ConnectionLost("x")) == WARNED
    assert second.failed(ConnectionLost("x")) == QUIET
    assert [first.failed(ConnectError("x")), first.failed(ConnectError("x")), second.failed(NoRouteError("x"))] == [
        QUIET
    ] * 3
    assert other.failed(ConnectError("x")) == WARNED
    assert [second.recovered(), first.recovered(), first.recovered()] == [WARNED, QUIET, None]
    assert first.failed(ConnectionLost("x")) == WARNED
    assert other.recovered() == WARNED


def test_what_a_broker_refuses_is_told_for_each_queue() -> None:
    lost: set[str] = set()
    first, second = FailureLog("a", lost), FailureLog("a", lost)
    refused = PermissionDenied(16, "no")
    assert [first.failed(refused), second.failed(refused), first.failed(refused)] == [WARNED, WARNED, QUIET]
    assert first.failed(SystemBusy(2, "later")) == WARNED
    assert [first.recovered(), second.recovered()] == [WARNED, WARNED]
    assert lost == set()
