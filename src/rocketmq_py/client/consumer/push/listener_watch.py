"""Watches the listeners of a push consumer: warns of stuck ones, and applies the consume timeout.

A task checks the running listeners about once a second. If there are ``async def`` listeners, a thread also checks
that the event loop runs: such a listener that blocks would block the task, too.
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

CHECK_INTERVAL = 1.0
"""The longest time in seconds between two checks; they are at most a quarter of the timeouts apart."""
BLOCKED = 5.0
"""Seconds after which a blocked event loop is logged."""

_RUNS_ASYNC = listeners.RUNS_ASYNC | orderly_listeners.RUNS_ASYNC


class ListenerWatch:
    """A task that checks the running listeners of a consumer; it starts at once and ends with :meth:`close`.

    :param dispatcher: runs the listeners.
    :param has_async: returns True if any listener is ``async def``.
    """

    def __init__(self, group: ConsumerGroup, dispatcher: Dispatcher, has_async: Callable[[], bool]) -> None:
        self._group = group
        self._dispatcher = dispatcher
        self._has_async = has_async
        self._stopwatch = group.stopwatch
        options = group.options
        self._interval = min(CHECK_INTERVAL, options.stuck_after / 4, options.consume_timeout / 4)
        self._expire_at = monotonic() + options.consume_timeout
        self._loop_guard: LoopGuard | None = None
        self._work = Background()
        self._work.start(self._run())

    async def close(self) -> None:
        if self._loop_guard is not None:
            self._loop_guard.close()
        await self._work.stop()

    async def _run(self) -> None:
        while True:
            if self._loop_guard is None and self._has_async():
                timeout = min(BLOCKED, self._group.options.stuck_after)
                self._loop_guard = LoopGuard(self._group.name, timeout, self._interval)
            try:
                await self._check()
            except Exception:  # noqa: BLE001 - the next check is made in any case
                _log.exception("checking the listeners of group %s failed", self._group.name)
            await asyncio.sleep(self._interval)

    async def _check(self) -> None:
        now = monotonic()
        calls = {(call.queue, call.messages[0]): call for call in self._dispatcher.running_calls()}
        looked = self._stopwatch.inspect(calls, now)
        for one in looked.stuck:
            self._warn(one, calls[one.key])
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

    def _warn(self, stuck: StuckCall, call: ListenerCall) -> None:
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
        """Send messages back whose listeners have run longer than ``consume_timeout`` (Java: cleanExpiredMsg).

        :param now: current time in monotonic seconds.
        """
        if not isinstance(self._dispatcher, ConcurrentDispatcher):
            return  # an orderly consumer must not skip a message
        timeout = self._group.options.consume_timeout
        for queue in list(self._group.queues.values()):
            if queue.has_invisible_time:
                continue  # the broker delivers popped messages again by itself

            def is_expired(message: MessageExt, queue: object = queue) -> bool:
                since = self._stopwatch.since(queue, message)  # type: ignore[arg-type]
                return since is not None and now - since > timeout

            count = await self._dispatcher.expire(queue, is_expired)
            if count:
                _log.warning(
                    "%d messages of %s have been with their listener for more than consume_timeout=%g s: they are "
                    "delivered again, and the listener's results are ignored",
                    count, queue.queue, timeout,
                )  # fmt: skip


class LoopGuard:
    """A thread that logs a warning with the stack of the listener that blocks the event loop.

    :param timeout: seconds after which a blocked loop is logged.
    :param interval: seconds between two checks.
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
        warned: float | None = None
        while not self._over.wait(self._interval):
            post(self._loop, self._beat)
            last = self._last
            if warned is not None and last > warned:
                _log.warning("the event loop of group %s runs again", self._group)
                warned = None
            if warned is None and monotonic() - last >= self._timeout and self._warn(last):
                warned = last

    def _warn(self, last: float) -> bool:
        frames = stacks.frames_of_thread(self._loop_thread)
        if not stacks.runs(frames, _RUNS_ASYNC):
            return False  # the machine is busy, or something else than a listener blocks the loop
        _log.warning(
            "an async listener of group %s has blocked the event loop for %.1f s: this client cannot pull, send "
            "heartbeats or renew locks meanwhile. Make it a plain function, which runs in a thread, or await "
            "asyncio.to_thread(...) for the blocking call. It is here:\n%s",
            self._group, monotonic() - last, stacks.text(frames),
        )  # fmt: skip
        return True


def _name(worker: threading.Thread | asyncio.Task[None]) -> str:
    return worker.name if isinstance(worker, threading.Thread) else f"task {worker.get_name()}"


def stack_of(worker: threading.Thread | asyncio.Task[None]) -> str:
    """The current stack of the thread or task that runs a listener, as text."""
    if isinstance(worker, threading.Thread):
        return stacks.text(stacks.frames_of_thread(worker.ident))
    return stacks.text(stacks.frames_of_task(worker))
