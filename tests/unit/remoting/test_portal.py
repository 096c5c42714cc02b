"""From threads into the loop and back."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.remoting.portal import Portal, portal


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
