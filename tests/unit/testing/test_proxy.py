"""A proxy in the loop of the test: what it forwards, when, and which connections it closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.testing import TcpProxy, proxy as module
from rocketmq_py.testing.proxy import _Endpoint


class Portal:
    """Stands in for the thread of a proxy: calls at once."""

    def __init__(self) -> None:
        self.stopped = False
        self.ran: list[Any] = []

    def run(self, coroutine: Any) -> None:
        self.ran.append(asyncio.ensure_future(coroutine))

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        function(*arguments)

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Portal", Portal)


class Transport:
    """Notes what is done; ``reading`` and ``closing`` as a real one tells them."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.reading, self.closing = True, False

    def is_reading(self) -> bool:
        return self.reading

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False
        self.done.append("pause")

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True
        self.done.append("resume")

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def abort(self) -> None:
        self.closing = True
        self.done.append("abort")


class Loop:
    """A loop whose time is moved by hand, and whose connections to the target are made when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, proxy: TcpProxy) -> None:
        self.now, self.proxy = 100.0, proxy
        self.later: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []
        self.fault: OSError | None = None
        self.targets: list[tuple[str, int]] = []
        self._loop = asyncio.get_running_loop()
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: self)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., None], *arguments: Any) -> None:
        self.later.append((when, callback, arguments))

    def create_task(self, coroutine: Any) -> Any:
        return self._loop.create_task(coroutine)

    async def create_connection(self, make: Callable[[], _Endpoint], host: str, port: int) -> tuple[Transport, Any]:
        self.targets.append((host, port))
        if self.fault is not None:
            raise self.fault
        endpoint = make()
        endpoint.connection_made(Transport())  # type: ignore[arg-type]
        return endpoint._transport, endpoint  # type: ignore[return-value]

    async def accept(self) -> tuple[_Endpoint, Transport, Transport]:
        """A client's endpoint, its transport and that to the target."""
        client, transport = _Endpoint(self.proxy, self.proxy._target), Transport()
        client.connection_made(transport)  # type: ignore[arg-type]
        assert not transport.reading
        await client._connecting  # type: ignore[misc]
        return client, transport, client._other and client._other._transport  # type: ignore[return-value]

    def run_until(self, now: float) -> None:
        self.now = now
        due = [entry for entry in self.later if entry[0] <= now]
        self.later = [entry for entry in self.later if entry[0] > now]
        for _, callback, arguments in due:
            callback(*arguments)


def proxied(monkeypatch: pytest.MonkeyPatch, **options: float) -> tuple[TcpProxy, Loop]:
    proxy = TcpProxy("target:7", **options)  # type: ignore[arg-type]
    proxy._portal = Portal()  # type: ignore[assignment]
    return proxy, Loop(monkeypatch, proxy)


# -- what is forwarded


async def test_data_is_forwarded_both_ways_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, loop = proxied(monkeypatch)
    client, to_client, to_target = await loop.accept()
    assert (loop.targets, proxy.connections) == ([("target", 7)], 1)
    client.data_received(b"ask")
    client._other.data_received(b"answer")  # type: ignore[union-attr]
    assert (to_client.done, to_target.done) == (["pause", "resume", b"answer"], [b"ask"])
    assert loop.later == []


async def test_data_that_comes_before_the_target_is_connected_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, _ = proxied(monkeypatch)
    client = _Endpoint(proxy, ("target", 7))
    client.connection_made(Transport())  # type: ignore[arg-type]
    client.data_received(b"early")
    await client._connecting  # type: ignore[misc]
    assert client._other._transport.done == [b"early"]  # type: ignore[union-attr]


async def test_a_target_that_cannot_be_reached_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, loop = proxied(monkeypatch)
    loop.fault = ConnectionRefusedError()
    client, to_client, _ = await loop.accept()
    assert to_client.done == ["pause", "abort"]
    client.connection_lost(None)
    assert proxy.connections == 0


async def test_a_client_that_leaves_meanwhile_costs_the_target_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, _ = proxied(monkeypatch)
    client, transport = _Endpoint(proxy, ("target", 7)), Transport()
    client.connection_made(transport)  # type: ignore[arg-type]
    transport.closing = True
    await client._connecting  # type: ignore[misc]
    assert client._other._transport.done == ["abort"]  # type: ignore[union-attr]
    assert client not in proxy._endpoints


async def test_data_is_delayed_and_stays_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, loop = proxied(monkeypatch, delay=2.0)
    client, _, to_target = await loop.accept()
    client.data_received(b"first")
    loop.now = 101.0
    proxy.delay = 0.0
    client.data_received(b"second")
    loop.run_until(101.9)
    assert to_target.done == []
    loop.run_until(102.0)
    assert to_target.done == [b"first", b"second"]
    client.data_received(b"third")
    assert to_target.done[2:] == [b"third"]


async def test_a_rate_limit_delays_each_byte_and_slows_the_sender_down(monkeypatch: pytest.MonkeyPatch) -> None:
    _, loop = proxied(monkeypatch, bytes_per_second=128.0)
    client, to_client, to_target = await loop.accept()
    del to_client.done[:]
    client.data_received(b"x" * 8)
    assert ([when for when, *_ in loop.later], to_client.done) == ([100.0625], []), "less than is read ahead"
    client.data_received(b"y" * 64)
    assert [when for when, *_ in loop.later] == [100.0625, 100.5625, 100.5625]
    assert to_client.done == ["pause"]
    loop.run_until(100.0625)
    assert to_target.done == [b"x" * 8]
    loop.run_until(100.5625)
    assert (to_target.done[1:], to_client.done) == ([b"y" * 64], ["pause", "resume"])
    loop.now = 200.0
    client.data_received(b"z" * 8)
    assert [when for when, *_ in loop.later] == [200.0625]


