"""Which requests a server that has fallen behind refuses."""

from rocketmq_py.core.broker.fast_failure import FastFailure

LIMITS = {"send": 200, "pull": 5_000}


def turns(*worked: int) -> list[dict[str, int]]:
    queue = FastFailure()
    return [queue.turn(ms, LIMITS) for ms in worked]


def test_short_turns_refuse_no_request() -> None:
    assert turns(0, 199, 199, 10) == [{}] * 4


def test_one_long_turn_refuses_no_request() -> None:
    assert turns(10, 60_000, 10, 60_000, 199) == [{}] * 5


def test_repeated_long_turns_refuse_requests_that_waited_too_long() -> None:
    assert turns(200, 300) == [{}, {"send": 200}]
    assert turns(7_000, 5_000) == [{}, {"send": 5_000, "pull": 5_000}]


def test_a_turn_that_refused_resets_the_count() -> None:
    queue = FastFailure()
    queue.turn(300, LIMITS)
    assert queue.turn(300, LIMITS)
    queue.refused()
    assert queue.turn(300, LIMITS) == {}
    assert queue.turn(300, LIMITS) == {"send": 300}
