"""A slave's response to a pull (DefaultPullMessageResultHandler, DefaultMessageStore.nextOffsetCorrection).

A slave serves pulls like a master and, like one, names the broker to pull from next; so a consumer that has caught up
returns to the master with its next pull. A slave may lag, so it does not reset a consumer whose offset is beyond its
own log: it sends the consumer back to the master. While the master is down it holds the pull until the queue grows; a
Java slave makes the consumer ask again and again.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.protocol.codes import ResponseCode as Code


class SlaveAnswer(NamedTuple):
    """Response code, and the broker id to pull from next."""

    code: int
    broker_id: int


def slave_answer(code: int, suggested: int, preferred: int, *, corrects: bool, has_master: bool) -> SlaveAnswer:
    """Return the response of a slave to a pull: its code, and the id of the broker to pull from next.

    :param code: the response code by a master's rules.
    :param suggested: the broker id by a master's rules.
    :param preferred: the broker id that the group's configuration has for consumers without a large lag.
    :param corrects: True if the slave corrects offsets outside of the queue itself (``offsetCheckInSlave``).
    :param has_master: True if the master is up.
    """
    if code == Code.PULL_OFFSET_MOVED and not corrects:
        return SlaveAnswer(Code.PULL_RETRY_IMMEDIATELY if has_master else Code.PULL_NOT_FOUND, preferred)
    return SlaveAnswer(code, suggested)
