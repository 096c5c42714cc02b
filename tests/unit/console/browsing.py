"""A browser of the console on a cluster in memory: nothing is sent anywhere."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.console.app import create_app
from rocketmq_py.console.connection import Connection
from rocketmq_py.console.state import Console
from rocketmq_py.model import Message, MessageQueue
from tests.unit.cli.memory_admin import MemoryAdmin

NOW = 1_700_000_100_000
JSON = {"accept": "application/json"}
Browser = httpx.AsyncClient
Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


class ConsoleAdmin(MemoryAdmin):
    """Also answers what only the console asks."""

    def __init__(self) -> None:
        super().__init__()
        self.counters: dict[tuple[str, str], Any] = {}
        self.running: dict[str, Any] = {}
        self.times: dict[MessageQueue, Any] = {}

    async def counter(self, name: str, key: str, *_: Any, **__: Any) -> Any:
        self._check("counter")
        return self.counters.get((name, key), {})

    async def running_info(self, group: str, client_id: str, **_: Any) -> Any:
        self._check("running_info")
        return self.running[client_id]

    async def consume_times(self, group: str, topic: str) -> Any:
        self._check("consume_times")
        return {queue: time for queue, time in self.times.items() if queue.topic == topic}

    async def all_progress(self, *_: Any, **__: Any) -> Any:
        self._check("all_progress")
        return {group: dict(queues) for group, queues in self.committed.items()}


class MemoryConnection(Connection):
    """A connection whose admin and producer are the test's."""

    def __init__(self, admin: ConsoleAdmin) -> None:
        super().__init__("ns:9876", clock=lambda: self.time)
        self.time = 0.0
        self.memory = admin
        self.sent: list[Message] = []

    def admin(self) -> Admin:
        return self.memory

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[Any]:
        async def send(message: Message) -> Any:
            self.sent.append(message)
            return SimpleNamespace(msg_id=f"sent{len(self.sent)}", queue=Q1, queue_offset=len(self.sent))

        yield SimpleNamespace(send=send, send_ordered=send)


def browse(
    admin: ConsoleAdmin, work: Callable[[Browser, Console], Awaitable[None]], *, read_only: bool = False, host: str = ""
) -> MemoryConnection:
    """Run a test with a browser; returns the connection of its console."""
    connection = MemoryConnection(admin)
    console = Console(connection, read_only=read_only, now=lambda: NOW)

    async def run() -> None:
        transport = httpx.ASGITransport(create_app(console, [host] if host else []))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as browser:
            await work(browser, console)
        await connection.close()

    asyncio.run(run())
    return connection


async def read(browser: Browser, path: str, **params: Any) -> Any:
    """The JSON of a page, whose HTML is looked at, too."""
    page = await browser.get(path, params=params, headers={"accept": "text/html"})
    assert page.status_code == 200, page.text
    assert 'href="/topics"' in page.text
    answer = await browser.get(path, params=params, headers=JSON)
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


async def status(browser: Browser, path: str, **params: Any) -> tuple[int, str]:
    """Status and error of a page."""
    answer = await browser.get(path, params=params, headers=JSON)
    return answer.status_code, answer.json()["error"]


async def token(browser: Browser, path: str, **params: Any) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', (await browser.get(path, params=params)).text)
    assert found is not None
    return found[1]
