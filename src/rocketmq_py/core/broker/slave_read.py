"""What a slave answers a pull with (DefaultPullMessageResultHandler, DefaultMessageStore.nextOffsetCorrection).

A slave serves as a master does and names, like one, the broker to pull from next; so a reader who has caught up is
back at the master with its next pull. But a slave may lag: it does not tell a reader whose offset it does not have to
go elsewhere. It sends such a reader back to the master; while that is away it lets the reader wait for the queue to
grow, where a Java slave has it ask again and again.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.protocol.codes import ResponseCode as Code


class SlaveAnswer(NamedTuple):
    """The code of an answer, and the broker id to pull from next."""

    code: int
    broker_id: int


def slave_answer(code: int, suggested: int, preferred: int, *, corrects: bool, has_master: bool) -> SlaveAnswer:
    """What a slave makes of the answer a master would give.

    :param suggested: the broker id a master would name.
    :param preferred: the one the group's configuration names for readers who keep up.
    :param corrects: readers may be told of offsets outside the queue (offsetCheckInSlave).
    :param has_master: the master is there.
    """
    if code == Code.PULL_OFFSET_MOVED and not corrects:
        return SlaveAnswer(Code.PULL_RETRY_IMMEDIATELY if has_master else Code.PULL_NOT_FOUND, preferred)
    return SlaveAnswer(code, suggested)
