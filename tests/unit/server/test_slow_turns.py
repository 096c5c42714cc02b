"""Long turns of the event loop are counted and named."""

from __future__ import annotations

import logging

import pytest

from rocketmq_py.server.slow_turns import SlowTurns


def test_a_long_turn_is_named_after_the_longest_work(caplog: pytest.LogCaptureFixture) -> None:
    turns = SlowTurns()
    turns.note("PULL_MESSAGE (11) of 10.0.0.1:5", 0.08)
    turns.note("the periodic job Stats.sample", 0.03)
    turns.turn_ended(late=0.1, worked=0.12)
    assert (turns.count, turns.longest_ms, turns.longest_name) == (1, 100, "PULL_MESSAGE (11) of 10.0.0.1:5")
    assert caplog.messages == ["a turn of the event loop took 100 ms: PULL_MESSAGE (11) of 10.0.0.1:5"]


def test_work_that_ended_before_the_loop_was_late_counts_too() -> None:
    turns = SlowTurns()
    turns.note("the periodic job Stats.sample", 0.06)
    turns.turn_ended(late=0.02, worked=0.07)
    assert (turns.count, turns.longest_ms) == (1, 60)


def test_time_that_the_thread_did_not_work_does_not_count() -> None:
    turns = SlowTurns()
    turns.note("the periodic job Stats.sample", 5.0)
    turns.turn_ended(late=5.0, worked=0.04)
    assert turns.count == 0


def test_a_name_holds_for_one_turn_only() -> None:
    turns = SlowTurns()
    turns.note("the periodic job Stats.sample", 0.03)
    turns.turn_ended(late=0.0, worked=0.03)
    turns.turn_ended(late=0.2, worked=0.2)
    assert turns.longest_name == "several short requests or callbacks"
    turns.turn_ended(late=0.0, worked=0.2)
    assert turns.count == 1


def test_a_new_counter_has_counted_nothing() -> None:
    turns = SlowTurns()
    assert (turns.count, turns.longest_ms, turns.longest_name) == (0, 0, "")


def test_log_lines_are_limited_and_the_counter_is_not(caplog: pytest.LogCaptureFixture) -> None:
    time = [0.0]
    turns = SlowTurns(now=lambda: time[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            turns.turn_ended(late=0.1, worked=0.1)
        assert turns.count == 100
        assert len(caplog.messages) == 1
        for now in (9.75, 10.0):
            time[0] = now
            turns.turn_ended(late=0.1, worked=0.1)
    assert len(caplog.messages) == 2
    assert caplog.messages[-1].endswith("(and 100 more long turns before)")
