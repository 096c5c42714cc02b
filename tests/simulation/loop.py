"""An event loop without real time: when nothing is ready, the clock jumps to the next timer.

Every callback belongs to a simulated process, the one it was scheduled in (a context variable). A process that is
stopped keeps its callbacks until it goes on; one that is killed loses them, in the middle of whatever it awaited.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from heapq import heappop, heappush
from typing import Any

import msgspec

from tests.simulation.machine import clock

_log = logging.getLogger(__name__)

_TURN_SECONDS = 1e-6
"""What a turn of the loop takes: whoever waits by looking at the clock gets on."""
_MOST_CALLBACKS = 400_000
"""So many callbacks in one schedule are a loop that never ends."""


class Stuck(Exception):
    """Nothing can happen any more, or too much has happened."""


class Handle(msgspec.Struct, eq=False, gc=True):
    """A callback that is to run; as ``asyncio.TimerHandle``, without what only debugging needs.

    It is a struct, because some thousands are made in each schedule, and that takes no frame.

    :ivar due: when, in seconds of the loop's clock; of a timer only.
    :ivar callback: None if it is cancelled.
    """

    due: float
    callback: Callable[..., object] | None
    args: tuple[Any, ...]
    context: contextvars.Context

    def cancel(self) -> None:
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.due


class Process:
    """A simulated process of a machine.

    :param ip: the address of its machine.
    """

    def __init__(self, loop: SimLoop, name: str, ip: str) -> None:
        self.loop = loop
        self.name = name
        self.ip = ip
        self.is_paused = False
        self.is_dead = False
        self.is_idle = False
        """True if it runs nothing for now."""
        self._held: list[Handle] = []
        self.context = copy_context()
        self.context.run(_current.set, self)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in this process."""
        return self.loop.create_task(work, context=self.context.copy())

    def call(self, function: Callable[[], Any]) -> Any:
        """Call a function in this process, now."""
        return self.context.copy().run(function)

    def hold(self, handle: Handle) -> None:
        """Keep a callback until the process goes on; nothing of it is left of a dead one."""
        if not self.is_dead:
            self._held.append(handle)

    def pause(self) -> None:
        """Stop it (SIGSTOP)."""
        self.is_paused = self.is_idle = True

    def resume(self) -> None:
        """Let it go on."""
        self.is_paused = False
        self.is_idle = self.is_dead
        held, self._held = self._held, []
        self.loop.ready_again(held)

    def kill(self) -> None:
        """End it without a word (SIGKILL)."""
        self.is_dead = self.is_idle = True
        self._held.clear()

    def __repr__(self) -> str:
        return self.name


_current: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def current() -> Process:
    """The simulated process that runs now."""
    process = _current.get()
    assert process is not None, "this does not run in a simulated process"
    return process


