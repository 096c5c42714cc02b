"""Answering a send only when its message is on disk (SYNC_FLUSH).

Knows how long to wait and which messages do not want to. Refuses to know how flushing is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from rocketmq_py.broker.config import BrokerConfig
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.server import Hold, Reply, Responder
from rocketmq_py.store import MessageStore
from rocketmq_py.store.config import SYNC_FLUSH

FLUSH = "flush"
"""The key of what is held here."""


class Unflushed(NamedTuple):
    """An answer that waits for the log to be on disk up to ``end``."""

    reply: Reply
    end: int


class SyncFlush:
    """Holds answers until their messages are on disk, or the wait has been too long.

    :param timeout_ms: how long to wait.
    """

    def __init__(self, store: MessageStore, timeout_ms: int, clock: Callable[[], int]) -> None:
        self._store = store
        self._timeout_ms = timeout_ms
        self._clock = clock

    @classmethod
    def of(cls, store: MessageStore, config: BrokerConfig, clock: Callable[[], int]) -> SyncFlush | None:
        """The keeper of unflushed answers, or None where messages are flushed later anyway."""
        return cls(store, config.sync_flush_timeout, clock) if store.config.flush_disk_type == SYNC_FLUSH else None

    def answer(self, reply: Reply, end: int, properties: str | None) -> Reply | Hold:
        """The answer itself for a message that does not wait (property WAIT=false), else a hold of it."""
        if properties and "WAIT\x01false" in properties:
            return reply
        return Hold(FLUSH, self._clock() + self._timeout_ms, Unflushed(reply, end))


class UnflushedSends:
    """The answers that wait for the disk."""

    def __init__(self, store: MessageStore, clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def keep(self, hold: Hold, responder: Responder) -> None:
        """Answer a held send when its message is on disk."""
        unflushed: Unflushed = hold.payload
        done = self._store.flushed(unflushed.end)
        if done is None:
            responder.reply(unflushed.reply)
            return
        loop = asyncio.get_running_loop()
        wait = (hold.deadline_ms - self._clock()) / 1000
        late = loop.call_later(wait, responder.reply, _late(unflushed.reply))
        self._waiting += 1

        def settle(flushed: asyncio.Future[None]) -> None:
            self._waiting -= 1
            late.cancel()
            error = None if flushed.cancelled() else flushed.exception()
            responder.reply(unflushed.reply if error is None else _late(unflushed.reply, str(error)))

        done.add_done_callback(settle)


def _late(reply: Reply, remark: str | None = None) -> Reply:
    """The answer for a message that is stored, but not known to be on disk."""
    return Reply(Code.FLUSH_DISK_TIMEOUT, remark, ext=reply.ext)
