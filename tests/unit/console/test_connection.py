"""What pages talk to the cluster with."""

from __future__ import annotations

from typing import Any, Self

import pytest

from rocketmq_py.console import connection as module
from rocketmq_py.console.connection import Connection


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
