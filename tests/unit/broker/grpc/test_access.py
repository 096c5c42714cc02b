"""Who may use a stored message over gRPC: also if it is read from disk first."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker.grpc.access import CallAccess
from rocketmq_py.core.access.permissions import Action
from rocketmq_py.grpc.requests import Inner
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.grpc.service import StatusResponse
from rocketmq_py.store.fs.residency import NotInMemory
from rocketmq_py.wire.grpc import GrpcStatus

INNER = Inner(RequestCode.END_TRANSACTION, SimpleNamespace(to_ext=lambda: {"commitLogOffset": "5"}))


class Call:
    """A call of ``ann``; what it was answered."""

    peer = "peer"

    def __init__(self) -> None:
        self.metadata = {b"x-mq-date-time": b"today"}
        self.is_open = True
        self.answers: list[bytes] = []
        self.ended: list[tuple[GrpcStatus, str]] = []

    def header(self, name: bytes) -> str:
        return {b"authorization": "MQv2-HMAC-SHA1 Credential=ann, Signature=sig"}[name]

    def answer(self, data: bytes) -> None:
        self.answers.append(data)

    def end(self, status: GrpcStatus, text: str) -> None:
        self.ended.append((status, text))


class Bench:
    """Access control that refuses ``ann`` if told so, and a stored message that is in memory or not."""

    def __init__(self, *, enabled: bool = True, refusing: bool = False, cold: bool = False) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.refusing, self.cold = refusing, cold
        self.failure: Exception | None = None
        self.loading = asyncio.Event()
        self.call, self.done = Call(), list[str]()
        loader = SimpleNamespace(run=self._load)
        store = SimpleNamespace(new_residency=lambda: "residency", loader=loader)
        access: Any = SimpleNamespace(enabled=enabled, denial_of_signed=self._denial)
        self.subject = CallAccess(access, SimpleNamespace(store=store, required=self._required))  # type: ignore[arg-type]

    def _denial(self, *asked: object) -> str | None:
        self.asked.append(asked)
        return "ann may not" if self.refusing else None

    def _required(self, command: Any, residency: object) -> list[str]:
        if self.cold and residency is not None:
            raise NotInMemory([SimpleNamespace(path="log")])  # type: ignore[list-item]
        return [f"permission for {command.ext['commitLogOffset']}"]

    async def _load(self, read: Any) -> None:
        await self.loading.wait()
        if self.failure is not None:
            raise self.failure
        read(None)

    def check(self) -> None:
        call: Any = self.call
        self.subject.check_record(call, INNER, lambda: self.done.append("done"))

    async def loaded(self) -> None:
        assert self.done == []
        assert self.call.answers == []
        self.loading.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not self.subject._loading.runs


ASKED = ("peer", RequestCode.END_TRANSACTION, "ann", b"today", "sig", ["permission for 5"])


async def test_without_access_control_nothing_is_asked() -> None:
    bench = Bench(enabled=False, refusing=True, cold=True)
    bench.check()
    call: Any = bench.call
    bench.subject.check(call, RequestCode.SEND_MESSAGE_V2, (Action.PUB,), topic="t")
    assert (bench.done, bench.asked) == (["done"], [])


async def test_a_message_in_memory_is_checked_at_once() -> None:
    bench, refusing = Bench(), Bench(refusing=True)
    bench.check()
    assert (bench.done, bench.asked) == (["done"], [ASKED])
    with pytest.raises(CallRefused, match="ann may not"):
        refusing.check()
    assert refusing.done == []


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_message_on_disk_is_checked_once_it_is_read(is_open: bool) -> None:
    bench = Bench(cold=True)
    bench.check()
    bench.call.is_open = is_open
    await bench.loaded()
    assert (bench.done, bench.asked) == (["done"] * is_open, [ASKED])
    assert (bench.call.answers, bench.call.ended) == ([], [])


async def test_a_refusal_of_a_message_on_disk_is_the_answer() -> None:
    bench = Bench(cold=True, refusing=True)
    bench.check()
    await bench.loaded()
    assert bench.done == []
    [answer] = [StatusResponse.decode(data).status for data in bench.call.answers]
    assert answer is not None
    assert (answer.code, answer.message) == (Code.UNAUTHORIZED, "ann may not")


async def test_a_disk_that_fails_ends_the_call(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    bench = Bench(cold=True)
    bench.failure = OSError(5, "broken")
    bench.check()
    await bench.loaded()
    assert bench.done == []
    assert bench.call.ended == [(GrpcStatus.INTERNAL, "the message cannot be read; the log of the server says why")]
    assert "a message to which a call refers cannot be read" in caplog.text


async def test_a_call_needs_a_permission_for_each_topic_and_the_group() -> None:
    bench, refusing = Bench(), Bench(refusing=True)
    for each in bench, refusing:
        call: Any = each.call
        arguments: Any = (call, RequestCode.POP_MESSAGE, (Action.SUB,))
        if each is bench:
            each.subject.check(*arguments, topic="t", group="g", topics=["u"])
        else:
            with pytest.raises(CallRefused):
                each.subject.check(*arguments, topic="t", group="g", topics=["u"])
        [(*_, wanted)] = each.asked
        assert [(one.resource.name, one.actions) for one in wanted] == [  # type: ignore[attr-defined]
            ("t", (Action.SUB,)), ("u", (Action.SUB,)), ("g", (Action.SUB,)),
        ]  # fmt: skip
