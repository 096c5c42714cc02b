"""``/debug/stacks``: where threads and tasks are, for those on this machine only."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from rocketmq_py.server.monitoring import stacks as module
from rocketmq_py.server.monitoring.endpoint import MonitoringEndpoint
from rocketmq_py.server.monitoring.http import HttpRequest
from rocketmq_py.server.monitoring.settings import Place
from rocketmq_py.server.monitoring.stacks import stacks, stacks_page


async def waiting_for_nothing(event: asyncio.Event) -> None:
    await event.wait()


def test_threads_and_tasks_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    release, running = threading.Event(), threading.Event()

    def a_function_that_waits() -> None:
        running.set()
        release.wait()

    async def main() -> str:
        event = asyncio.Event()
        tasks = [asyncio.create_task(waiting_for_nothing(event), name=f"t{number}") for number in range(3)]
        await asyncio.sleep(0)
        text = await asyncio.to_thread(stacks, asyncio.get_running_loop())
        monkeypatch.setattr(module, "MOST_TASKS", 2)
        assert "and 2 more tasks\n" in stacks(asyncio.get_running_loop())  # three, and the one that runs this
        event.set()
        await asyncio.gather(*tasks)
        return text

    thread = threading.Thread(target=a_function_that_waits, name="the stuck one")
    thread.start()
    running.wait()
    text = asyncio.run(main())
    release.set()
    thread.join()
    part = text[text.index("thread the stuck one\n") :].partition("\n\n")[0]
    assert "in a_function_that_waits" in part
    part = text[text.index("task t1 waiting_for_nothing\n") :].partition("\n\n")[0]
    assert "await event.wait()" in part
    assert "task" not in stacks(None).splitlines()[0]


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:5557", 200), ("127.0.0.1", 200), ("localhost:1", 200), ("[::1]:1", 200), ("evil.example:5557", 421),
     ("", 421), ("127.0.0.1.evil.example:1", 421)],
)  # fmt: skip
def test_pages_of_other_sites_cannot_read_it(host: str, status: int) -> None:
    assert stacks_page(None, HttpRequest("GET", "/debug/stacks", {}, {"host": host})).status == status


@pytest.mark.parametrize(("host", "there"), [("127.0.0.1", True), ("0.0.0.0", False)])
def test_only_loopback_addresses_have_the_page(host: str, there: bool) -> None:
    async def collect(_: frozenset[str]) -> bytes:
        return b""

    async def main() -> bytes:
        served = MonitoringEndpoint(None, Place(host, 0), dict, collect)
        await served.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", served.ports["health"])
        writer.write(b"GET /debug/stacks HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await served.stop()
        return answer

    answer = asyncio.run(main())
    assert (b" 200 " in answer.split(b"\r\n")[0]) is there
    assert (b"thread rocketmq-monitoring" in answer) is there


def test_the_innermost_thirty_frames_of_a_thread_are_shown() -> None:
    def deep(left: int) -> str:
        return deep(left - 1) if left else module._of_frame(sys._getframe())

    text = deep(40)
    assert text.count("  File ") + text.count("[Previous line repeated 38 more times]") == 30
    assert text.endswith("module._of_frame(sys._getframe())\n  [Previous line repeated 38 more times]\n")


def test_each_frame_of_a_task_is_shown_once_and_so_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FRAMES", 3)

    async def main() -> str:
        asyncio.current_task().set_name("me")  # type: ignore[union-attr]
        return stacks(asyncio.get_running_loop())

    part = asyncio.run(main()).rpartition("task me ")[2]
    assert (part.count("  File "), part.count("return stacks(")) == (3, 1)


@pytest.mark.parametrize(("most", "more"), [(1, ""), (0, "and 1 more tasks\n")])
def test_tasks_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch, most: int, more: str) -> None:
    assert module.MOST_TASKS == 500
    monkeypatch.setattr(module, "MOST_TASKS", most)

    async def main() -> str:
        return stacks(asyncio.get_running_loop())

    text = asyncio.run(main())
    assert text[text.rindex("\n\n") + 2 :] == more


def test_a_stranger_is_told_how_to_ask() -> None:
    page = stacks_page(None, HttpRequest("GET", "/debug/stacks", {}, {}))
    assert (page.status, page.body) == (421, b"ask for it as http://127.0.0.1\n")
