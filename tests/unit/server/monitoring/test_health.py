from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future

from rocketmq_py.server.monitoring.health import STUCK_SECONDS, Health, Heartbeat
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
