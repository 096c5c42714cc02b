"""A slave's response to a pull (DefaultPullMessageResultHandler, DefaultMessageStore.nextOffsetCorrection).

A slave serves pulls by the rules of a master and, like a master, suggests the broker to pull from next; so a consumer
that has caught up pulls from the master again. Because a slave may lag behind, it does not reset a consumer whose
offset is beyond its own log, but redirects it to the master. While the master is down, it holds the pull until the
queue grows; a Java slave lets the consumer retry continuously.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_py.protocol.codes import ResponseCode as Code


class SlaveAnswer(NamedTuple):
    """A slave's response to a pull: the response code, and the id of the broker to pull from next."""

    code: int
    broker_id: int


def slave_answer(code: int, suggested: int, preferred: int, *, corrects: bool, has_master: bool) -> SlaveAnswer:
    """Return the response code of a slave to a pull, and the id of the broker to pull from next.

    :param code: the response code that a master would return.
    :param suggested: the broker id that a master would suggest.
    :param preferred: the broker id that the group's configuration has for consumers without a large lag.
    :param corrects: True if the slave itself corrects offsets outside the queue (``offsetCheckInSlave``).
    :param has_master: True if the master is up.
    """
    if code == Code.PULL_OFFSET_MOVED and not corrects:
        return SlaveAnswer(Code.PULL_RETRY_IMMEDIATELY if has_master else Code.PULL_NOT_FOUND, preferred)
    return SlaveAnswer(code, suggested)
