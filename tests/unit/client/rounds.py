"""Counts round trips: answers of a scripted network arrive together, once nothing more is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rocketmq_py.aio import Admin, ClientInstance
from rocketmq_py.wire.command import RESPONSE_FLAG, Command, encode_command
from tests.unit.client.scripted import Answerer, ScriptedNetwork

_TURNS = 30
"""Turns of the event loop after which a program that waits for answers has asked everything it can."""


def count_rounds(work: Callable[[Admin], Awaitable[object]], answer: Answerer) -> tuple[int, object]:
    """Run ``work`` with an ``Admin`` of name server ``ns:1``; return the round trips it took, and its result."""
    return asyncio.run(_count(work, answer))


async def _count(work: Callable[[Admin], Awaitable[object]], answer: Answerer) -> tuple[int, object]:
    held: list[tuple[str, Command]] = []

    def hold(address: str, request: Command) -> None:
        held.append((address, request))

    network = ScriptedNetwork(hold)
    instance = ClientInstance("ns:1", timeout=30.0)
    network.carry(instance.connections)
    async with Admin(instance=instance) as admin:
        task, rounds = asyncio.ensure_future(work(admin)), 0
        while not task.done():
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            if held:
                rounds += 1
            asked, held[:] = list(held), []
            for address, request in asked:
                reply = answer(address, request)
                assert reply is not None
                reply.opaque, reply.flag = request.opaque, RESPONSE_FLAG
                network.transports[address].deliver(encode_command(reply))
        return rounds, task.result()
