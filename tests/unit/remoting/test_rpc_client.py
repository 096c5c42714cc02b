"""Requests of servers to other servers: signatures, codes, lost connections."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectionLost, RequestTimeout, SystemBusy
from rocketmq_py.remoting import rpc_client as module
from rocketmq_py.remoting.connection import Connection
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import ONEWAY_FLAG, Command
from rocketmq_py.wire.signing import Credentials
from tests.unit.client.scripted import Answerer, ScriptedNetwork


def made(answer: Answerer, credentials: Credentials | None = None, **options: Any) -> tuple[RpcClient, ScriptedNetwork]:
    client, network = RpcClient(credentials=credentials, **options), ScriptedNetwork(answer)
    network.carry(client._pool)
    return client, network


async def test_a_request_keeps_its_fields_and_is_signed() -> None:
    received: list[Command] = []

    def answer(_: str, request: Command) -> Command:
        received.append(request)
        return Command(0, remark="fine")

    client, _ = made(answer, Credentials("user", "secret"))
    reply = await client.ask("h:1", Command(103, remark="from here", ext={"a": "1"}, body=b"b", version=500), 1.0)
    assert reply.remark == "fine"
    (request,) = received
    assert (request.code, request.remark, request.body, request.version) == (103, "from here", b"b", 500)
    assert request.ext["a"] == "1"
    assert request.ext["AccessKey"] == "user"
    client.close()


async def test_a_refusal_is_raised_by_ask_and_returned_by_invoke() -> None:
    client, _ = made(lambda *_: Command(2, remark="later"))
    assert (await client.invoke("h:1", Command(1), 1.0)).code == 2
    with pytest.raises(SystemBusy, match="later"):
        await client.ask("h:1", Command(1), 1.0)
    client.close()


async def test_a_oneway_request_is_marked_as_such() -> None:
    received: list[int] = []
    client, _ = made(lambda _, request: received.append(request.flag))  # type: ignore[func-returns-value]
    await client.oneway("h:1", Command(40), 1.0)
    await asyncio.sleep(0)
    assert received == [ONEWAY_FLAG]
    client.close()


async def test_a_timeout_names_the_request() -> None:
    client, _ = made(lambda *_: None)
    with pytest.raises(RequestTimeout, match=r"h:1 did not answer REGISTER_BROKER \(103\) within 0\.01 s"):
        await client.invoke("h:1", Command(103), 0.01)
    client.close()


async def test_only_a_connection_lost_by_the_peer_is_reported() -> None:
    lost: list[str] = []
    client, network = made(lambda *_: None, on_lost=lost.append)
    waiting = asyncio.ensure_future(client.invoke("h:1", Command(1), 5.0))
    await asyncio.sleep(0.01)
    connection = network.connections["h:1"]
    connection.connection_lost(OSError("reset by peer"))
    with pytest.raises(ConnectionLost):
        await waiting
    assert lost == ["h:1"]
    other = asyncio.ensure_future(client.invoke("h:2", Command(1), 5.0))
    await asyncio.sleep(0.01)
    client.close()
    with pytest.raises(ConnectionLost):
        await other
    assert lost == ["h:1"]


async def test_a_connection_has_three_seconds_and_a_request_its_own_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[float] = []
    client, _ = made(lambda *_: Command(0))
    assert client._pool.connect_timeout == 3.0

    async def send(self: Connection, command: Command, deadline: float) -> Reply:
        deadlines.append(deadline)
        return Reply(0, 0)

    monkeypatch.setattr(Connection, "send", send)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 100.0))
    await client.invoke("h:1", Command(1), 2.5)
    assert deadlines == [102.5]
    client.close()
