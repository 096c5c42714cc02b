"""When failures that repeat are logged, and how long they are problems of a consumer."""

import logging

from rocketmq_py.client.consumer.failure_log import LOG_INTERVAL, FailureLog, Problems
from rocketmq_py.errors import ConnectError, ConnectionLost, NoRouteError, PermissionDenied, RocketMQError, SystemBusy

WARNED, QUIET = logging.WARNING, logging.DEBUG


class Bench:
    """Failure logs that share a clock, outages and problems."""

    def __init__(self) -> None:
        self.time = 100.0
        self.outages: dict[str, float] = {}
        self.problems: Problems = {}

    def log(self, key: str, broker_name: str = "a") -> FailureLog:
        return FailureLog(key, broker_name, self.outages, self.problems, lambda: self.time)


def test_a_lost_broker_is_logged_once_for_all_its_queues() -> None:
    bench = Bench()
    first, second, other = bench.log("1"), bench.log("2"), bench.log("3", "b")
    assert first.failed(ConnectionLost("x")) == WARNED
    assert second.failed(ConnectionLost("x")) == QUIET
    assert [first.failed(ConnectError("x")), first.failed(ConnectError("x")), second.failed(NoRouteError("x"))] == [
        QUIET
    ] * 3
    assert other.failed(ConnectError("x")) == WARNED
    assert [second.recovered(), first.recovered(), first.recovered()] == [WARNED, QUIET, None]
    assert first.failed(ConnectionLost("x")) == WARNED
    assert other.recovered() == WARNED


def test_topics_without_a_route_are_logged_each_and_absent_name_servers_once() -> None:
    bench = Bench()
    first, second = bench.log("1", ""), bench.log("2", "")
    assert [first.failed(NoRouteError("x")), second.failed(NoRouteError("x"))] == [WARNED, WARNED]
    assert [first.recovered(), second.recovered()] == [WARNED, WARNED]
    assert [first.failed(ConnectError("x")), second.failed(ConnectError("x"))] == [WARNED, QUIET]


def test_a_refusal_is_logged_for_each_queue() -> None:
    bench = Bench()
    first, second = bench.log("1"), bench.log("2")
    refused = PermissionDenied(16, "no")
    assert [first.failed(refused), second.failed(refused), first.failed(refused)] == [WARNED, WARNED, QUIET]
    assert first.failed(SystemBusy(2, "later")) == WARNED
    assert [first.recovered(), second.recovered()] == [WARNED, WARNED]
    assert bench.outages == {}


def test_a_broker_that_refuses_is_logged_as_lost_when_it_is_lost() -> None:
    bench = Bench()
    log = bench.log("1")
    assert [log.failed(PermissionDenied(16, "no")), log.failed(ConnectionLost("x"))] == [WARNED, WARNED]
    assert bench.outages == {"a": 100.0}


def levels(bench: Bench, log: FailureLog, error: RocketMQError, seconds: int) -> list[int]:
    found = []
    for _ in range(seconds):
        found.append(log.failed(error))
        bench.time += 1
    return found


def test_an_outage_is_logged_at_its_start_and_once_a_minute() -> None:
    for error in (ConnectionLost("x"), PermissionDenied(16, "no")):
        bench = Bench()
        log = bench.log("1")
        found = levels(bench, log, error, int(2 * LOG_INTERVAL) + 1)
        assert [second for second, level in enumerate(found) if level == WARNED] == [0, 60, 120]
        assert log.duration == " for 121 s"
        assert log.recovered() == WARNED


def test_the_first_failure_has_no_duration() -> None:
    log = Bench().log("1")
    log.failed(ConnectionLost("x"))
    assert log.duration == ""


def test_a_failure_is_a_problem_until_it_ends() -> None:
    bench = Bench()
    first, second = bench.log("1"), bench.log("2")
    gone, refused = ConnectionLost("gone"), PermissionDenied(16, "no")
    first.failed(gone)
    second.failed(refused)
    assert bench.problems == {"1": gone, "2": refused}
    first.recovered()
    assert bench.problems == {"2": refused}
    second.close()
    assert not bench.problems
    second.close()


def test_a_closed_log_keeps_the_problem_of_its_successor() -> None:
    bench = Bench()
    before, after = bench.log("1"), bench.log("1")
    before.failed(ConnectionLost("before"))
    error = ConnectionLost("after")
    after.failed(error)
    before.close()
    assert bench.problems == {"1": error}
