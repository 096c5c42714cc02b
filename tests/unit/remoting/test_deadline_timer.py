"""A timer on a loop and a clock that stand still: when it fires, and how long a busy loop delays it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from rocketmq_py.core.peer import NEVER
from rocketmq_py.remoting import deadline_timer as module
from rocketmq_py.remoting.deadline_timer import DeadlineTimer


class Bench:
    """Times are in milliseconds here: sums of them are exact."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000
        self.waits: list[tuple[int, Callable[[], None], bool]] = []
        self.expired: list[tuple[int, bool]] = []
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now / 1000))
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(get_running_loop=lambda: self))
        self.timer = DeadlineTimer(lambda: self.expired.append((self.now, self.timer.at == NEVER)))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> SimpleNamespace:
        number = len(self.waits)
        self.waits.append((round(1000 * seconds), callback, False))

        def cancel() -> None:
            self.waits[number] = (*self.waits[number][:2], True)

        return SimpleNamespace(cancel=cancel)

    def set(self, milliseconds: float) -> None:
        self.timer.set((self.now + milliseconds) / 1000)

    def fire(self, late: int = 0) -> None:
        """The last wait ends, ``late`` milliseconds after its time."""
        self.now += self.waits[-1][0] + late
        self.waits[-1][1]()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_a_deadline_expires_once(bench: Bench) -> None:
    assert bench.timer.at == NEVER
    bench.set(300)
    assert bench.timer.at == 1_000.3
    bench.fire()
    assert bench.expired == [(1_000_300, True)]
    assert [wait for wait, _, _ in bench.waits] == [300]


def test_a_deadline_replaces_the_one_before_and_may_be_removed(bench: Bench) -> None:
    bench.set(300)
    bench.set(-5)
    assert [(wait, cancelled) for wait, _, cancelled in bench.waits] == [(300, True), (0, False)]
    bench.timer.set(NEVER)
    assert [cancelled for _, _, cancelled in bench.waits] == [True, True]
    assert bench.timer.at == NEVER
    bench.set(200)
    bench.timer.cancel()
    bench.timer.cancel()
    assert [(wait, cancelled) for wait, _, cancelled in bench.waits[2:]] == [(200, True)]
    assert bench.timer.at == NEVER


@pytest.mark.parametrize(("late", "more"), [(0, []), (49, []), (51, [51]), (4_000, [4_000]), (9_000, [5_000])])
def test_a_busy_loop_delays_the_end_once_by_as_long_as_it_was_busy(bench: Bench, late: int, more: list[int]) -> None:
    for _ in range(2):
        bench.set(300)
        bench.waits.clear()
        bench.waits.append((300, bench.timer._fire, False))
        bench.fire(late)
        assert [wait for wait, _, _ in bench.waits[1:]] == more
        if more:
            bench.fire(late)
        assert len(bench.waits) == 1 + len(more), "it is delayed once"
        bench.now += 1_000
    assert len(bench.expired) == 2


def test_deadlines_that_are_close_to_each_other_end_together(bench: Bench) -> None:
    bench.set(100)
    bench.fire()
    for milliseconds, wait in ((-30, 20), (1, 20), (20, 20), (25, 25)):
        bench.set(milliseconds)
        assert bench.waits[-1][0] == wait
    bench.set(-40)
    bench.fire(late=50)
    assert len(bench.expired) == 2, "what the pause adds is no lateness"


def test_a_new_timer_does_not_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    bench.now = 0
    bench.set(0)
    assert bench.waits[-1][0] == 0
    bench.fire(late=50)
    assert bench.expired == [(50, True)], "no more than 50 ms late"
