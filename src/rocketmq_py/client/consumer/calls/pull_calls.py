"""Pull requests: PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361), as push, lite pull and pull consumers send them.

Builds requests, sends them without waiting for the answer, and reads answers.
"""

from __future__ import annotations

import asyncio
import contextlib
from time import monotonic
from typing import NamedTuple

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.core.consumer.pull_window import Segment
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BrokerError
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse
from rocketmq_py.remoting.connection import Connection, answer_callback

FOUND, OFFSET_MOVED = ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED
ANSWERS = frozenset({FOUND, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, OFFSET_MOVED})
"""Response codes of successful pulls, with or without messages; any other code is an error."""
UNLIMITED_BYTES = 2**31 - 1
"""``max_msg_bytes`` of a pull that limits only the number of messages."""


class PendingPull(NamedTuple):
    """A pull that is sent; ``answer`` is the future of its answer.

    :ivar offset: the offset it pulls from.
    :ivar sent_at: when it was sent, in monotonic seconds.
    :ivar is_master: True if it was sent to the queue's master.
    :ivar commits: True if it has an offset to commit.
    :ivar segment: the offsets it is for, None for all from ``offset`` on; messages beyond are those of another pull.
    """

    offset: int
    sent_at: float
    subscription: SubscriptionData
    connection: Connection
    is_master: bool
    answer: asyncio.Future[Reply]
    commits: bool = False
    segment: Segment | None = None


class PullAnswer(NamedTuple):
    """The answer to a pull.

    :ivar code: the response code, one of :data:`ANSWERS`.
    :ivar body: the encoded messages.
    """

    pull: PendingPull
    code: int
    header: PullResponse
    body: bytes


def pull_header(  # noqa: PLR0913 - the fields of one header
    group: str, queue: MessageQueue, offset: int, count: int, flags: int, subscription: SubscriptionData,
    *, version: int, suspend: float, commit: int = 0, posted: bool = True, most_bytes: int = UNLIMITED_BYTES,
) -> PullMessage:  # fmt: skip
    """Make the header of a pull.

    :param count: maximum number of messages.
    :param flags: the sysFlag; see ``core.consumer.flow_control.pull_flags``.
    :param version: the version of the subscription.
    :param suspend: seconds the broker may hold the pull until a message arrives (long polling).
    :param commit: the offset to commit with the pull; 0 commits none.
    :param posted: include the filter expression of the subscription.
    :param most_bytes: maximum bytes of messages.
    """
    return PullMessage(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset, max_msg_nums=count,
        sys_flag=flags, commit_offset=commit, suspend_timeout_millis=int(suspend * 1000), sub_version=version,
        subscription=subscription.sub_string if posted else None, expression_type=subscription.expression_type,
        max_msg_bytes=most_bytes, request_source=-1, bname=queue.broker_name,
    )  # fmt: skip


def begin_pull(
    code: RequestCode, header: PullMessage, subscription: SubscriptionData, connection: Connection, *, timeout: float,
    is_master: bool, segment: Segment | None = None,
) -> PendingPull:  # fmt: skip
    """Send a pull and return without waiting for the answer.

    :param subscription: kept in the result, to decode the answer.
    :param timeout: seconds after which the pull fails with RequestTimeout.
    :param is_master: True if ``connection`` is to the queue's master.
    :param segment: the offsets that the pull is for; None for all from its offset on.
    """
    answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    now = monotonic()
    connection.request(code, header, b"", answer_callback(answer), now + timeout)
    commits = header.commit_offset > 0
    return PendingPull(header.queue_offset, now, subscription, connection, is_master, answer, commits, segment)


def within(messages: list[MessageExt], pull: PendingPull) -> list[MessageExt]:
    """Return the messages of an answer that are for its pull and not for another one; all if it has no segment."""
    segment = pull.segment
    if segment is None or not messages:
        return messages
    start, stop = pull.offset, segment.stop
    if start <= messages[0].queue_offset and messages[-1].queue_offset < stop:
        return messages
    return [message for message in messages if start <= message.queue_offset < stop]


async def pull_answer(instance: ClientInstance, pull: PendingPull) -> PullAnswer:
    """Wait for the answer to a pull.

    :raises BrokerError: the broker refuses the pull.
    :raises NetworkError: no answer in time, or the connection is lost.
    """
    reply = await pull.answer
    if reply.code not in ANSWERS:
        if reply.code == ResponseCode.GO_AWAY:
            instance.connections.retire(pull.connection)
        raise BrokerError.of(reply.code, reply.remark, pull.connection.address)
    return PullAnswer(pull, reply.code, reply.header(PullResponse), reply.body)


def discard(pull: PendingPull) -> None:
    """Give up a pull: ignore its answer or error, whether it has arrived or not."""
    if not pull.answer.cancel() and not pull.answer.cancelled():
        pull.answer.exception()


class WakeUp:
    """A sleep that other code can end early."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None

    def set(self) -> None:
        """End the current :meth:`wait`; without one, do nothing."""
        if self._event is not None:
            self._event.set()

    async def wait(self, seconds: float) -> None:
        """Sleep for ``seconds``, or until :meth:`set` is called."""
        self._event = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event = None
