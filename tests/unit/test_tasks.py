"""Work in the background: ended by its owner, and never silent about a fault."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.tasks import Background


async def forever(ended: list[str], name: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append(name)


async def test_a_stop_waits_for_the_running_task() -> None:
    work, ended = Background(), list[str]()
    await work.stop()
    work.start(forever(ended, "a"), forever(ended, "b"))
    work.start(forever(ended, "c"))
    await asyncio.sleep(0)
    assert work.runs
    await work.stop()
    assert sorted(ended) == ["a", "b", "c"]
    assert not work.runs
    work.start(forever(ended, "d"))
    await asyncio.sleep(0)
    work.cancel()
    assert ended[3:] == []
    await work.stop()
    assert ended[3:] == ["d"]


def test_a_replacing_task_starts_after_the_replaced_one() -> None:
    async def slowly(said: list[str]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            said.append("the first has ended")

    async def second(said: list[str]) -> None:
        said.append("the second begins")

    async def scenario() -> None:
        work, said = Background(), list[str]()
        work.start(slowly(said))
        await asyncio.sleep(0)
        work.replace(lambda: second(said))
        while work.runs:  # noqa: ASYNC110 - the next turn of the loop
            await asyncio.sleep(0)
        assert said == ["the first has ended", "the second begins"]
        work.replace()
        assert not work.runs

    asyncio.run(scenario())


def test_an_exception_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError("by nothing")

    async def scenario() -> None:
        work = Background()
        work.start(fails())
        while work.runs:  # noqa: ASYNC110 - the next turn of the loop
            await asyncio.sleep(0)
        [record] = caplog.records
        assert "fails" in record.message
        assert record.message.endswith("failed: by nothing")
        assert record.exc_info is not None

    asyncio.run(scenario())
