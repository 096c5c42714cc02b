"""Concurrent callers share one run of a coroutine."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.errors import BrokerError, ConnectError
from rocketmq_py.remoting.single_flight import SingleFlight, WorkCancelled, own_copy


async def test_concurrent_callers_share_one_run() -> None:
    runs: list[str] = []

    async def work(key: str) -> str:
        runs.append(key)
        await asyncio.sleep(0.01)
        return key.upper()

    flight = SingleFlight(work)
    assert await asyncio.gather(*(flight.get(key) for key in "aab")) == ["A", "A", "B"]
    assert runs == ["a", "b"]
    assert await flight.get("a") == "A"
    assert runs == ["a", "b", "a"]


async def test_every_caller_gets_its_own_error() -> None:
    async def work(_: str) -> None:
        await asyncio.sleep(0)
        raise ConnectError("no") from OSError("refused")

    flight = SingleFlight(work)
    errors = await asyncio.gather(*(flight.get("a") for _ in range(3)), return_exceptions=True)
    assert len({id(error) for error in errors}) == 3
    assert {(type(error), str(error)) for error in errors} == {(ConnectError, "no")}
    assert all(isinstance(error, ConnectError) and isinstance(error.__cause__, OSError) for error in errors)


async def test_a_cancelled_caller_does_not_cancel_the_run() -> None:
    async def work(_: str) -> int:
        await asyncio.sleep(0.05)
        return 1

    flight = SingleFlight(work)
    patient = asyncio.ensure_future(flight.get("a"))
    with pytest.raises(TimeoutError):
        await flight.get("a", timeout=0.01)
    assert await patient == 1


async def test_a_cancelled_run_is_an_error_for_its_callers() -> None:
    flight = SingleFlight[str, None](lambda _: asyncio.sleep(60))
    waiting = asyncio.ensure_future(flight.get("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    flight.cancel()
    with pytest.raises(WorkCancelled):
        await waiting
    assert flight.tasks == []


def test_a_copy_of_an_error_has_its_fields() -> None:
    error = BrokerError.of(17, "no such topic", "h:1")
    copied = own_copy(error)
    assert copied is not error
    assert type(copied) is type(error)
    assert (copied.code, copied.address, str(copied)) == (17, "h:1", str(error))


async def test_a_caller_that_has_left_does_not_cost_the_others_the_result() -> None:
    ready = asyncio.Event()

    async def work(_: str) -> int:
        await ready.wait()
        return 1

    flight = SingleFlight(work)
    waiting = [asyncio.ensure_future(flight.get("a")) for _ in range(3)]
    await asyncio.sleep(0)
    running = flight.begin("a")
    assert len(running.waiters) == 3
    waiting[1].cancel()
    await asyncio.wait([waiting[1]])
    assert len(running.waiters) == 2
    ready.set()
    next(iter(running.waiters)).cancel()  # it is done, and still among the waiters
    assert await waiting[2] == 1
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
