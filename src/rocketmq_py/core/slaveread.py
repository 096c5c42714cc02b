"""What a slave answers a pull with, and where it sends the reader next (PullMessageProcessor.composeResponseHeader).

While the master is there a slave gives readers back to it as soon as what they want is near the end of the log, and
lets none of them wait. While the master is away its slave serves as a master does, except that it does not tell a
reader whose offset it does not know to go elsewhere: the slave may lag.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.protocol.codes import ResponseCode as Code

MASTER_ID = 0


class SlaveAnswer(NamedTuple):
    """The code of an answer, and the broker id to pull from next."""

    code: int
    broker_id: int


def slave_answer(
    code: int, suggested: int, preferred: int, *, is_far_behind: bool, has_master: bool, corrects: bool
) -> SlaveAnswer:
    """What a slave makes of the answer a master would give.

    :param suggested: the broker id a master would name.
    :param preferred: the one the group's configuration names for readers who keep up.
    :param is_far_behind: what is read is further from the end of the log than memory reaches.
    :param has_master: the master is there.
    :param corrects: readers may be told of offsets outside the queue (offsetCheckInSlave).
    """
    if has_master and not is_far_behind:
        return SlaveAnswer(code if code == Code.SUCCESS else Code.PULL_RETRY_IMMEDIATELY, MASTER_ID)
    if code == Code.PULL_OFFSET_MOVED and not corrects:
        return SlaveAnswer(Code.PULL_RETRY_IMMEDIATELY, preferred)
    return SlaveAnswer(code, suggested)
