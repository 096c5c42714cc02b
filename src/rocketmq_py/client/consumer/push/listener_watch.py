"""Watches the listeners of a push consumer: who is stuck and where, what has taken longer than the consume timeout.

Looks about once a second at what is under way, in the event loop. Where listeners are ``async def``, a thread of its
own looks at the loop, which a listener that blocks it would keep from looking. Refuses to know how listeners are run.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from time import monotonic

from rocketmq_py.client.consumer import stacks
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.client.consumer.dispatch import listeners, orderly_listeners
from rocketmq_py.client.consumer.dispatch.concurrent import ConcurrentDispatcher, Dispatcher, ListenerCall
from rocketmq_py.client.consumer.dispatch.worker_pool import post
from rocketmq_py.core.consumer.stuck_listeners import StuckCall, call_position
from rocketmq_py.model import MessageExt
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks; less when the timeouts are short."""
BLOCKED = 5.0
"""Seconds the event loop may stand still before a listener is blamed."""

_RUNS_ASYNC = listeners.RUNS_ASYNC | orderly_listeners.RUNS_ASYNC


class ListenerWatch:
    """One task that looks at the listeners of a consumer until it is closed.

    :param dispatcher: runs the listeners.
    :param awaits: whether any listener is ``async def``.
    """

    def __init__(self, group: ConsumerGroup, dispatcher: Dispatcher, awaits: Callable[[], bool]) -> None:
        self._group = group
        self._dispatcher = dispatcher
        self._awaits = awaits
        self._stopwatch = group.stopwatch
        options = group.options
        self._interval = min(LOOK, options.stuck_after / 4, options.consume_timeout / 4)
        self._expire_at = monotonic() + options.consume_timeout
        self._guard: LoopGuard | None = None
        self._work = Background()
        self._work.start(self._run())

    async def close(self) -> None:
        if self._guard is not None:
            self._guard.close()
        await self._work.stop()

    async def _run(self) -> None:
        while True:
            if self._guard is None and self._awaits():
                self._guard = LoopGuard(self._group.name, min(BLOCKED, self._group.options.stuck_after), self._interval)
            try:
                await self._look()
            except Exception:  # noqa: BLE001 - the next look may be better, and nothing else must suffer
                _log.exception("looking at the listeners of group %s failed", self._group.name)
            await asyncio.sleep(self._interval)

    async def _look(self) -> None:
        now = monotonic()
        calls = {(call.queue, call.messages[0]): call for call in self._dispatcher.running_calls()}
        looked = self._stopwatch.look(calls, now)
        for one in looked.stuck:
            self._tell(one, calls[one.key])
        for key, seconds in looked.ended:
            queue, offset = call_position(key)
            _log.warning(
                "the listener of group %s has ended with %s at %d after %.1f s",
                self._group.name,
                queue,
                offset,
                seconds,
            )
        if now >= self._expire_at:
            self._expire_at = now + self._group.options.consume_timeout
            await self._expire(now)

    def _tell(self, stuck: StuckCall, call: ListenerCall) -> None:
        queue, offset = call_position(stuck.key)
        where = "\n".join(f"{_name(worker)}:\n{stack_of(worker)}" for worker in call.workers)
        _log.warning(
            "the listener of group %s has been at work for %.1f s on %s at %d (%d messages, message id %s, %d held of "
            "the queue); until it ends the group's offset stays there. It is here:\n%s",
            self._group.name, stuck.seconds, queue, offset, len(call.messages), call.messages[0].msg_id,
            call.queue.count, where or "(it has just gone on)",
        )  # fmt: skip

    # -- the consume timeout

    async def _expire(self, now: float) -> None:
        """Has what its listener is not done with in time delivered again (cleanExpiredMsg)."""
        if not isinstance(self._dispatcher, ConcurrentDispatcher):
            return  # in order, nothing can be passed over
        timeout = self._group.options.consume_timeout
        for queue in list(self._group.queues.values()):
            if queue.has_invisible_time:
                continue  # its broker sees to that

            def is_expired(message: MessageExt, queue: object = queue) -> bool:
                since = self._stopwatch.since(queue, message)  # type: ignore[arg-type]
                return since is not None and now - since > timeout

            count = await self._dispatcher.expire(queue, is_expired)
            if count:
                _log.warning(
                    "%d messages of %s have been with their listener for more than consume_timeout=%g s: they are "
                    "delivered again, and what the listener says does not count any more",
                    count, queue.queue, timeout,
                )  # fmt: skip


class LoopGuard:
    """A thread that says so when a listener keeps the event loop from going on, and where it does.

    :param timeout: seconds the loop may stand still.
    """

    def __init__(self, group: str, timeout: float, interval: float) -> None:
        self._group = group
        self._timeout = timeout
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._last = monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._run, name=f"{group}-loop-guard", daemon=True).start()

    def _beat(self) -> None:
        self._last = monotonic()

    def close(self) -> None:
        self._over.set()

    def _run(self) -> None:
        told: float | None = None
        while not self._over.wait(self._interval):
            post(self._loop, self._beat)
            last = self._last
            if told is not None and last > told:
                _log.warning("the event loop of group %s goes on", self._group)
                told = None
            if told is None and monotonic() - last >= self._timeout and self._tell(last):
                told = last

    def _tell(self, last: float) -> bool:
        frames = stacks.frames_of_thread(self._loop_thread)
        if not stacks.runs(frames, _RUNS_ASYNC):
            return False  # a busy machine, or something that is no listener of ours
        _log.warning(
            "an async listener of group %s has blocked the event loop for %.1f s: no message, heartbeat or lock of "
            "this client moves meanwhile. Make it a plain function, which runs in a thread, or await "
            "asyncio.to_thread(...) for what blocks. It is here:\n%s",
            self._group, monotonic() - last, stacks.text(frames),
        )  # fmt: skip
        return True


def _name(worker: threading.Thread | asyncio.Task[None]) -> str:
    return worker.name if isinstance(worker, threading.Thread) else f"task {worker.get_name()}"


def stack_of(worker: threading.Thread | asyncio.Task[None]) -> str:
    """Where a worker is."""
    if isinstance(worker, threading.Thread):
        return stacks.text(stacks.frames_of_thread(worker.ident))
    return stacks.text(stacks.frames_of_task(worker))
