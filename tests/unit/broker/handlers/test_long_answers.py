"""Long lists, such as that of all request modes, are encoded in many turns of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rocketmq_py.broker.handlers.clients import AssignmentHandlers
from rocketmq_py.protocol.bodies.pop import MessageRequestMode, MessageRequestModes
from rocketmq_py.server.sliced_work import SlicedWork

MANY = 100


class Turns:
    """Slices in which each step uses up the time of its turn."""

    def __init__(self) -> None:
        self.count = 0
        self.slices = SlicedWork(self._soon, 0.0)

    def _soon(self, turn: Callable[[], None]) -> object:
        self.count += 1
        return asyncio.get_running_loop().call_soon(turn)


async def test_request_modes_are_listed_in_slices() -> None:
    table = {f"T{number}": {"g": MessageRequestMode(topic=f"T{number}", consumer_group="g")} for number in range(MANY)}
    modes: Any = type("Modes", (), {"modes": MessageRequestModes(message_request_mode_map=table)})
    turns, unused = Turns(), Any
    reply = await AssignmentHandlers(unused, modes, turns.slices).list_modes(unused, unused, b"")
    assert MessageRequestModes.decode(bytes(reply.body)) == modes.modes
    assert bytes(reply.body) == modes.modes.encode()
    assert turns.count > MANY
