"""The pages of health and metrics, served in a thread of their own for an event loop that is the server's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from rocketmq_py import __version__
from rocketmq_py.errors import ConfigError
from rocketmq_py.server.monitoring import endpoint as endpoint_module
from rocketmq_py.server.monitoring.endpoint import MonitoringEndpoint
from rocketmq_py.server.monitoring.exposition import target_info
from rocketmq_py.server.monitoring.http import HttpRequest
from rocketmq_py.server.monitoring.settings import Place

HERE = Place("127.0.0.1", 0)


async def get(port: int, path: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


class Exposition:
    """Stands for a broker's: remembers what was asked, and in which thread."""

    def __init__(self) -> None:
        self.asked: list[frozenset[str]] = []
        self.threads: set[threading.Thread] = set()

    async def __call__(self, names: frozenset[str]) -> list[bytes]:
        self.asked.append(names)
        self.threads.add(threading.current_thread())
        return [b"al", b"l\n"]


def serving(
    test: Callable[[MonitoringEndpoint], Awaitable[None]], collect: Callable[[frozenset[str]], Awaitable[list[bytes]]],
    metrics: Place | None = HERE, health: Place | None = None, fault: str | None = None,
) -> None:  # fmt: skip
    async def main() -> None:
        served = MonitoringEndpoint(metrics, health, lambda: {"store": lambda: fault}, collect)
        await served.start()
        try:
            await test(served)
        finally:
            await served.stop()
            await served.stop()

    asyncio.run(main())


def test_metrics_are_collected_in_the_loop_of_the_server_once_it_has_started() -> None:
    exposition = Exposition()

    async def test(served: MonitoringEndpoint) -> None:
        port = served.ports["metrics"]
        assert await get(port, "/metrics") == (503, b"the server is starting\n")
        assert (await get(port, "/startupz"))[0] == 503
        served.started()
        assert await get(port, "/metrics") == (200, b"all\n")
        assert await get(port, "/metrics?name[]=a&name[]=b") == (200, b"all\n")
        assert (await get(port, "/startupz"))[0] == 200

    serving(test, exposition)
    assert exposition.asked == [frozenset(), frozenset({"a", "b"})]
    assert exposition.threads == {threading.current_thread()}


def test_the_resource_comes_first_unless_other_metrics_are_asked_for() -> None:
    async def test() -> None:
        served = MonitoringEndpoint(HERE, None, dict, Exposition(), target_info("broker", 'a"b', "c"))
        await served.start()
        served.started()
        answers = [(await get(served.ports["metrics"], f"/metrics{query}"))[1].decode().splitlines()
                   for query in ("", "?name[]=target_info", "?name[]=a")]  # fmt: skip
        await served.stop()
        line = (
            'target_info{service_namespace="c",service_name="broker",service_instance_id="a\\"b",'
            f'service_version="{__version__}"}} 1.0'
        )
        assert [answer[-2:] for answer in answers] == [[line, "all"], [line, "all"], ["all"]]
        assert answers[0][1] == "# TYPE target_info gauge"
        assert target_info("broker", "a").decode().splitlines()[2].startswith('target_info{service_name="broker",')

    asyncio.run(test())


def test_a_port_of_health_has_no_metrics() -> None:
    async def test(served: MonitoringEndpoint) -> None:
        served.started()
        assert sorted(served.ports) == ["health"]
        for path, status in (("/livez", 200), ("/readyz", 200), ("/metrics", 404), ("/-/healthy", 404)):
            assert (await get(served.ports["health"], path))[0] == status

    serving(test, Exposition(), metrics=None, health=HERE)


def test_draining_and_faults_make_a_server_unready_and_it_lives() -> None:
    async def faulty(served: MonitoringEndpoint) -> None:
        served.started()
        assert (await get(served.ports["metrics"], "/readyz"))[0] == 503
        assert (await get(served.ports["metrics"], "/-/healthy"))[0] == 200

    async def draining(served: MonitoringEndpoint) -> None:
        served.started()
        assert (await get(served.ports["metrics"], "/readyz"))[0] == 200
        served.draining()
        assert (await get(served.ports["metrics"], "/readyz"))[0] == 503
        assert (await get(served.ports["metrics"], "/livez"))[0] == 200

    serving(faulty, Exposition(), fault="no disk")
    serving(draining, Exposition())


def test_a_server_that_does_not_collect_in_time_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "COLLECT_SECONDS", 0.0)

    async def never(names: frozenset[str]) -> list[bytes]:
        await asyncio.Event().wait()
        return []

    async def test(served: MonitoringEndpoint) -> None:
        served.started()
        assert await get(served.ports["metrics"], "/metrics") == (503, b"the server does not answer\n")

    serving(test, never)


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    async def test(served: MonitoringEndpoint) -> None:
        taken = Place("127.0.0.1", served.ports["metrics"])
        second = MonitoringEndpoint(taken, None, dict, Exposition())
        with pytest.raises(ConfigError, match=f"cannot serve health and metrics on 127.0.0.1:{taken.port}"):
            await second.start()
        assert second._thread is not None
        assert not second._thread.is_alive()

    serving(test, Exposition())


def test_an_address_of_all_interfaces_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(served: MonitoringEndpoint) -> None:
        assert "without access control: anyone who reaches it reads /livez /readyz /startupz" in caplog.text

    async def local(served: MonitoringEndpoint) -> None:
        assert caplog.text == ""

    serving(local, Exposition())
    serving(test, Exposition(), metrics=None, health=Place("0.0.0.0", 0))


def test_the_turns_of_the_loop_are_watched_from_the_start_and_the_thread_ends() -> None:
    async def test(served: MonitoringEndpoint) -> None:
        assert served._heartbeat._timer is None
        served.started()
        assert served._heartbeat._timer is not None
        await served.stop()
        assert served._heartbeat._timer is None
        assert served._thread is not None
        assert not served._thread.is_alive()

    serving(test, Exposition())


def test_it_waits_for_metrics_for_twenty_seconds() -> None:
    async def main() -> None:
        async def slow(names: frozenset[str]) -> list[bytes]:
            await asyncio.Event().wait()
            return []

        served = MonitoringEndpoint(HERE, None, dict, slow)
        served._server_loop, served.health.has_started = asyncio.get_running_loop(), True
        begin = asyncio.get_running_loop().time()
        page = await served._metrics(HttpRequest("GET", "/metrics", {}, {}))
        assert (page.status, page.body) == (503, b"the server does not answer\n")
        assert asyncio.get_running_loop().time() - begin == pytest.approx(20, abs=0.9)

    asyncio.run(main())


def test_nothing_is_left_of_it_after_its_end() -> None:
    loops: list[asyncio.AbstractEventLoop | None] = []
    ports: list[int] = []

    async def test(served: MonitoringEndpoint) -> None:
        loops.append(served._loop)
        assert served._thread is not None
        assert served._thread.daemon, "a thread that hangs must not keep the process"
        await served.stop()
        ports.append(served.ports["metrics"])
        with pytest.raises(OSError, match=r".*"):
            await get(ports[0], "/livez")

    serving(test, Exposition())
    [loop] = loops
    assert loop is not None
    assert loop.is_closed()
