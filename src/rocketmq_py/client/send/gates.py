"""Gates: sends wait for a shared operation, such as a route look-up, a connect or the recovery of a broker.

However many sends wait at a gate, there is one operation and one timer. When the operation ends, the sends continue in
the order of their arrival, a bounded number in each iteration of the event loop.
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
"""Maximum number of sends that continue in one iteration of the event loop: about 10 ms of work."""
BUSY_SECONDS = 0.05
"""Longest iteration of the event loop, in seconds, that counts against the timeout of sends that began in it."""


class WaitingSend(NamedTuple):
    """A send that waits for a shared operation, such as connecting to a broker, and the future of its result."""

    delivery: SendAttempts
    future: SendFuture


class Gates:
    """Sends of one producer that wait for an operation of one kind, such as connecting, by its key.

    All sends with the same key, a topic or a broker address, wait for the same running operation.

    :param work: the operation: takes a key, and the seconds it may take.
    :param go_on: continues a send after the operation has succeeded.
    :param fail: ends or retries a send after the operation has failed, or at the send's deadline.
    :param late: takes a key; makes one error for all its sends whose deadline is over, which ``fail`` copies for each.
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
        """The gates where sends wait, by key."""

    def wait(self, key: str, delivery: SendAttempts, future: SendFuture) -> None:
        """Make a send wait for the operation of ``key``; start the operation if it is not running.

        A send that waits again, since the operation has not helped it, waits for the next operation.
        """
        gate = self.closed.get(key)
        if gate is not None and gate.going_on:
            gate.again.append(WaitingSend(delivery, future))
            return
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
        except Exception as e:  # noqa: BLE001 - a bug must not leave sends at a closed gate
            _log.exception("what sends of %s wait for has failed", key)
            failure = RocketMQError(f"{type(e).__name__}: {e}")
        gate.timer.cancel()
        if failure is not None:
            del self.closed[key]  # later sends start the operation again
            gate.late += gate.take(len(gate))
            await self._fail_late(key, gate, failure)
            return
        while waiting := gate.take(_SENDS_IN_A_TURN):
            gate.going_on = True
            for send in waiting:
                self._go_on(send.delivery, send.future)
            gate.going_on = False
            await asyncio.sleep(0)
        gate.timer.cancel()  # sends that arrived in the meantime have set it again
        del self.closed[key]
        for send in gate.again:
            self.wait(key, send.delivery, send.future)

    def is_awaited(self, key: str) -> bool:
        """True if a send waits for the operation of ``key``."""
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
        """Cancel all operations; sends that still wait are not continued."""
        for gate in self.closed.values():
            gate.timer.cancel()
            for task in (gate.task, gate.failing):
                if task is not None:
                    task.cancel()


class _Gate:
    """The sends that wait for one operation."""

    def __init__(self, expired: Callable[[], None]) -> None:
        self._waiting: InFlight[WaitingSend] = InFlight()
        self._closed_at = time.monotonic()
        self.timer = DeadlineTimer(expired)
        self.task: asyncio.Task[None] | None = None
        self.late: deque[WaitingSend] = deque()
        """Sends whose deadline is over; the task ``failing`` fails them."""
        self.going_on = False
        """True while sends are continued, which may make them wait again."""
        self.again: list[WaitingSend] = []
        """Sends that wait for the next operation."""
        self.failing: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, send: WaitingSend) -> None:
        self._waiting.add(send, send.delivery.deadline)
        if send.delivery.deadline < self.timer.at:
            self.timer.set(send.delivery.deadline)

    def add_lost_time(self) -> None:
        """Extend the deadlines of the sends by the time since the first one, if the event loop was busy until now.

        A program that starts many sends at once blocks the loop: no request can be sent or answered in that time.
        """
        lost = time.monotonic() - self._closed_at
        if lost > BUSY_SECONDS:
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
