"""Connections of the console that send half a request, or nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from rocketmq_py.console import security, server, timed_http
from rocketmq_py.console.server import serve
from tests.unit.console.browsing import ConsoleAdmin, MemoryConnection

GET = b"GET /audit HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def serving(work: Callable[[int], Awaitable[None]]) -> None:
    """Do something with the port of a console."""
    told: list[str] = []

    async def main() -> None:
        await serve(
            MemoryConnection(ConsoleAdmin()), host="127.0.0.1", port=0, read_only=False, hosts=[],
            on_ready=told.append, until=lambda: work(int(told[0].rpartition(":")[2])),
        )  # fmt: skip

    asyncio.run(main())


async def answer(port: int, *parts: bytes) -> bytes:
    """Send parts of requests, and read until the connection ends, also because it does before all was sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"G", GET, GET + b"X: "])
def test_half_a_request_ends_its_connection(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(timed_http, "HEAD_SECONDS", 0.01)

    async def work(port: int) -> None:
        assert await answer(port, sent) == b""

    serving(work)


def test_half_a_request_behind_a_whole_one_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET + b"\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        await reader.readexactly(length)
        monkeypatch.setattr(timed_http, "HEAD_SECONDS", 0.01)
        writer.write(GET)
        assert await reader.read() == b""
        writer.close()

    serving(work)


def test_a_slow_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "FORM_SECONDS", 0.01)
    form = b"POST /groups/g/reset HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"

    async def work(port: int) -> None:
        found = await answer(port, form + b"Content-Length: 100\r\nConnection: close\r\n\r\na=b")
        assert found.startswith(b"HTTP/1.1 408"), found

    serving(work)


class Cycle:
    """A request that is being answered, or was."""

    def __init__(self, response_complete: bool) -> None:
        self.response_complete = response_complete


class Waiting(timed_http.TimedHttp):
    """A connection without a socket."""

    def __init__(self, cycle: Cycle | None) -> None:
        self.cycle = cycle  # type: ignore[assignment]
        self.loop = asyncio.get_running_loop()
        self.closed = 0
        self.transport = self  # type: ignore[assignment]

    def close(self) -> None:
        self.closed += 1


def test_a_page_that_takes_long_is_not_ended() -> None:
    async def main() -> None:
        for cycle, closed in ((None, 1), (Cycle(True), 1), (Cycle(False), 0)):
            made = Waiting(cycle)
            made._wait()
            made._ended()
            assert (made.closed, made._waiting) == (closed, None)

    asyncio.run(main())


def test_a_header_has_ten_seconds_and_a_form_thirty() -> None:
    assert (timed_http.HEAD_SECONDS, security.FORM_SECONDS) == (10.0, 30.0)


def test_warnings_of_one_kind_are_few_and_say_how_many_were_left_out(caplog: pytest.LogCaptureFixture) -> None:
    now, logger = 0.0, logging.getLogger("uvicorn.error")
    with timed_http.FewWarnings(lambda: now).applied():
        for _ in range(25):
            logger.warning("malformed")
        logger.warning("too many")
        for _ in range(25):
            logger.error("a fault")
        now = 60.0
        logger.warning("malformed")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["malformed"] * 20 + ["too many"] + ["a fault"] * 25 + [
        "malformed (5 more such lines were left out)"
    ]
    for _ in range(25):
        logger.warning("malformed")
    assert len(caplog.records) == len(lines) + 25, "it ends with the console"


def test_a_console_limits_the_lines_about_malformed_requests(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FewWarnings", lambda: timed_http.FewWarnings(lambda: 0.0))

    async def work(port: int) -> None:
        for _ in range(25):
            assert b"400" in await answer(port, b"?\r\n\r\n")

    serving(work)
    lines = [record for record in caplog.records if record.getMessage() == "Invalid HTTP request received."]
    assert len(lines) == 20
