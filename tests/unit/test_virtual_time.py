"""The clock of the unit tests: which threads keep it from skipping waits, and when it stands still."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import tests.virtual_time
from tests.virtual_time import Clock, Stuck

PATIENCE = 120.0


@contextmanager
def thread(then: Callable[[], None] = lambda: None) -> Iterator[threading.Event]:
    """A thread that does something when its event is set, and ends with the block."""
    go, end = threading.Event(), threading.Event()

    def run() -> None:
        go.wait(PATIENCE)
        then()
        end.wait(PATIENCE)

    running = threading.Thread(target=run)
    running.start()
    try:
        yield go
    finally:
        go.set()
        end.set()
        running.join()


def test_a_thread_of_the_test_keeps_the_clock_from_skipping(virtual_clock: Clock) -> None:
    assert not virtual_clock.has_threads()
    with thread():
        assert virtual_clock.has_threads()
    assert not virtual_clock.has_threads()


def test_threads_of_others_and_those_they_start_do_not(virtual_clock: Clock) -> None:
    started, end = threading.Event(), threading.Event()
    later = threading.Thread(target=end.wait, args=(PATIENCE,))

    def start_another() -> None:
        later.start()
        started.set()

    with thread(start_another) as go:
        virtual_clock.start_skipping()
        go.set()
        assert started.wait(PATIENCE)
        assert not virtual_clock.has_threads()
        end.set()
        later.join()


async def test_a_turn_that_takes_long_uses_up_no_timeout() -> None:
    """A process that does not get the processor looks like this, also before the loop has waited once."""
    real = threading.Event()
    async with asyncio.timeout(0.01):
        real.wait(0.05)
        await asyncio.sleep(0)
        real.wait(0.05)
        await asyncio.sleep(0.005)


async def test_a_thread_makes_the_clock_run() -> None:
    before = time.monotonic()
    await asyncio.to_thread(threading.Event().wait, 0.02)
    assert time.monotonic() - before > 0.01


def test_a_test_that_nothing_can_wake_any_more_fails_at_once(virtual_clock: Clock) -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    with thread():
        virtual_clock.start_skipping()
        for _ in range(2):
            with pytest.raises(Stuck, match="nothing else can wake this event loop"):
                asyncio.run(forever())
    assert ended == ["cleaned up"] * 2


def test_one_that_a_thread_wakes_waits_for_it(virtual_clock: Clock) -> None:
    async def woken() -> str:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        with thread(lambda: loop.call_soon_threadsafe(event.set)) as go:
            loop.call_soon(go.set)
            await event.wait()
        return "woken"

    assert asyncio.run(woken()) == "woken"


def test_one_that_gets_a_signal_goes_on(virtual_clock: Clock) -> None:
    async def woken() -> str:
        event = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, event.set)
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGUSR1)
        await event.wait()
        return "woken"

    assert asyncio.run(woken()) == "woken"


async def test_who_looks_in_every_turn_gives_up_in_the_end(virtual_clock: Clock) -> None:
    turns = 0

    async def look() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(look(), PATIENCE)
    assert 20_000 < turns < 40_000


async def test_many_turns_take_no_time(virtual_clock: Clock) -> None:
    begin = time.monotonic()
    for _ in range(3):
        for _ in range(10_000):
            await asyncio.sleep(0)
        await asyncio.sleep(1)
    assert 3 <= time.monotonic() - begin < 3.1


def test_timers_that_come_again_and_again_do_not_keep_a_stuck_test_waiting(
    virtual_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tests.virtual_time, "_MOST_SKIPS", 1_000)
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(30)
            beats += 1

    async def forever() -> None:
        beating = asyncio.create_task(beat())
        await asyncio.Event().wait()
        await beating

    with pytest.raises(Stuck, match="1000 timers have come"):
        asyncio.run(forever())
    assert beats == 1_000
