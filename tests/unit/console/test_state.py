"""What pages share, and answers that nobody gives."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.console.connection import Answer
from rocketmq_py.console.state import Console, or_unknown, silent_brokers
from rocketmq_py.errors import BrokerError, ConfigError, NetworkError, NoRouteError, RocketMQError
from tests.unit.console.browsing import ConsoleAdmin, MemoryConnection


def test_a_console_changes_things_for_nobody_in_particular_unless_told_otherwise() -> None:
    console = Console(MemoryConnection(ConsoleAdmin()))
    assert (console.read_only, console.who) == (False, None)
    before = time.time_ns() // 1_000_000
    assert before <= console.now() <= time.time_ns() // 1_000_000


def test_changes_are_counted() -> None:
    console = Console(MemoryConnection(ConsoleAdmin()))
    request: Any = SimpleNamespace(client=SimpleNamespace(host="h", port=1), state=SimpleNamespace())
    console.audit.record(request, "reset", topic="t")
    assert b'action="reset"} 1.0' in console.figures.exposition(0)
    [entry] = console.audit.entries
    assert {"from": "h:1", "who": None, "action": "reset", "topic": "t"}.items() <= entry.items()


async def test_an_answer_that_brokers_or_names_do_not_give_is_unknown() -> None:
    async def answer(error: Exception | None) -> int:
        if error is not None:
            raise error
        return 7

    assert await or_unknown(answer(None)) == 7
    for error in (NetworkError("x"), BrokerError(1, "x"), NoRouteError("x")):
        assert await or_unknown(answer(error)) is None
    with pytest.raises(RocketMQError):
        await or_unknown(answer(ConfigError("x")))


def test_silent_brokers_are_named_once_and_sorted() -> None:
    admin = ConsoleAdmin()
    admin.unreachable = {"b": NetworkError("one"), "c": NetworkError("two")}
    answers = [Answer(None, {"a": NetworkError("three"), "b": NetworkError("four")})]
    assert silent_brokers(admin) == [{"broker": "b", "error": "one"}, {"broker": "c", "error": "two"}]
    assert silent_brokers(admin, answers=answers) == [
        {"broker": "a", "error": "three"}, {"broker": "b", "error": "four"}, {"broker": "c", "error": "two"},
    ]  # fmt: skip


async def test_its_end_ends_samples_and_connections() -> None:
    console = Console(MemoryConnection(ConsoleAdmin()))
    ended: list[str] = []

    async def history() -> None:
        ended.append("history")

    async def connection() -> None:
        ended.append("connection")

    console.history.close = history  # type: ignore[method-assign]
    console.connection.close = connection  # type: ignore[method-assign]
    await console.close()
    assert ended == ["history", "connection"]
