"""The pop loop of one queue, with answers that tests give: what it asks for, when, and to whom messages go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rocketmq_py.client.consumer.calls.pop_calls import PopAnswer
from rocketmq_py.client.consumer.consumer_group import ConsumerState
from rocketmq_py.client.consumer.push.pop_loop import PopLoop
from rocketmq_py.core.consumer.flow_control import FlowLimits
from rocketmq_py.core.pop.receipts import PopQueue
from rocketmq_py.errors import ConnectionLost, RocketMQError
from rocketmq_py.model import ConsumeFromWhere, MessageQueue

QUEUE = MessageQueue("T", "b", -1)


class Failures:
    """The log of repeated failures; ``level`` is that of the next recovery."""

    duration = ""

    def __init__(self) -> None:
        self.level: int | None = None
        self.is_closed = False

    def failed(self, error: Exception) -> int:
        self.level = logging.INFO
        return logging.WARNING

    def recovered(self) -> int | None:
        level, self.level = self.level, None
        return level

    def close(self) -> None:
        self.is_closed = True


class Bench:
    """``asked`` are poll times of pops and futures of their answers; ``done`` are deliveries and returned messages."""

    def __init__(self, **options: Any) -> None:
        wanted: dict[str, Any] = {
            "orderly": False, "pull_interval": 0.0, "pulls_in_flight": 1, "pop_limits": FlowLimits(1000, 100, None),
            "pop_batch_size": 2, "pop_invisible_time": 60.0, "consume_from": ConsumeFromWhere.LAST_OFFSET,
            "pull_delay_after_error": 3.0,
        }  # fmt: skip
        self.asked: list[tuple[float, asyncio.Future[PopAnswer | None]]] = []
        self.times: list[float] = []
        self.pulled: list[tuple[int, float]] = []
        self.done: list[tuple[str, Any]] = []
        self.refreshed: list[set[str]] = []
        self.failures = Failures()
        self.group = SimpleNamespace(
            name="g", options=SimpleNamespace(**wanted | options), failure_log=lambda *_: self.failures,
            now=lambda: asyncio.get_running_loop().time(), state=ConsumerState.RUNNING, suspended=False,
            announced={"T": object()}, subscriptions={"T": object()},
            stats=lambda _: SimpleNamespace(pulled=SimpleNamespace(add=lambda *one: self.pulled.append(one))),
            instance=SimpleNamespace(routes=SimpleNamespace(refresh_all=self._refresh)),
        )  # fmt: skip
        self.queue = PopQueue(QUEUE, 0.0)
        self.loop = PopLoop(
            cast(Any, self.group), self.queue, cast(Any, self),
            lambda queue, answer, visible_at: self.done.append(("delivered", (answer.popped, round(visible_at, 3)))),
            lambda popped: self.done.append(("given back", popped)),
        )  # fmt: skip

    async def _refresh(self, topics: set[str]) -> None:
        self.refreshed.append(topics)

    async def pop(self, queue: MessageQueue, subscription: object, *, poll: float, **_: object) -> PopAnswer | None:
        assert (queue, subscription) == (QUEUE, self.group.announced["T"])
        self.asked.append((poll, asyncio.get_running_loop().create_future()))
        self.times.append(self.group.now())
        return await self.asked[-1][1]

    async def answer(self, at: int, result: PopAnswer | Exception | None) -> None:
        future = self.asked[at][1]
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def start(self) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self.loop.run())
        await self.settle()
        return task

    def at(self, poll: float) -> int:
        """The number of the first pop with this poll time that has no answer."""
        return next(at for at, (its_poll, future) in enumerate(self.asked) if its_poll == poll and not future.done())

    @property
    def polls(self) -> list[float]:
        """Poll times of the pops without an answer."""
        return [poll for poll, future in self.asked if not future.done()]


def found(popped: int, unwanted: int = 0) -> PopAnswer:
    names = [f"m{number}" for number in range(popped + unwanted)]
    return PopAnswer(cast(Any, names[:popped]), cast(Any, names[popped:]), 7)


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_messages_are_delivered_with_the_time_when_others_see_them_and_counted() -> None:
    bench = Bench()
    task = await bench.start()
    began = bench.group.now()
    await asyncio.sleep(2)
    await bench.answer(0, found(2, 1))
    [(what, (popped, visible_at))] = bench.done
    assert (what, popped) == ("delivered", ["m0", "m1"])
    assert visible_at == pytest.approx(began + 62, abs=0.1)
    [(count, seconds)] = bench.pulled
    assert (count, seconds) == (2, pytest.approx(2, abs=0.1))
    assert bench.polls == [15.0], "the next pop, at once"
    await bench.answer(1, None)
    assert (len(bench.done), bench.polls) == (1, [15.0])
    await end(task)
    assert bench.failures.is_closed


@pytest.mark.parametrize(
    ("answer", "is_full"),
    [(found(2), True), (found(1, 1), True), (found(0, 2), True), (found(1), False), (None, False)],
)
async def test_an_answer_is_full_if_the_broker_gave_what_was_asked_for(answer: PopAnswer | None, is_full: bool) -> None:
    bench = Bench(pulls_in_flight=2)
    task = await bench.start()
    await bench.answer(0, answer)
    assert sorted(bench.polls) == ([0.0, 15.0] if is_full else [15.0])
    if is_full:
        await bench.answer(bench.at(0.0), answer)
        assert sorted(bench.polls) == [0.0, 15.0], "and so is that of a pop ahead"
    await end(task)


@pytest.mark.parametrize(("pulls", "most"), [(1, 1), (2, 2), (3, 3), ("auto", 32)])
async def test_no_more_pops_are_in_flight_than_allowed(pulls: int | str, most: int) -> None:
    bench = Bench(pulls_in_flight=pulls)
    task = await bench.start()
    for _ in range(2 * most):
        await bench.answer(bench.at(15.0), found(2))
    assert sorted(bench.polls) == [0.0] * (most - 1) + [15.0]
    await end(task)


@pytest.mark.parametrize("options", [{"orderly": True}, {"pull_interval": 5.0}])
async def test_orderly_pops_and_those_with_an_interval_go_alone(options: dict[str, Any]) -> None:
    bench = Bench(pulls_in_flight=8, **options)
    task = await bench.start()
    for number in range(4):
        await bench.answer(number, found(2))
        await asyncio.sleep(6)
        assert bench.polls == [15.0]
    gaps = [later - earlier for earlier, later in zip(bench.times[1:], bench.times[2:], strict=False)]
    assert gaps == [pytest.approx(6, abs=0.1)] * 3
    await end(task)


async def test_pops_with_an_interval_begin_as_far_apart() -> None:
    bench = Bench(pull_interval=5.0)
    task = await bench.start()
    for number in range(3):
        await bench.answer(number, found(2))
        await asyncio.sleep(5.1)
    gaps = [later - earlier for earlier, later in zip(bench.times, bench.times[1:], strict=False)]
    assert gaps[:1] == [pytest.approx(5, abs=0.05)]
    assert len(bench.times) == 4
    await end(task)


async def test_pops_in_flight_count_with_all_they_may_bring() -> None:
    bench = Bench(pulls_in_flight=8, pop_limits=FlowLimits(1, 100, None))
    task = await bench.start()
    await bench.answer(0, found(2))
    assert bench.polls == [0.0], "nothing was in flight before this pop ahead, two messages may come now"
    await bench.answer(1, found(2))
    assert bench.polls == [0.0]
    await bench.answer(2, found(1))
    await asyncio.sleep(0.1)
    assert bench.polls == [15.0]
    await end(task)


async def test_the_held_pop_counts_for_pops_ahead() -> None:
    bench = Bench(pulls_in_flight=3)
    task = await bench.start()
    await bench.answer(0, found(2))
    await bench.answer(bench.at(15.0), found(2))
    assert sorted(bench.polls) == [0.0, 0.0, 15.0]
    bench.group.options.pop_limits = FlowLimits(3, 100, None)
    await bench.answer(bench.at(0.0), found(2))
    assert sorted(bench.polls) == [0.0, 15.0], "four messages may come"
    bench.group.options.pop_limits = FlowLimits(4, 100, None)
    await bench.answer(bench.at(15.0), found(2))
    assert sorted(bench.polls) == [0.0, 0.0, 15.0]
    await end(task)


@pytest.mark.parametrize("error", [ConnectionLost("gone"), RocketMQError("no"), ValueError("a bug")])
async def test_a_pop_that_fails_is_tried_again_after_its_pause(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(pulls_in_flight=2)
    caplog.set_level(logging.INFO)
    task = await bench.start()
    began = bench.group.now()
    await bench.answer(0, error)
    assert bench.polls == [], "no pop ahead, and none at once"
    await asyncio.sleep(3.5)
    assert bench.polls == [15.0]
    assert bench.times[1] - began == pytest.approx(3, abs=0.1)
    assert bench.refreshed == ([{"T"}] if isinstance(error, ConnectionLost) else [])
    assert caplog.text.count("popping T@b:-1 failed") == 1
    await bench.answer(1, None)
    await bench.answer(2, None)
    assert caplog.text.count("popping T@b:-1 works again") == (not isinstance(error, ValueError))
    await end(task)


@pytest.mark.parametrize("state", [{"suspended": True}, {"announced": {}}, {"state": ConsumerState.STARTING}])
async def test_it_waits_while_its_group_forbids_pops_and_can_be_woken(state: dict[str, Any]) -> None:
    bench = Bench()
    before = dict(vars(bench.group))
    vars(bench.group).update(state)
    task = await bench.start()
    await asyncio.sleep(5)
    assert bench.asked == []
    vars(bench.group).update({name: before[name] for name in state})
    began = bench.group.now()
    bench.loop.wake()
    await bench.settle()
    assert bench.polls == [15.0]
    assert bench.times[0] - began < 0.1
    await end(task)


async def test_it_ends_when_its_queue_is_taken_away_and_pops_ahead_end_with_it() -> None:
    bench = Bench(pulls_in_flight=3)
    task = await bench.start()
    await bench.answer(0, found(2))
    assert sorted(bench.polls) == [0.0, 15.0]
    bench.queue.dropped = True
    await bench.answer(bench.at(15.0), None)
    await asyncio.wait_for(task, 5)
    assert bench.failures.is_closed
    await bench.answer(bench.at(0.0), found(2))
    assert [what for what, _ in bench.done] == ["delivered", "delivered"], "the last one although the loop has ended"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "delivered"),
        ({"state": ConsumerState.CLOSING}, "given back"),
        ({"subscriptions": {}}, "given back"),
        ({"orderly": True}, "given back"),
    ],
)
async def test_an_answer_that_comes_after_the_loop_was_cancelled(change: dict[str, Any], expected: str) -> None:
    bench = Bench(orderly=change.get("orderly", False))
    task = await bench.start()
    await end(task)
    vars(bench.group).update({name: value for name, value in change.items() if name != "orderly"})
    await asyncio.sleep(2)
    now = bench.group.now()
    await bench.answer(0, found(1, 1))
    [(what, told)] = bench.done
    assert what == expected
    if expected == "delivered":
        assert (told[0], told[1]) == (["m0"], pytest.approx(now + 60, abs=0.1))
    else:
        assert told == ["m0"]
    assert bench.loop._late == set()


@pytest.mark.parametrize("answer", [None, ConnectionLost("gone")])
async def test_an_empty_or_lost_answer_after_the_end_is_nothing(answer: Exception | None) -> None:
    bench = Bench()
    await end(await bench.start())
    assert len(bench.loop._late) == 1
    await bench.answer(0, answer)
    assert (bench.done, bench.loop._late) == ([], set())
