from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future

import pytest

from rocketmq_py.server.monitoring.health import STUCK_SECONDS, Health, Heartbeat, Result, page
from rocketmq_py.server.monitoring.http import HttpRequest

PLAIN = HttpRequest("GET", "/", {}, {})
VERBOSE = HttpRequest("GET", "/", {"verbose": [""]}, {})
JSON = HttpRequest("GET", "/", {}, {"accept": "application/json"})


def at_once(function):
    done = Future()
    done.set_result(function())
    return done


class Server:
    def __init__(self) -> None:
        self.now = 0.0
        self.faults: dict[str, str | None] = {"store": None, "registered": None}
        self.heartbeat = Heartbeat(lambda: self.now)
        self.health = Health(
            self.heartbeat, lambda: {name: lambda f=fault: f for name, fault in self.faults.items()}, at_once
        )

    def get(self, path: str, request: HttpRequest = PLAIN) -> tuple[int, str]:
        page = asyncio.run(self._page(path, request))
        return page.status, page.body.decode()

    async def _page(self, path, request):
        return await self.health.pages[path](request)


def test_a_server_that_recovers_its_store_lives_and_is_not_started():
    server = Server()
    server.now = 10 * STUCK_SECONDS
    assert server.get("/livez") == (200, "ok\n")
    assert server.get("/startupz")[0] == 503
    assert server.get("/readyz")[0] == 503


def test_a_started_server_is_ready_unless_a_check_fails():
    server = Server()
    server.health.has_started = True
    assert server.get("/startupz") == (200, "ok\n")
    assert server.get("/readyz") == (200, "ok\n")
    server.faults["store"] = "the disk is full"
    assert server.get("/readyz") == (503, "[-] store failed: the disk is full\nfailed\n")
    assert server.get("/livez")[0] == 200
    status, text = server.get("/readyz", VERBOSE)
    assert "[+] registered ok\n" in text
    status, text = server.get("/readyz", JSON)
    assert (status, json.loads(text)["checks"]["store"]) == (503, "the disk is full")


def test_a_draining_server_lives_and_is_not_ready():
    server = Server()
    server.health.has_started = server.health.is_draining = True
    assert server.get("/livez")[0] == 200
    assert server.get("/readyz") == (503, "[-] draining failed: the server sends its clients away\nfailed\n")


def test_a_loop_that_does_not_turn_is_not_alive():
    server = Server()

    async def main() -> None:
        server.heartbeat.start()
        server.now = STUCK_SECONDS + 1
        assert (await server._page("/livez", PLAIN)).status == 503
        server.heartbeat.stop()
        assert (await server._page("/livez", PLAIN)).status == 200

    asyncio.run(main())


def test_a_loop_may_stand_still_for_thirty_seconds():
    assert STUCK_SECONDS == 30


def test_the_time_since_a_turn_is_nothing_before_the_start_and_after_the_end():
    server = Server()
    server.now = 5.0
    assert server.heartbeat.silent_seconds == 0.0

    async def main() -> None:
        server.heartbeat.start()
        timer = server.heartbeat._timer
        assert timer.when() - asyncio.get_running_loop().time() == pytest.approx(1.0, abs=0.4)
        server.now = 12.5
        assert server.heartbeat.silent_seconds == 7.5
        server.heartbeat.stop()
        assert timer.cancelled()
        assert server.heartbeat.silent_seconds == 0.0

    asyncio.run(main())


def test_a_loop_is_stuck_after_more_than_thirty_seconds():
    server = Server()

    async def main() -> None:
        server.heartbeat.start()
        server.now = 30.0
        assert (await server._page("/livez", PLAIN)).status == 200
        server.now = 30.75
        stuck = await server._page("/livez", PLAIN)
        assert (stuck.status, stuck.body) == (503, b"[-] loop failed: the event loop has not turned for 31 s\nfailed\n")
        server.heartbeat.stop()

    asyncio.run(main())


def test_all_checks_are_shown_if_they_are_asked_for():
    server = Server()
    starting = "[-] started failed: the server is starting: it recovers its store\nfailed\n"
    assert server.get("/readyz") == server.get("/startupz") == (503, starting)
    server.health.has_started = True
    passed = "[+] started ok\n[+] draining ok\n[+] store ok\n[+] registered ok\nok\n"
    assert server.get("/readyz", VERBOSE) == (200, passed)
    assert server.get("/startupz", VERBOSE) == (200, "[+] started ok\nok\n")
    assert server.get("/livez", VERBOSE) == (200, "[+] loop ok\nok\n")
    status, text = server.get("/readyz", JSON)
    checks = {"started": "ok", "draining": "ok", "store": "ok", "registered": "ok"}
    assert (status, json.loads(text), text[-1]) == (200, {"status": "ok", "checks": checks}, "\n")


def test_json_has_its_media_type_and_what_failed():
    made = page([Result("a", None), Result("b", "no")], JSON)
    assert (made.status, made.content_type) == (503, "application/json")
    assert json.loads(made.body) == {"status": "failed", "checks": {"a": "ok", "b": "no"}}
    assert page([Result("a", None)], PLAIN).content_type == "text/plain; charset=utf-8"


def test_a_loop_that_does_not_answer_in_two_seconds_is_not_ready():
    health = Health(Heartbeat(), dict, lambda _: Future())
    health.has_started = True

    async def main() -> None:
        begin = asyncio.get_running_loop().time()
        made = await health.pages["/readyz"](PLAIN)
        assert asyncio.get_running_loop().time() - begin == pytest.approx(2, abs=0.9)
        assert (made.status, made.body) == (
            503, b"[-] loop failed: the event loop does not answer within 2 s\nfailed\n",
        )  # fmt: skip

    asyncio.run(main())
