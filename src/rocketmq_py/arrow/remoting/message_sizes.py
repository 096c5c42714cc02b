"""Estimate the size of a topic's messages by pulling a few of them, for the planning of tasks."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.cluster import Cluster, Request
from rocketmq_py.arrow.remoting.parallel import at_once
from rocketmq_py.arrow.remoting.queues import Addresses, QueueRoutes
from rocketmq_py.core.consumer.subscription import ALL, TAG
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse
from rocketmq_py.protocol.sys_flag import PULL_SUBSCRIPTION

_log = logging.getLogger(__name__)

_MESSAGES = 8
_BYTES = 16 * 1024
"""Limits for the messages and bytes that are pulled from a topic; one message is returned whatever its size."""


def message_sizes(cluster: Cluster, ranges: Sequence[QueueRange], queues: QueueRoutes, group: str) -> dict[str, float]:
    """Return the average bytes of a message by topic, from a pull in the middle of a range.

    Topics whose broker does not respond or returns no messages are left out.

    :param ranges: one range for each topic.
    :param queues: addresses of the queues' brokers.
    :param group: the consumer group of the pulls.
    """
    middles = {one.queue: (one.start + one.stop) // 2 for one in ranges}

    def of_broker(members: tuple[Addresses, list[MessageQueue]]) -> dict[str, float]:
        at, asked = members
        requests = [_pull(queue, middles[queue], group) for queue in asked]
        try:
            answers = cluster.exchange(at.all[0], requests) if at.all else []
        except RocketMQError as e:  # not fatal here: the read itself retries and reports errors
            _log.info("the size of messages of %s is not known, tasks are divided by rows: %s", at.broker, e)
            return {}
        sizes = {queue.topic: _size(answer, middles[queue]) for queue, answer in zip(asked, answers, strict=False)}
        return {topic: size for topic, size in sizes.items() if size is not None}

    found = at_once(of_broker, list(queues.only(middles).by_address().items()))
    return {topic: size for sizes in found for topic, size in sizes.items()}


def _size(answer: Reply, offset: int) -> float | None:
    """Return the average bytes of a message in the response to a pull at ``offset``; None without messages."""
    if answer.code != ResponseCode.SUCCESS:
        return None
    number = answer.header(PullResponse).next_begin_offset - offset
    return len(answer.body) / number if number > 0 and answer.body else None


def _pull(queue: MessageQueue, offset: int, group: str) -> Request:
    header = PullMessage(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, queue_offset=offset, max_msg_nums=_MESSAGES,
        sys_flag=PULL_SUBSCRIPTION, commit_offset=0, suspend_timeout_millis=0, subscription=ALL, sub_version=0,
        expression_type=TAG, max_msg_bytes=_BYTES, bname=queue.broker_name,
    )  # fmt: skip
    return RequestCode.PULL_MESSAGE, header.to_ext(), b""
