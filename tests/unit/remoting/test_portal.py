"""From threads into the loop and back."""

from __future__ import annotations

import asyncio
import atexit
import importlib.util
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.errors import ClosedError, ConfigError, ForkedError
from rocketmq_py.remoting import portal as module
from rocketmq_py.remoting.portal import Portal, new_event_loop, portal


def test_one_portal_serves_all_threads() -> None:
    async def where() -> int:
        return threading.get_ident()

    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(portal().run(where()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_results_and_errors_are_returned_to_the_thread() -> None:
    async def fails() -> None:
        raise ConfigError("as told")

    with pytest.raises(ConfigError, match="as told"):
        portal().run(fails())
    assert portal().call(lambda a, b: a + b, 1, 2) == 3


def test_an_interrupted_wait_cancels_the_coroutine() -> None:
    cancelled: Future[bool] = Future()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set_result(True)
            raise

    with pytest.raises(TimeoutError):
        portal().run(forever(), timeout=0.01)
    assert cancelled.result(5)


def test_posted_calls_run_in_order() -> None:
    seen: list[tuple[int, int]] = []
    done = threading.Event()

    def post(thread: int) -> None:
        for i in range(2000):
            portal().post(lambda i=i: seen.append((thread, i)))  # type: ignore[misc]

    threads = [threading.Thread(target=post, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    portal().post(done.set)
    assert done.wait(10)
    assert len(seen) == 8000
    for n in range(4):
        assert [i for thread, i in seen if thread == n] == list(range(2000))


def test_a_failing_posted_call_is_logged_and_the_next_one_runs() -> None:
    mine = Portal()
    reported: Future[str] = Future()
    made = threading.Event()

    def fails() -> None:
        mine.post(made.set)
        raise ConfigError("as told")

    mine.loop.set_exception_handler(lambda _, context: reported.set_result(str(context["exception"])))
    mine.post(fails)
    assert made.wait(10)
    assert reported.result(10) == "as told"
    mine.stop()


def test_a_blocking_call_on_the_loop_thread_raises() -> None:
    async def blocks() -> None:
        async def never() -> None:
            raise AssertionError

        portal().run(never())

    with pytest.raises(ConfigError, match=r"rocketmq_py\.aio"):
        portal().run(blocks())


def test_a_stopped_portal_cancels_running_calls_and_refuses_new_ones() -> None:
    mine = Portal()
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    mine.submit(forever())
    mine.call(lambda: None)
    mine.stop()
    mine.stop()
    assert cancelled.is_set()
    assert not mine.alive
    with pytest.raises(ClosedError, match="has ended"):
        mine.run(forever())


def test_the_loop_is_that_of_uvloop_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=lambda: "uvloop"))
    assert new_event_loop() == "uvloop"  # type: ignore[comparison-overlap]
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    assert isinstance(loop, asyncio.AbstractEventLoop)
    loop.close()


def test_a_portal_ends_its_loop_and_does_not_hold_up_the_interpreter() -> None:
    mine = Portal()
    assert (mine._thread.daemon, mine._thread.name) == (True, "rocketmq-loop")
    ended = threading.Event()

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.set()

    async def begin() -> Any:
        found = items()
        await anext(found)
        return found

    held = mine.run(begin())
    mine.stop()
    assert held is not None
    assert ended.is_set(), "generators are closed"
    assert mine.loop.is_closed()


def test_a_portal_is_waited_for_two_seconds() -> None:
    mine = Portal()
    waited: list[float] = []
    thread = mine._thread
    mine._thread = SimpleNamespace(is_alive=thread.is_alive, ident=thread.ident, join=waited.append)  # type: ignore[assignment]
    mine.stop()
    thread.join()
    assert waited == [2.0]


def test_a_fork_cannot_use_the_portal_of_its_parent() -> None:
    async def never() -> None:
        raise AssertionError

    mine = Portal()
    mine._process._generation += 1
    assert not mine.alive
    with pytest.raises(ForkedError):
        mine.run(never())
    mine._process._generation -= 1
    mine.stop()


def test_posted_calls_share_a_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Portal()
    woken: list[Callable[[], None]] = []
    monkeypatch.setattr(mine.loop, "call_soon_threadsafe", woken.append)
    seen: list[int] = []
    for number in range(3):
        mine.post(lambda number=number: seen.append(number))  # type: ignore[misc]
    assert (len(woken), seen) == (1, [])
    woken[0]()
    assert seen == [0, 1, 2]
    mine.post(lambda: seen.append(3))
    assert len(woken) == 2
    monkeypatch.undo()
    mine.stop()


def test_the_calls_after_one_that_fails_are_made_in_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Portal()
    seen: list[str] = []
    again: list[Callable[[], None]] = []
    monkeypatch.setattr(mine.loop, "call_soon_threadsafe", lambda _: None)
    monkeypatch.setattr(mine.loop, "call_soon", again.append)
    mine.post(lambda: seen.append("first"))
    mine.post(lambda: seen[5])  # type: ignore[arg-type, return-value]
    mine.post(lambda: seen.append("third"))
    with pytest.raises(IndexError):
        mine._run_posted()
    assert (seen, len(again)) == (["first"], 1)
    again[0]()
    assert (seen, len(again)) == (["first", "third"], 1)
    monkeypatch.undo()
    mine.stop()


def test_the_portal_of_a_process_is_stopped_at_exit_and_replaced_when_it_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hooks: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", hooks.append)
    monkeypatch.setattr(module, "_current", None)
    first = portal()
    assert portal() is first
    assert hooks == [first.stop]
    hooks[0]()
    second = portal()
    assert second is not first
    assert hooks == [first.stop, second.stop]
    second.stop()


def test_a_fork_has_a_lock_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: list[dict[str, Callable[[], None]]] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **given: hooks.append(given), raising=False)
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location("portal_again", module.__file__)
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    (hook,) = hooks
    before = again._lock
    hook["after_in_child"]()
    assert again._lock is not before
