"""What pages talk to the cluster with."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest

from rocketmq_py.console import connection as module
from rocketmq_py.console.connection import Connection
from rocketmq_py.protocol.codes import RequestCode


async def test_pages_skip_silent_brokers_and_send_each_message_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, dict[str, Any]]] = []

    class Noted:
        def __init__(self, group: str = "", **options: Any) -> None:
            made.append((group, options))

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            made.append(("closed", {}))

    monkeypatch.setattr(module, "Admin", Noted)
    monkeypatch.setattr(module, "Producer", Noted)
    connection = Connection("h:1;g:2", timeout=7.0)
    assert connection.namesrv == "h:1;g:2"
    assert isinstance(connection.admin(), Noted)
    async with connection.producer() as producer:
        assert isinstance(producer, Noted)
    instance = connection._instance
    assert made == [
        ("", {"instance": instance, "timeout": 7.0, "skip_silent": True}),
        ("rocketmq-console", {"instance": instance, "retries": 0, "send_timeout": 7.0}),
        ("closed", {}),
    ]
    await connection.close()


async def test_requests_and_admins_have_the_options_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(module, "Admin", lambda *args, **options: made.append((args, options)))
    connection = Connection("h:1", address_map={"a": "b"}, timeout=7.0)
    connection.admin_of("i:2")
    assert made == [(("i:2",), {"timeout": 7.0, "address_map": {"a": "b"}, "tls": None, "credentials": None})]

    async def invoke(*args: Any) -> None:
        made.append(args)

    monkeypatch.setattr(connection._instance.connections, "invoke", invoke)
    await connection.invoke("h:3", RequestCode.HEART_BEAT, b"x")
    assert made[1:] == [("h:3", RequestCode.HEART_BEAT, None, b"x", 7.0)]
    assert Connection("h:1")._timeout == 3.0
    stopped: list[bool] = []

    async def stop() -> None:
        stopped.append(True)

    monkeypatch.setattr(connection._instance, "stop", stop)
    await connection.close()
    assert stopped == [True]


async def test_pages_share_a_request_in_flight_and_one_that_goes_away_does_not_end_it() -> None:
    connection, asked, goes = Connection("h:1", clock=lambda: 0.0), list[object](), asyncio.Event()

    async def ask(admin: Any) -> int:
        asked.append(admin)
        await goes.wait()
        return 7

    one, two = (asyncio.ensure_future(connection.shared("x", ask)) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.sleep(0)
    three = asyncio.ensure_future(connection.shared("x", ask))
    await asyncio.sleep(0)
    goes.set()
    assert [(await page).value for page in (two, three)] == [7, 7]
    assert (len(asked), one.cancelled(), (await two).silent) == (1, True, {})
    lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    lost.cancel()
    connection._kept["x"] = (0.0, lost)
    assert (await connection.shared("x", ask)).value == 7
    assert len(asked) == 2
    await connection.close()
