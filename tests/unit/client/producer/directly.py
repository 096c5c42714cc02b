"""Blocking producers whose calling threads talk to a script instead of sockets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from rocketmq_py.aio import ClientInstance
from rocketmq_py.client.producer.direct import DirectProducer
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import NetworkError
from rocketmq_py.remoting.portal import portal
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import FrameDecoder
from tests.unit.client.scripted import Answerer, ScriptedNetwork

P = TypeVar("P", bound=DirectProducer)


class Threads:
    """What calling threads send: requests by address with the seconds that are left. ``failing`` is raised instead."""

    def __init__(self, answer: Answerer) -> None:
        self._answer = answer
        self.requests: list[tuple[str, Command, float]] = []
        self.failing: NetworkError | None = None
        self.closed = False

    def _take(self, address: str, framed: Callable[[int], bytes], deadline: float) -> Command:
        [frame] = FrameDecoder().feed(framed(7))
        request = decode_command(frame)
        assert request.opaque == 7
        self.requests.append((address, request, deadline - time.monotonic()))
        if self.failing is not None:
            raise self.failing
        return request

    def exchange(self, address: str, framed: Callable[[int], bytes], deadline: float) -> Reply:
        request = self._take(address, framed, deadline)
        assert not request.is_oneway
        answer = self._answer(address, request)
        assert answer is not None
        fields = msgspec.Raw(fastjson.dumps(answer.ext))
        return Reply(answer.code, 7, 1, answer.remark, fields, answer.body)

    def oneway(self, address: str, framed: Callable[[int], bytes], deadline: float) -> None:
        assert self._take(address, framed, deadline).is_oneway

    def close(self) -> None:
        self.closed = True


@contextmanager
def directly(make: Callable[..., P], answer: Answerer, **options: Any) -> Iterator[tuple[P, Threads, ScriptedNetwork]]:
    """A started producer, what its threads send, and the network of its event loop; both have the same script."""
    network, threads = ScriptedNetwork(answer), Threads(answer)

    async def instance() -> ClientInstance:
        made = ClientInstance("ns:1", timeout=1.0)
        network.carry(made.connections)
        return made

    producer = make("g", "ns:1", **options)
    producer._aio._instance = portal().run(instance())
    with producer:
        assert producer._direct is not None
        producer._direct.close()
        producer._direct = threads  # type: ignore[assignment]
        yield producer, threads, network
