"""Rows about a server as a process: the time until it serves, and its private memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figure, at_most
from benchmarks.loads import QUEUES, Load
from benchmarks.machine import anonymous_mib
from benchmarks.rows.clients import store
from benchmarks.servers import Server, start_java, start_ours
from benchmarks.session import Session
from tests.interop.javapeer import JavaPeer

_MESSAGES = 1_000_000

Start = Callable[[Path], Server]


def start(session: Session) -> list[Figure]:
    """Time from the command until name server and broker are ready: one process of ours, two of Java in sequence."""

    def run(begin: Start) -> float:
        with session.work() as work:
            clock = time.perf_counter()
            server = begin(work)
            took = time.perf_counter() - clock
            server.kill()
            return took

    JavaPeer.build()
    for begin in (start_ours, start_java):
        session.tell(f"start: {begin.__name__} took {run(begin):.2f} s the first time, not counted")
    values = session.in_turn("start", "s", lambda: run(start_ours), lambda: run(start_java))
    return [Figure("start", "s", at_most(0.15), *values)]


def memory(session: Session) -> list[Figure]:
    """Anonymous memory after 1M sends of 1 KiB: of our one process, and of Java's broker without its name server."""
    count = session.scale.of(_MESSAGES, QUEUES)

    def run(begin: Start) -> float:
        with session.work() as work:
            server = begin(work)
            try:
                store(session, server, Load("send", 256), count)
                return anonymous_mib(server.pid)
            finally:
                server.kill()

    JavaPeer.build()
    session.tell(f"memory: {count:,} messages to a fresh server each time")
    values = session.in_turn("memory", "MiB", lambda: run(start_ours), lambda: run(start_java))
    return [Figure("memory", "MiB", at_most(0.15), *values)]
