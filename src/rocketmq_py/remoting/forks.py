"""Whether this is still the process an object was made in.

Sockets, threads and event loops do not survive a fork, so what holds them must refuse to work in a forked child instead
of hanging. Asking the kernel for the process id on every call would cost more than the rest of the check.
"""

from __future__ import annotations

import os

from rocketmq_py.errors import ForkedError


class Process:
    """The process it was made in."""

    __slots__ = ("_generation", "_pid")

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._generation = _generation

    @property
    def is_this(self) -> bool:
        """Whether no fork lies between."""
        return self._generation == _generation

    def check(self) -> None:
        """Does nothing in the same process.

        :raises ForkedError: this is a forked child of it.
        """
        if self._generation != _generation:
            raise ForkedError(
                f"this object was made in process {self._pid} and is used in process {os.getpid()}: sockets and "
                "threads do not survive a fork; make one of its own in each process"
            )


_generation = 0
"""How many forks lie between this process and the one that imported the module."""


def _forked() -> None:
    global _generation  # noqa: PLW0603 - a property of the process, changed by nothing but a fork
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
