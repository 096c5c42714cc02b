"""Where blocking work on files runs: in threads of their own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from rocketmq_py.store.log.flusher import Flusher


class Workers:
    """The threads of a broker's store. A simulation overrides both methods to run the work in its event loop."""

    def executor(self, name: str) -> Executor:
        """An executor that does one job after the other.

        :param name: prefix of its thread's name.
        """
        return ThreadPoolExecutor(1, thread_name_prefix=name)

    def flusher(self, sync: Callable[[int, int], None], flushed: int) -> Flusher:
        """The flusher of a commit log; see :class:`~rocketmq_py.store.log.flusher.Flusher`."""
        return Flusher(sync, flushed)
