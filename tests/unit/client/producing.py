"""A producer over a scripted network, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rocketmq_py.aio import ClientInstance, Producer
from rocketmq_py.model import Message
from tests.unit.client.scripted import Answerer, ScriptedNetwork, made_by

Body = Callable[[Producer, ScriptedNetwork], Awaitable[None]]


def run_producer(body: Body, answer: Answerer, **options: object) -> ScriptedNetwork:
    """Run ``body`` with a producer whose network is scripted; returns that network."""
    network = ScriptedNetwork(answer)

    async def main() -> None:
        instance = ClientInstance("ns:1", timeout=1.0)
        network.carry(instance.connections)
        async with Producer("g", instance=instance, **options) as producer:  # type: ignore[arg-type]
            await body(producer, network)
        await instance.stop()

    asyncio.run(main())
    return network


with_producer = made_by(run_producer, 2)
"""Decorates a test whose first arguments are a producer and its network."""


def message(body: bytes = b"x") -> Message:
    return Message("t", body)
