"""The threads in which a broker's blocking work on files runs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from rocketmq_py.store.log.flusher import Flusher


class Workers:
    """Creates the threads of a broker's store. A simulation overrides both methods to use its event loop instead."""

    def executor(self, name: str) -> Executor:
        """Return a new executor with one thread, which runs one job after the other.

        :param name: prefix of its thread's name.
        """
        return ThreadPoolExecutor(1, thread_name_prefix=name)

    def flusher(self, sync: Callable[[int, int], None], flushed: int) -> Flusher:
        """Return a new flusher of a commit log; see :class:`~rocketmq_py.store.log.flusher.Flusher`."""
        return Flusher(sync, flushed)
