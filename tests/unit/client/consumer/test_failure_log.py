"""What is told of queues in trouble."""

import logging

from rocketmq_py.client.consumer.failure_log import FailureLog
from rocketmq_py.errors import ConnectError, ConnectionLost, NoRouteError, PermissionDenied, SystemBusy

TOLD, QUIET = logging.WARNING, logging.DEBUG


def test_a_lost_broker_is_told_once_for_all_its_queues() -> None:
    lost: set[str] = set()
    first, second, other = FailureLog("a", lost), FailureLog("a", lost), FailureLog("b", lost)
    assert first.begins(ConnectionLost("x")) == TOLD
    assert second.begins(ConnectionLost("x")) == QUIET
    assert [first.begins(ConnectError("x")), first.begins(ConnectError("x")), second.begins(NoRouteError("x"))] == [
        QUIET
    ] * 3
    assert other.begins(ConnectError("x")) == TOLD
    assert [second.ends(), first.ends(), first.ends()] == [TOLD, QUIET, None]
    assert first.begins(ConnectionLost("x")) == TOLD
    assert other.ends() == TOLD


def test_what_a_broker_refuses_is_told_for_each_queue() -> None:
    lost: set[str] = set()
    first, second = FailureLog("a", lost), FailureLog("a", lost)
    refused = PermissionDenied(16, "no")
    assert [first.begins(refused), second.begins(refused), first.begins(refused)] == [TOLD, TOLD, QUIET]
    assert first.begins(SystemBusy(2, "later")) == TOLD
    assert [first.ends(), second.ends()] == [TOLD, TOLD]
    assert lost == set()
