"""Detection of forks.

Sockets, threads and event loops do not survive a fork, so objects that hold them raise an error in a forked child
instead of hanging. A counter that a fork hook increments is cheaper to check than the process id.
"""

from __future__ import annotations

import os

from rocketmq_py.errors import ForkedError


class Process:
    """Identifies the process that created this object, to detect its use in a forked child."""

    __slots__ = ("_generation", "_pid")

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._generation = _generation

    @property
    def is_this(self) -> bool:
        """True in the process that created this object, False in its forks."""
        return self._generation == _generation

    def check(self) -> None:
        """Raise an error in a fork of the process that created this object.

        :raises ForkedError: this process is a fork of the creator.
        """
        if self._generation != _generation:
            raise ForkedError(
                f"this object was made in process {self._pid} and is used in process {os.getpid()}: sockets and "
                "threads do not survive a fork; make one of its own in each process"
            )


_generation = 0
"""Number of forks between the process that imported the module and this one."""


def _forked() -> None:
    global _generation  # noqa: PLW0603 - a property of the process that only a fork changes
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
