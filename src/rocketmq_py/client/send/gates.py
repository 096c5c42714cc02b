"""Sends that wait for the same thing: a route, the first connection to a broker, or that a broker can be reached again.

However many wait, one look-up or one connect is under way and one timer runs. When it is done they go on in the order
in which they came, a bounded number in each turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from rocketmq_py.client.send.futures import SendFuture
from rocketmq_py.core.peer import InFlight
from rocketmq_py.core.producer.send_attempts import SendAttempts
from rocketmq_py.errors import RocketMQError
from rocketmq_py.remoting.deadline_timer import DeadlineTimer

_log = logging.getLogger(__name__)

_SENDS_IN_A_TURN = 1000
"""Sends that go on in one turn of the loop, about 10 ms of work."""
_BUSY_SECONDS = 0.05
"""A turn of the loop that took longer than this is not part of the time of sends that began in it."""


class WaitingSend(NamedTuple):
    """A send that waits."""

    delivery: SendAttempts
    future: SendFuture


class Gates:
    """The things that sends of one producer wait for, by key.

    :param work: brings the thing about, for a key and a number of seconds at most.
    :param go_on: continues a send once the thing is there.
    :param fail: continues a send with the error of the work.
    :param late: the error of a send whose deadline is over before, by key. It is shared: ``fail`` copies it.
    """

    def __init__(
        self,
        work: Callable[[str, float], Coroutine[Any, Any, object]],
        go_on: Callable[[SendAttempts, SendFuture], None],
        fail: Callable[[str, WaitingSend, RocketMQError], None],
        late: Callable[[str], RocketMQError],
    ) -> None:
        self._work = work
        self._go_on = go_on
        self._fail = fail
        self._late = late
        self.closed: dict[str, _Gate] = {}
        """The gates at which sends wait."""

    def wait(self, key: str, delivery: SendAttempts, future: SendFuture) -> None:
        """Continue a send when the thing is there."""
        gate = self.closed.get(key)
        if gate is None:
            gate = self.closed[key] = _Gate(lambda: self._expire(key))
            gate.task = asyncio.ensure_future(self._open(key, gate, delivery.deadline - time.monotonic()))
        gate.add(WaitingSend(delivery, future))

    async def _open(self, key: str, gate: _Gate, seconds: float) -> None:
        gate.add_lost_time()
        failure: RocketMQError | None = None
        try:
            await self._work(key, seconds)
        except RocketMQError as e:
            failure = e
        except Exception as e:  # noqa: BLE001 - a fault of ours must not leave sends at a closed gate
            _log.exception("what sends of %s wait for has failed", key)
            failure = RocketMQError(f"{type(e).__name__}: {e}")
        gate.timer.cancel()
        if failure is not None:
            del self.closed[key]  # for later sends the work is done again
            gate.late += gate.take(len(gate))
            await self._fail_late(key, gate, failure)
            return
        while waiting := gate.take(_SENDS_IN_A_TURN):
            for send in waiting:
                self._go_on(send.delivery, send.future)
            await asyncio.sleep(0)
        gate.timer.cancel()  # sends that came meanwhile have set it again
        del self.closed[key]

    def is_awaited(self, key: str) -> bool:
        """True while a send waits for ``key``."""
        gate = self.closed.get(key)
        return gate is not None and bool(gate)

    def _expire(self, key: str) -> None:
        gate = self.closed[key]
        late = gate.expire()
        if gate.failing is None or gate.failing.done():
            gate.failing = asyncio.ensure_future(self._fail_late(key, gate, self._late(key)))
        gate.late += late

    async def _fail_late(self, key: str, gate: _Gate, error: RocketMQError) -> None:
        while gate.late:
            for _ in range(min(_SENDS_IN_A_TURN, len(gate.late))):
                self._fail(key, gate.late.popleft(), error)
            await asyncio.sleep(0)

    def cancel(self) -> None:
        """Stop all work."""
        for gate in self.closed.values():
            gate.timer.cancel()
            for task in (gate.task, gate.failing):
                if task is not None:
                    task.cancel()


class _Gate:
    """The sends that wait for one thing."""

    def __init__(self, expired: Callable[[], None]) -> None:
        self._waiting: InFlight[WaitingSend] = InFlight()
        self._closed_at = time.monotonic()
        self.timer = DeadlineTimer(expired)
        self.task: asyncio.Task[None] | None = None
        self.late: deque[WaitingSend] = deque()
        """Sends whose time is over; ``failing`` tells them."""
        self.failing: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, send: WaitingSend) -> None:
        self._waiting.add(send, send.delivery.deadline)
        if send.delivery.deadline < self.timer.at:
            self.timer.set(send.delivery.deadline)

    def add_lost_time(self) -> None:
        """Give the sends back the time of the turn of the loop that they began in, if that was a long one.

        A program that begins many sends at once keeps the loop busy; nothing can be asked or answered meanwhile.
        """
        lost = time.monotonic() - self._closed_at
        if lost > _BUSY_SECONDS:
            waiting = self._waiting.abandon()
            for send in waiting:
                send.delivery.wait_longer(lost)
                self._waiting.add(send, send.delivery.deadline)
            self.timer.set(self._waiting.next_deadline)

    def take(self, number: int) -> list[WaitingSend]:
        return self._waiting.take_first(number)

    def expire(self) -> list[WaitingSend]:
        late = self._waiting.expire(time.monotonic())
        self.timer.set(self._waiting.next_deadline)
        return late