# -- faults


async def test_a_silent_proxy_keeps_what_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, loop = proxied(monkeypatch)
    client, to_client, to_target = await loop.accept()
    proxy.silence()
    assert (to_client.reading, to_target.reading) == (False, False)
    client.data_received(b"one")
    client.data_received(b"two")
    client.read(wanted=True)
    other, to_other, _ = await loop.accept()
    assert (to_target.done, to_other.reading) == (["pause"], False)
    proxy.resume()
    for _ in range(2):
        proxy.resume()
        assert [step for step in to_target.done if isinstance(step, bytes)] == [b"one", b"two"]
        assert (to_client.reading, to_target.reading, to_other.reading) == (True, True, True)
    assert proxy.connections == 2
    assert other._other is not None


async def test_connections_are_aborted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, loop = proxied(monkeypatch)
    client, to_client, to_target = await loop.accept()
    proxy.kill()
    assert (to_client.done[-1], to_target.done) == ("abort", ["abort"])
    client._other.connection_lost(None)  # type: ignore[union-attr]
    client.connection_lost(OSError("reset"))
    assert (proxy.connections, proxy._endpoints) == (0, set())
    client._other.write(b"late")  # type: ignore[union-attr]
    assert b"late" not in to_target.done
    client.read(wanted=False)
    assert to_client.done[-1] == "abort"


async def test_one_end_takes_the_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, loop = proxied(monkeypatch)
    for number in range(2):
        client, to_client, to_target = await loop.accept()
        lost, kept = (client, to_target) if number else (client._other, to_client)
        lost.connection_lost(None)  # type: ignore[union-attr]
        assert kept.done[-1] == "abort"
    assert len(proxy._endpoints) == 2


async def test_a_half_open_connection_takes_data_and_forwards_none_until_it_heals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy, loop = proxied(monkeypatch, delay=1.0, bytes_per_second=5.0)
    client, to_client, to_target = await loop.accept()
    proxy.half_open()
    assert (to_client.done, to_target.done) == (["pause", "resume"], ["abort"])
    client._other.connection_lost(None)  # type: ignore[union-attr]
    assert not to_client.closing
    assert proxy.connections == 0
    client.data_received(b"nobody reads it")
    assert (to_target.done, loop.later) == (["abort"], [])
    fresh, to_fresh, _ = await loop.accept()
    monkeypatch.setattr(proxy, "start", lambda: loop.targets.append(("started", 0)))
    proxy.silent = True
    proxy.heal()
    assert (proxy.delay, proxy.bytes_per_second, proxy.silent) == (0.0, None, False)
    assert (to_client.done[-1], to_fresh.closing) == ("abort", False)
    assert loop.targets[-1] == ("started", 0)
    assert fresh._other is not None


# -- start and stop


@asynccontextmanager
async def started() -> AsyncIterator[tuple[TcpProxy, asyncio.Queue[bytes]]]:
    """A proxy of a server that sends back what it gets, in upper case."""
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            received.put_nowait(data)
            writer.write(data.upper())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy = TcpProxy(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    proxy.start()
    await asyncio.gather(*proxy._portal.ran)  # type: ignore[union-attr]
    try:
        yield proxy, received
    finally:
        proxy.stop()
        server.close()
        await server.wait_closed()
        for _ in range(3):
            await asyncio.sleep(0)  # aborted transports are closed in the next turns


async def test_a_proxy_forwards_between_sockets_until_it_refuses() -> None:
    async with asyncio.timeout(30), started() as (proxy, received):
        host, _, port = proxy.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"hello")
        assert await received.get() == b"hello"
        assert await reader.read(100) == b"HELLO"
        assert proxy.connections == 1
        proxy.refuse()
        assert await reader.read(1) == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))
        for _ in range(2):
            proxy.start()
            await asyncio.gather(*proxy._portal.ran)  # type: ignore[union-attr]
        assert proxy.address == f"{host}:{port}"
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"again")
        assert await reader.read(100) == b"AGAIN"
        proxy.kill()
        assert await reader.read(1) == b""
        writer.close()


def test_a_stopped_proxy_closes_its_port_and_its_thread() -> None:
    proxy = TcpProxy("[::1]:7")
    assert (proxy._target, proxy.delay, proxy.bytes_per_second, proxy.silent) == (("::1", 7), 0.0, None, False)
    portal = proxy._portal = Portal()  # type: ignore[assignment]
    closed: list[str] = []
    proxy._listener = SimpleNamespace(close=lambda: closed.append("closed"))  # type: ignore[assignment]
    with pytest.raises(KeyError):
        proxy.__exit__(None, None, None) or {}["x"]
    assert (portal.stopped, closed) == (True, ["closed"])  # type: ignore[attr-defined]
    proxy.stop()
    for use in (proxy.kill, proxy.refuse, proxy.silence, proxy.resume, proxy.half_open):
        with pytest.raises(ClosedError, match="the proxy does not run"):
            use()


@pytest.mark.parametrize("target", ["nowhere", ":7", "h:", "h:x", "h:-1"])
def test_a_proxy_needs_host_and_port(target: str) -> None:
    with pytest.raises(ConfigError, match="is not an address: host:port is expected"):
        TcpProxy(target)


async def test_a_proxy_starts_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    proxy = TcpProxy("h:7")
    monkeypatch.setattr(proxy, "start", lambda: steps.append("start"))
    monkeypatch.setattr(proxy, "stop", lambda: steps.append("stop"))
    with proxy as same:
        assert same is proxy
        assert steps == ["start"]
    assert steps == ["start", "stop"]
