"""The orderly dispatcher: passes the messages of a queue to their listener in order, in one thread or task at a time.

It follows the decisions of ``core.consumer.orderly`` and commits offsets in memory. It runs in the event loop; plain
listeners run in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import takewhile
from time import monotonic
from typing import Any

from rocketmq_py.client.consumer.dispatch.concurrent import TICK, ListenerCall, Listeners
from rocketmq_py.client.consumer.dispatch.orderly_listeners import OrderlyListener
from rocketmq_py.client.consumer.dispatch.run_workers import RunTasks, RunThreads
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.core.consumer.consume_stats import ConsumeStats
from rocketmq_py.core.consumer.offset_table import OffsetTable
from rocketmq_py.core.consumer.orderly import PAUSES, OrderedQueue, OrderlyRun, RunEnd, suspend_seconds
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.model import MessageExt
from rocketmq_py.protocol.names import is_retry_topic

_log = logging.getLogger(__name__)

DeadLetter = Callable[[MessageExt], Coroutine[Any, Any, bool]]
"""Sends a message without retries left to the dead-letter topic; returns True if the broker has confirmed it."""


class _QueueState:
    """State of one queue in the dispatcher.

    :ivar run: the messages that a listener consumes now; None if there are none.
    :ivar task: the task of that run, if the listener is ``async def``.
    :ivar pause: the timer that ends the pause after a failure; None if the queue is not paused.
    :ivar idle: set while no listener has messages of the queue.
    """

    def __init__(self, queue: OrderedQueue) -> None:
        self.queue = queue
        self.run: OrderlyRun | None = None
        self.task: asyncio.Task[None] | None = None
        self.pause: asyncio.TimerHandle | None = None
        self.idle = asyncio.Event()
        self.idle.set()

    @property
    def is_free(self) -> bool:
        """True if the next run may start: the queue is idle, not paused and not dropped."""
        return self.idle.is_set() and self.pause is None and not self.queue.dropped

    def suspend(self, seconds: float, then: Callable[[], None]) -> None:
        self.pause = asyncio.get_running_loop().call_later(seconds, then)

    def end_pause(self) -> None:
        """End the pause of a queue that is dropped, or whose consumer closes: it starts no further run."""
        if self.pause is not None:
            self.pause.cancel()


class OrderlyDispatcher:
    """Passes messages to listeners: those of one queue in order, different queues concurrently.

    :param threads: maximum number of listeners that run at the same time.
    :param options: the consumer's options; used are ``max_reconsume_times`` and ``suspend_seconds``.
    :param offsets: gets the offsets to commit.
    :param dead_letter: sends messages without retries left to the dead-letter topic.
    :param stats: returns the statistics of a topic.
    :param capacity_freed: called with a queue when messages of it have been removed from memory.
    :param lock_expired: called when a queue has messages but no valid lock.
    :param name: prefix of the threads' names.
    """

    def __init__(
        self,
        listeners: Listeners[OrderlyListener],
        threads: int,
        options: PushOptions,
        offsets: OffsetTable,
        dead_letter: DeadLetter,
        stats: Callable[[str], ConsumeStats],
        capacity_freed: Callable[[ProcessQueue], None],
        lock_expired: Callable[[], None],
        name: str,
    ) -> None:
        self._listeners = listeners
        self._offsets = offsets
        self._dead_letter = dead_letter
        self._stats = stats
        self._capacity_freed = capacity_freed
        self._lock_expired = lock_expired
        self._max_times = options.most_reconsume_times
        self._suspend = options.suspend_seconds
        self._loop = asyncio.get_running_loop()
        self.threads = RunThreads(threads, name)
        self._tasks = RunTasks(threads)
        self._states: dict[ProcessQueue, _QueueState] = {}
        self._ticker: asyncio.TimerHandle | None = None
        self._pending: set[asyncio.Task[None]] = set()
        self._closing = False

    # -- in

    def submit(self, queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:  # noqa: ARG002 - the queue has them
        """Start to consume the messages that were put into the queue, unless it is busy or paused."""
        state = self._states.get(queue)
        if state is None:
            assert isinstance(queue, OrderedQueue)
            state = self._states[queue] = _QueueState(queue)
        self._go_on(state)

    def wake(self, queue: ProcessQueue) -> None:
        """Continue to consume a queue after its lock was acquired again."""
        state = self._states.get(queue)
        if state is not None:
            self._go_on(state)

    def drop(self, queue: ProcessQueue) -> Sequence[MessageExt]:
        """Start no further message of a queue and end its pause.

        :returns: always an empty sequence: while a listener runs, it is not known which messages it has started.
        """
        state = self._states.get(queue)
        if state is not None:
            state.end_pause()
            if state.idle.is_set():
                del self._states[queue]
        return ()

    def running_calls(self) -> list[ListenerCall]:
        """The running calls of listeners."""
        return [
            ListenerCall(state.queue, messages, [state.task] if state.task else self.threads.workers_on(state.run))
            for state in self._states.values()
            if state.run is not None and (messages := state.run.under_way())
        ]

    def tasks(self) -> list[asyncio.Task[None]]:
        return self._tasks.tasks

    def resize(self, threads: int) -> None:
        self.threads.resize(threads)
        self._tasks.resize(threads)

    async def wait_idle(self, queue: ProcessQueue) -> None:
        """Wait until no listener has messages of a dropped queue and the last result is handled."""
        state = self._states.get(queue)
        if state is not None:
            await state.idle.wait()

    def is_idle(self, queue: ProcessQueue) -> bool:
        """True if no listener has messages of the queue now."""
        state = self._states.get(queue)
        return state is None or state.idle.is_set()

    async def close(self) -> None:
        """Start no further batch, and wait until running ones have ended, except the one whose listener calls this."""
        self._closing = True
        for state in self._states.values():
            state.end_pause()
            if state.run is not None:
                state.run.stopped = True
        here = asyncio.current_task()
        try:
            await asyncio.gather(*(state.idle.wait() for state in self._states.values() if state.task is not here))
        finally:
            for run in [state.run for state in self._states.values() if state.run is not None]:
                self._settle(run)  # after a timeout: results of batches that have ended
            self.threads.close()
            if self._ticker is not None:
                self._ticker.cancel()

    # -- runs

    def _go_on(self, state: _QueueState) -> None:
        """Pass the next messages of a queue to their listener, unless it has none or is busy, paused or dropped."""
        if self._closing or not state.is_free:
            return
        messages = self._next_messages(state.queue)
        if not messages:
            return
        listener = self._listeners.of(messages[0].topic)
        state.idle.clear()
        if listener is None:
            _log.error("no listener for topic %s; %d messages are sent back", messages[0].topic, len(messages))
            self._spawn(self._dead_letter_all(state, messages, auto_commit=True))
            return
        state.run = run = OrderlyRun(state.queue, messages, listener.batch_size)
        self._ticker = self._ticker or self._loop.call_later(TICK, self._tick)
        done = partial(self._over, state, run)
        if listener.is_async:
            state.task = self._tasks.submit(partial(listener.aconsume, run), done)
        else:
            self.threads.submit(run, partial(listener.consume, run), done)

    def _next_messages(self, queue: OrderedQueue) -> list[MessageExt]:
        """The first waiting messages that have the same original topic; only a retry topic holds several of them."""
        waiting = queue.waiting()
        if not waiting or not is_retry_topic(queue.queue.topic):
            return waiting
        topic = waiting[0].topic
        return list(takewhile(lambda message: message.topic == topic, waiting))

    def _tick(self) -> None:
        """Handle the results of finished batches while listeners process the next ones; a timer calls this."""
        running = [state.run for state in self._states.values() if state.run is not None]
        for run in running:
            self._settle(run)
        self._ticker = self._loop.call_later(TICK, self._tick) if running else None

    def _settle(self, run: OrderlyRun) -> None:
        queue = run.queue
        consumed, offset = run.settle()
        if not consumed and offset is None:
            return
        self._stats(run.messages[0].topic).ok.add(consumed)
        queue.consumed_at = now = monotonic()
        if offset is not None and queue.may_commit(now):
            self._update_offset(queue, offset)
        self._capacity_freed(queue)

    def _update_offset(self, queue: OrderedQueue, offset: int) -> None:
        if not queue.has_invisible_time:  # popped messages are acked one by one
            self._offsets.update(queue.queue, offset, increase_only=False)

    def _over(self, state: _QueueState, run: OrderlyRun) -> None:
        """Handle the results after a listener has ended with the messages passed to it (``run``).

        Commits offsets, then continues or pauses the queue, depending on why the run ended (``run.end``).
        """
        state.run = state.task = None
        self._settle(run)
        if run.began is not None:
            self._stats(run.messages[0].topic).consumed.add(run.calls, monotonic() - run.began)
        if run.end is RunEnd.SUSPEND:
            self._failed(state, run)
            return
        if run.end is RunEnd.ROLLBACK:
            run.queue.rollback()
        if run.end in (RunEnd.ROLLBACK, None):  # None: an exception outside of RAISED has ended the worker
            self._pause(state, suspend_seconds(run.requested_pause, self._suspend))
        elif run.end is RunEnd.TIME:
            self._pause(state, PAUSES[0])
        # The lock may have been renewed since the run found it expired: no other renewal would wake the queue then.
        is_renewed = run.end is RunEnd.UNLOCKED and run.queue.is_usable(monotonic())
        if run.end is RunEnd.UNLOCKED and not is_renewed:
            self._lock_expired()
        self._free(state, go_on=is_renewed or run.end is RunEnd.EMPTY)

    def _free(self, state: _QueueState, *, go_on: bool) -> None:
        state.idle.set()
        if state.queue.dropped:
            self._states.pop(state.queue, None)
        elif go_on:
            self._go_on(state)

    def _pause(self, state: _QueueState, seconds: float) -> None:
        def then() -> None:
            state.pause = None
            self._go_on(state)

        if not self._closing and not state.queue.dropped:
            state.suspend(seconds, then)

    # -- failures

    def _failed(self, state: _QueueState, run: OrderlyRun) -> None:
        """Count a failed delivery: pause the queue, or send messages without retries left to the dead-letter topic."""
        stats = self._stats(run.messages[0].topic)
        stats.failed.add(len(run.failed))
        stats.failed_hour.add(len(run.failed))
        dead = [message for message in run.failed if message.reconsume_times >= self._max_times]
        for message in run.failed:
            if message.reconsume_times < self._max_times:
                message.reconsume_times += 1
        if len(dead) < len(run.failed):
            self._pause(state, suspend_seconds(run.requested_pause, self._suspend))
        if dead:
            self._spawn(self._dead_letter_all(state, dead, auto_commit=run.auto_commit))
        else:
            self._free(state, go_on=False)

    async def _dead_letter_all(self, state: _QueueState, messages: Sequence[MessageExt], *, auto_commit: bool) -> None:
        queue, gone = state.queue, 0
        try:
            while gone < len(messages) and queue.is_usable(monotonic()) and await self._dead_letter(messages[gone]):
                gone += 1
        finally:
            self._release(queue, messages[:gone], auto_commit=auto_commit)
            for message in messages[gone:]:
                message.reconsume_times += 1
            if gone < len(messages) and state.pause is None:
                self._pause(state, suspend_seconds(None, self._suspend))
            self._free(state, go_on=state.pause is None)

    def _release(self, queue: OrderedQueue, messages: Sequence[MessageExt], *, auto_commit: bool) -> None:
        if not auto_commit:
            queue.discard(messages)
        elif messages and queue.may_commit(monotonic()):
            self._update_offset(queue, queue.commit(messages))
        self._capacity_freed(queue)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
