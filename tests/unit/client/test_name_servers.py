"""Addresses of name servers: as people write them, and fetched from a URL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rocketmq_py.client import name_servers as module
from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.name_servers import NameServers, name_servers
from rocketmq_py.errors import ConfigError, ConnectError, NetworkError
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.scripted import Answerer, ScriptedNetwork, cluster


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://h:1", ["h:1"]),
        ("HTTP://h:1/", ["h:1"]),
        ("http://h:1;http://g:2", ["h:1", "g:2"]),
        ("h:1, g:2", ["h:1", "g:2"]),
        (["http://h:1", "g:2"], ["h:1", "g:2"]),
        ("http://h:8080/rocketmq/nsaddr", ["http://h:8080/rocketmq/nsaddr"]),
        ("https://h/ns", ["https://h/ns"]),
    ],
)
def test_addresses_and_urls_are_distinguished(given: str | list[str], expected: list[str]) -> None:
    assert name_servers(given) == expected
    assert name_servers(expected) == expected


@pytest.mark.parametrize("given", ["http://h:8080/ns;g:2", "http://h", "ftp://h:1", "h"])
def test_an_invalid_name_server_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigError):
        name_servers(given)


class AddressServer(HTTPServer):
    text: bytes = b""
    paths: list[str]


@contextmanager
def address_server(text: bytes) -> Iterator[AddressServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(server.text)

        def log_message(self, *_: object) -> None: ...

    with AddressServer(("127.0.0.1", 0), Handler) as server:
        server.text, server.paths = text, []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def made(answer: Answerer, url: str, **options: object) -> tuple[ClientInstance, ScriptedNetwork]:
    network = ScriptedNetwork(answer)
    instance = ClientInstance(url, **options)  # type: ignore[arg-type]
    network.carry(instance.connections)
    return instance, network


def test_addresses_are_fetched_from_a_url_and_refreshed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketmq_py.client.client_instance.FETCH_INTERVAL_SECONDS", 0.02)

    async def main(server: AddressServer) -> None:
        url = f"http://127.0.0.1:{server.server_port}/rocketmq/nsaddr"
        instance, network = made(cluster(t={"b": 1}), url, unit_name="u")
        await instance.start()
        await instance.routes.get("t")
        assert [address for address, _ in network.requests] == ["ns:1"]
        assert server.paths[0] == "/rocketmq/nsaddr-u?nofix=1"
        server.text = b"other:2\n"
        async with asyncio.timeout(10):
            while instance.name_servers.addresses != ["other:2"]:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.01)
        await instance.routes.refresh("t")
        assert network.requests[-1][0] == "other:2"
        await instance.stop()

    with address_server(b"http://ns:1\n") as server:
        asyncio.run(main(server))


def test_addresses_are_fetched_again_every_two_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    times = list[float]()

    async def main() -> None:
        instance, _ = made(cluster(t={"b": 1}), "http://host/nsaddr")

        async def refresh() -> None:
            times.append(asyncio.get_running_loop().time() - began)

        monkeypatch.setattr(instance.name_servers, "refresh", refresh)
        began = asyncio.get_running_loop().time()
        await instance.start()
        await asyncio.sleep(300)
        await instance.stop()

    asyncio.run(main())
    assert times == [pytest.approx(120, abs=0.5), pytest.approx(240, abs=0.5)]


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"no address", b"http://h:1/again", b"h:1;" * 20_000])
def test_an_invalid_address_list_is_an_error(text: bytes) -> None:
    async def main(server: AddressServer) -> None:
        instance, _ = made(cluster(), f"http://127.0.0.1:{server.server_port}/ns")
        with pytest.raises(NetworkError, match=r"cannot be fetched from http://127\.0\.0\.1"):
            await instance.routes.get("t")
        await instance.stop()

    with address_server(text) as server:
        asyncio.run(main(server))


def test_a_url_that_does_not_answer_is_an_error() -> None:
    async def main(url: str) -> None:
        instance, _ = made(cluster(), url)
        with pytest.raises(NetworkError, match="cannot be fetched"):
            await instance.routes.get("t")
        await instance.stop()

    with address_server(b"") as server:
        url = f"http://127.0.0.1:{server.server_port}/ns"
    asyncio.run(main(url))


def test_the_response_is_bounded() -> None:
    assert module._MAX_RESPONSE_BYTES < 1 << 20


async def test_the_address_of_a_broker_is_recognised_as_a_mistake() -> None:
    """A broker refuses requests for routes as unknown."""
    instance, _ = made(
        lambda *_: Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=" request type 105 not supported"),
        "broker:10911",
    )
    with pytest.raises(ConfigError, match=r"broker:10911 is not a name server.*namesrv"):
        await instance.routes.get("t")
    await instance.stop()


@pytest.mark.parametrize("is_reachable", [True, False])
async def test_other_requests_begin_at_the_next_name_server_once_one_has_failed(is_reachable: bool) -> None:
    first: list[int] = []

    def answer(address: str, request: Command) -> Command:
        if address == "b:1":
            first.append(instance.name_servers._current)
        return Command(ResponseCode.GO_AWAY if address == "a:1" else 0)

    instance, network = made(answer, "a:1;b:1")
    instance.name_servers._current = 0
    if not is_reachable:
        network.unreachable.add("a:1")
    await instance.name_servers.invoke(1)
    assert first == [1]
    await instance.stop()


async def test_the_error_of_a_single_name_server_is_raised_as_it_is_and_those_of_several_together() -> None:
    one, one_network = made(cluster(), "a:1")
    one_network.unreachable.add("a:1")
    with pytest.raises(NetworkError, match=r"^cannot connect to a:1: Connection refused"):
        await one.name_servers.invoke(1)
    two, two_network = made(cluster(), "a:1;b:1")
    two_network.unreachable |= {"a:1", "b:1"}
    two.name_servers._current = 0
    with pytest.raises(NetworkError, match=r"^none of 2 name servers answers: .*a:1.*; .*b:1") as caught:
        await two.name_servers.invoke(1)
    assert "b:1" in str(caught.value.__cause__)
    await one.stop()
    await two.stop()


class Servers:
    """Connections to name servers, of which those in ``down`` do not answer."""

    def __init__(self, *down: str) -> None:
        self.down = set(down)
        self.asked: list[str] = []

    async def invoke(self, address: str, *_: object, check: bool) -> Command:
        assert not check
        self.asked.append(address)
        await asyncio.sleep(0)
        if address in self.down:
            raise ConnectError(address)
        return Command(ResponseCode.SUCCESS)

    def drop(self, address: str) -> None: ...


def test_requests_that_fail_together_pass_over_one_name_server_only() -> None:
    async def main() -> None:
        servers = Servers("b")
        names = NameServers(["a", "b", "c", "d"], servers)  # type: ignore[arg-type]
        names._current = 1
        await asyncio.gather(names.invoke(1), names.invoke(1), names.invoke(1))
        assert servers.asked == ["b"] * 3 + ["c"] * 3
        names._current = 1
        servers.down, servers.asked = {"b", "c", "d", "a"}, []
        with pytest.raises(NetworkError, match="none of 4 name servers answers: b; c; d; a"):
            await names.invoke(1)
        assert servers.asked == ["b", "c", "d", "a"]
        assert names._current == 1, "all were passed over"

    asyncio.run(main())


def test_the_same_addresses_leave_the_name_server_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = [["a:1", "b:1", "c:1"]] * 2 + [["d:1", "e:1"]]
    monkeypatch.setattr(module, "_fetched", lambda url: fetched.pop(0))
    monkeypatch.setattr(module.random, "randrange", lambda count: count - 1)

    async def main() -> None:
        names = NameServers(["http://h:1/ns"], Servers())  # type: ignore[arg-type]
        await names.refresh()
        assert (names.addresses, names._current) == (["a:1", "b:1", "c:1"], 2)
        names._current = 0
        await names.refresh()
        assert names._current == 0
        await names.refresh()
        assert (names.addresses, names._current) == (["d:1", "e:1"], 1)

    asyncio.run(main())