class SimLoop(asyncio.BaseEventLoop):
    """The loop; its network is attached by :class:`tests.simulation.network.Network`."""

    network: Any

    def __init__(self) -> None:
        super().__init__()
        # Nobody asks for asyncio.all_tasks() here, and entering each in that weak set takes more than making it.
        asyncio.tasks._all_tasks.add = bool  # type: ignore[attr-defined]
        self._moment = clock.moment
        self._moment[0] = 1.0
        # What is called for each task and future is a function in C.
        self.time = clock.monotonic  # type: ignore[method-assign]
        self.get_debug = bool  # type: ignore[method-assign,assignment]
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]
        self._clock_resolution = 1e-9
        self.tasks: dict[asyncio.Task[Any], Process | None] = {}
        """All tasks there ever were, and the process of each.

        Kept until the end: what is collected when must not depend on chance.
        """
        self.callbacks = 0
        self._waiting: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._timer_number = 0
        self.faults: list[str] = []
        """What was raised in callbacks and tasks and caught by nobody."""
        self.set_exception_handler(self._note_fault)

    # -- time

    def _run_once(self) -> None:
        """Run everything, turn by turn, until the loop is stopped."""
        ready, timers, moment, process_of = self._waiting, self._timers, self._moment, _current
        while not self._stopping:
            now = moment[0] + _TURN_SECONDS
            if not ready and (due := self._next_timer()) > now:
                now = due
            moment[0] = now
            while timers and timers[0][0] <= now:
                ready.append(heappop(timers)[2])
            count = len(ready)
            self.callbacks += count
            if self.callbacks > _MOST_CALLBACKS:
                raise Stuck(f"{self.callbacks} callbacks in one schedule")
            for _ in range(count):
                handle = ready.popleft()
                callback = handle.callback
                if callback is None:
                    continue
                context = handle.context
                process = context.get(process_of)
                if process is not None and process.is_idle:
                    process.hold(handle)
                    continue
                try:
                    context.run(callback, *handle.args)
                except Exception as e:  # noqa: BLE001 - as any loop: told, and the others go on
                    self.call_exception_handler({"message": f"Exception in callback {callback}", "exception": e})

    def _next_timer(self) -> float:
        """When the next timer is due."""
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heappop(timers)
        if not timers:
            raise Stuck("everything waits, and nothing is due")
        return timers[0][0]

    def ready_again(self, handles: list[Handle]) -> None:
        """Run callbacks of a process that goes on, in their order."""
        self._waiting.extend(handles)

    # -- callbacks

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        handle = Handle(0.0, callback, args, copy_context() if context is None else context)
        self._waiting.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        handle = Handle(when, callback, args, copy_context() if context is None else context)
        self._timer_number = number = self._timer_number + 1
        heappush(self._timers, (when, number, handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        when = self._moment[0] + delay
        handle = Handle(when, callback, args, copy_context() if context is None else context)
        self._timer_number = number = self._timer_number + 1
        heappush(self._timers, (when, number, handle))
        return handle

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: object) -> None:
        pass

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks[task] = _current.get() if context is None else context.get(_current)
        return task

    def _note_fault(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.faults.append(f"{context.get('message')}: {context.get('exception')!r}")
        _log.error("%s", context.get("message"), exc_info=context.get("exception"))

    # -- threads: a step of the loop each

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = self.create_future()

        def step() -> None:
            if future.done():
                return
            try:
                future.set_result(func(*args))
            except Exception as e:  # noqa: BLE001 - the caller gets it
                future.set_exception(e)

        self.call_later(self.network.thread_delay(), step)
        return future

    # -- network

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        import socket

        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port or 0))]

    async def sock_connect(self, sock: Any, address: Any) -> None:
        sock.end = await self.network.connect(current(), (address[0], address[1]))

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, ssl: Any = None, sock: Any = None, **_: Any
    ) -> Any:
        assert not ssl, "there is no TLS on the simulated network"
        end = sock.end if sock is not None else await self.network.connect(current(), (host, port))
        protocol = protocol_factory()
        end.attach(protocol)
        return end, protocol

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return self.network.listen(current(), port, protocol_factory)

    # -- end

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end, with the clock of this loop."""
        clock.begin()
        asyncio.set_event_loop(self)
        try:
            return self.run_until_complete(work)
        finally:
            asyncio.set_event_loop(None)

    def unretrieved(self) -> list[str]:
        """Tasks that failed without anybody being told.

        Those of dead processes are left out: the callback that would have told somebody is lost with the process.
        """
        return [
            f"{task.get_coro()} failed: {task.exception()!r}"
            for task, process in self.tasks.items()
            if process is None or not process.is_dead
            if task.done() and not task.cancelled() and task._log_traceback  # type: ignore[attr-defined]
        ]

    def abandon(self) -> None:
        """Forget everything that was left running."""
        self.set_exception_handler(lambda *_: None)
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if task.done() and not task.cancelled():
                task.exception()
        self._waiting.clear()
        self._timers.clear()
        self.tasks.clear()
        self.close()
