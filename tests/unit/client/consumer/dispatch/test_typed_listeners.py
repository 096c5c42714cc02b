"""Listeners of values: what they are called with, and what becomes of a body that does not fit."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from rocketmq_py.client.consumer.dispatch.typed_listeners import typed
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeResult, MessageExt, RecordHead
from rocketmq_py.serde import Json

HEAD = RecordHead(0, 0, 0, 0, 0, 0, 0, 0, 0, b"", 0, b"", 0, 0, 0)


def message(body: bytes) -> MessageExt:
    return MessageExt(tuple(HEAD), "t", body, b"", "a")


class Letters:
    def __init__(self, confirms: bool = True) -> None:
        self.confirms = confirms
        self.reasons: list[str] = []

    async def __call__(self, _: MessageExt, reason: str) -> bool:
        self.reasons.append(reason)
        return self.confirms


def run(listener: Any, body: bytes, letters: Letters) -> Any:
    """What the listener of messages returns, called as the dispatcher does."""

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        made = typed(listener, Json(int), letters, lambda: loop)
        assert made.__name__ == getattr(listener, "__name__", "listener")
        assert list(inspect.signature(made).parameters) == ["message"]
        assert inspect.iscoroutinefunction(made) == inspect.iscoroutinefunction(listener)
        called = made(message(body)) if inspect.iscoroutinefunction(made) else asyncio.to_thread(made, message(body))
        return await called  # type: ignore[misc]

    return asyncio.run(main())


def test_values_and_results_are_passed_on() -> None:
    seen: list[Any] = []

    def one(value: int) -> ConsumeResult:
        seen.append(value)
        return ConsumeResult.RECONSUME_LATER

    def two(value: int, given: MessageExt, more: int = 0) -> None:
        seen.append((value, given.body, more))

    async def coroutine(value: int) -> bool:
        seen.append(value)
        return True

    letters = Letters()
    results = [run(listener, b"7", letters) for listener in (one, two, coroutine, seen.append)]
    assert results == [ConsumeResult.RECONSUME_LATER, None, True, None]
    assert seen == [7, (7, b"7", 0), 7, 7]
    assert letters.reasons == []


@pytest.mark.parametrize(
    ("confirms", "result"), [(True, ConsumeResult.SUCCESS), (False, ConsumeResult.RECONSUME_LATER)]
)
def test_a_body_that_does_not_fit(confirms: bool, result: ConsumeResult) -> None:
    async def never(value: int) -> None:
        raise AssertionError(value)

    def nor(value: int) -> None:
        raise AssertionError(value)

    letters = Letters(confirms)
    assert [run(listener, b"x", letters) for listener in (never, nor)] == [result, result]
    assert len(letters.reasons) == 2
    assert "the body is no int" in letters.reasons[0]


@pytest.mark.parametrize("listener", [lambda: None, lambda a, b, c: None, lambda *, a: None, lambda *a: None, 3])
def test_other_listeners_are_refused(listener: Any) -> None:
    with pytest.raises(ConfigError, match="a listener of values is"):
        typed(listener, Json(int), Letters(), lambda: None)
