"""Pauses between attempts, and when no attempt follows."""

from __future__ import annotations

import pytest

from rocketmq_py.core.backoff import Backoff, Retry
from rocketmq_py.errors import ConfigError, ConnectError


def test_pauses_double_up_to_the_limit() -> None:
    backoff = Backoff(0.05, 5.0)
    assert [backoff.seconds(n, 1.0) for n in (1, 2, 3, 7, 8, 1000)] == [0.05, 0.1, 0.2, 3.2, 5.0, 5.0]


def test_by_default_pauses_grow_from_a_twentieth_of_a_second_to_five() -> None:
    assert [Backoff().seconds(n, 1.0) for n in (1, 7, 8)] == [0.05, 3.2, 5.0]


def test_jitter_takes_up_to_half_of_a_pause() -> None:
    backoff = Backoff(0.05, 5.0)
    assert backoff.seconds(3, 0.0) == pytest.approx(0.1)
    assert 0.1 < backoff.seconds(3, 0.3) < 0.2


def test_a_call_is_retried_until_it_succeeds() -> None:
    pauses: list[float] = []
    outcomes = [ConnectError("one"), ConnectError("two"), None]

    def attempt() -> str:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return "done"

    retry = Retry(2, "asking", pauses.append, lambda: 1.0)
    assert retry.call(attempt) == "done"
    assert pauses == [0.05, 0.1]
    assert retry.failures == 2
    retry.succeeded()
    assert retry.failures == 0


def test_the_last_failure_is_raised_with_the_number_of_attempts_and_a_hint() -> None:
    retry = Retry(1, "asking", lambda _: None, lambda: 0.5, hint="option numRetries allows for more")
    retry.failed(ConnectError("one"))
    with pytest.raises(ConnectError, match="two") as raised:
        retry.failed(ConnectError("two"))
    assert raised.value.__notes__ == ["asking failed 2 times in a row; option numRetries allows for more"]


def test_an_error_that_is_not_retryable_is_raised_at_once() -> None:
    pauses: list[float] = []
    with pytest.raises(ConfigError):
        Retry(5, "asking", pauses.append, lambda: 0.5).failed(ConfigError("never"))
    assert pauses == []
