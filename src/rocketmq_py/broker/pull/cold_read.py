"""Reads for requests other than pulls that do not wait for the disk: threads load what they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rocketmq_py.broker.pull.pull import COLD
from rocketmq_py.server import Hold, Reply
from rocketmq_py.store.fs.residency import NotInMemory, Part, Residency


class ColdRead(NamedTuple):
    """A read that waits for the disk.

    :ivar run: reads again, after a load; returns the answer, or a hold with another :class:`ColdRead`.
    :ivar parts: the parts of files to load before.
    """

    run: Callable[[], Reply | Hold]
    parts: Sequence[Part]


def answer_when_loaded(read: Callable[[Residency | None], Reply | Hold], residency: Residency | None) -> Reply | Hold:
    """Answer a request, or return a hold until what it reads is in memory.

    :param read: reads and returns the answer; raises :class:`NotInMemory`, but only if it is given a residency, and
        before it changes anything that must not be changed twice.
    :param residency: a new one; None to wait for the disk.
    """
    try:
        return read(residency)
    except NotInMemory as missing:
        return Hold(COLD, 0, ColdRead(lambda: answer_when_loaded(read, residency), missing.parts))
