"""A broker without sockets: takes frames as from a connection, and returns answers as commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.services import Services
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.server import Peer
from rocketmq_py.server.reply import Buffer
from rocketmq_py.server.requests.dispatcher import Dispatcher
from rocketmq_py.server.sliced_work import SpareTime
from rocketmq_py.store import FileSystem, StoreConfig, Workers
from rocketmq_py.store.settings import CONSUME_QUEUE_ENTRY
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import MAX_FRAME, FrameDecoder
from tests.unit.broker.workers import WithoutThreads

START_MS = 1_700_000_000_000
SMALL = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 1000 * CONSUME_QUEUE_ENTRY,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
    "mapped_file_size_timer_log": 1 << 20,
}
WITHOUT_TIMERS = {"timer_wheel_enable": False}
"""For brokers in memory: their wheel has tens of megabytes."""


class Client:
    """One connection: remembers what the broker says."""

    def __init__(self, broker: InProcess, port: int) -> None:
        self.broker = broker
        self._frames = FrameDecoder()
        self.heard: list[Command] = []
        """Answers that came late, and what the broker said unasked."""
        self.peer = Peer(("127.0.0.1", port), ("127.0.0.1", 10911), self._hear)

    def _hear(self, data: bytes) -> None:
        self.heard += map(decode_command, self._frames.feed(data))
        self.broker.news.set()

    def call(self, code: int, header: Header | None = None, body: bytes = b"", **more: Any) -> Command | None:
        """The answer to a request, or None when it is to come later or never."""
        answers = self.read([Command(code, 1, ext=header.to_ext() if header else {}, body=body, **more)])
        return answers[0] if answers else None

    def ask(self, code: int, header: Header | None = None, body: bytes = b"", **more: Any) -> Command:
        """The answer to a request that is answered at once, or by a task."""
        answer = self.call(code, header, body, **more)
        assert answer is not None
        return answer

    def ask_task(self, code: int, header: Header | None = None, body: bytes = b"", **more: Any) -> Command:
        """The answer to a request that a task answers, whatever its handler is."""
        command = Command(code, 1, ext=header.to_ext() if header else {}, body=body, **more)
        return asyncio.run(self._serve_tasks([command], 1))[0]

    def read(self, commands: list[Command]) -> list[Command]:
        """The answers to requests that arrive in one read; those of tasks are the last."""
        tasks = sum(command.code in self.broker.async_codes and not command.is_oneway for command in commands)
        if not tasks or _is_in_loop():
            return self._serve(commands)
        return asyncio.run(self._serve_tasks(commands, tasks))

    def _serve(self, commands: list[Command]) -> list[Command]:
        decoder = self.broker.dispatcher.frame_decoder(MAX_FRAME)
        frames = decoder.feed(b"".join(map(encode_command, commands)))
        output: list[Buffer] = []
        while frames:  # on a busy machine a read is handled in several turns
            answers, fault, frames = self.broker.dispatcher.serve(self.peer, frames)
            assert fault is None
            output += answers
        return [decode_command(frame) for frame in FrameDecoder().feed(b"".join(map(bytes, output)))]

    async def _serve_tasks(self, commands: list[Command], tasks: int) -> list[Command]:
        before = len(self.heard)
        answers = self._serve(commands)
        if len(answers) == len(commands):
            return answers
        self.broker.news = asyncio.Event()
        self.broker.news.set()  # what was put off before this loop began
        while tasks > 0:
            # The loop sleeps while threads work: one that spins has the interpreter's lock, and they wait 5 ms for it.
            await self.broker.news.wait()
            self.broker.news.clear()
            self.broker.run_callbacks()
            answered = [received for received in self.heard[before:] if received.is_response]
            for answer in answered:
                self.heard.remove(answer)
            answers += answered
            tasks -= len(answered)
        return answers

    def leave(self) -> None:
        self.peer.lost()
        self.broker.services.disconnected(self.peer)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class InProcess:
    """A broker whose clock and event loop are in the test's hands."""

    def __init__(
        self, root: Path, store: dict[str, Any] | None = None, now: int = START_MS, fs: FileSystem | None = None,
        handlers: Sequence[object] = (), workers: Workers | None = None, **config: Any,
    ) -> None:  # fmt: skip
        self.now = now
        self._soon: list[Callable[[], None]] = []
        self.news = asyncio.Event()
        """Set when a client gets an answer and when something is put off to the next turn of the event loop."""
        self.config = settings = BrokerConfig(store_path_root_dir=str(root), **config)
        self.services = Services(
            settings,
            StoreConfig(**SMALL | (store or {})),
            10911,
            self.clock,
            self._call_soon,
            fs=fs,
            workers=workers or WithoutThreads(),
        )
        self.services.open()
        router = self.services.router(*handlers)
        self.async_codes = {int(route.code) for route in router.routes if route.is_async}
        # Without an event loop nothing can wait for a later turn of it.
        self.dispatcher = Dispatcher(
            router,
            after_read=self.services.commit_read,
            on_hold=self.services.keep_hold,
            spare_time=SpareTime(float("inf")),
        )
        self._clients = 0

    def clock(self) -> int:
        return self.now

    def _call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)
        self.news.set()

    def connect(self) -> Client:
        self._clients += 1
        return Client(self, 50_000 + self._clients)

    def turn(self, forward_ms: int = 0) -> None:
        """One turn of the event loop, ``forward_ms`` later: timers, then what was put off."""
        self.now += forward_ms
        self.services.tick_store()
        self.services.tick_delays()
        self.services.tick_clients()
        self.services.tick_timers()
        self.run_callbacks()

    def run_callbacks(self) -> None:
        """Run what was put off to the next turn of the event loop."""
        while self._soon:
            self._soon.pop(0)()


@contextmanager
def broker(root: Path, **settings: Any) -> Iterator[InProcess]:
    """An open broker, closed at the end."""
    running = InProcess(root, **settings)
    try:
        yield running
    finally:
        running.services.close()
