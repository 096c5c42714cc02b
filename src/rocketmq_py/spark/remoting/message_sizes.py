"""How large the messages of topics are, as far as a planner needs to know it: looked up in a few messages of each."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rocketmq_py.core.consumer.subscription import ALL, TAG
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage, PullResponse
from rocketmq_py.protocol.sys_flag import PULL_SUBSCRIPTION
from rocketmq_py.spark.ranges import QueueRange
from rocketmq_py.spark.remoting.cluster import Cluster, Request
from rocketmq_py.spark.remoting.parallel import at_once
from rocketmq_py.spark.remoting.queues import Addresses, QueueRoutes

_log = logging.getLogger(__name__)

_MESSAGES = 8
_BYTES = 16 * 1024
"""Limits of what is read of one topic; one message of any size is, too."""


def message_sizes(cluster: Cluster, ranges: Sequence[QueueRange], queues: QueueRoutes, group: str) -> dict[str, float]:
    """Bytes of a message of each topic, from the middle of a range of it. Topics that give no answer are left out.

    :param ranges: one for each topic.
    :param group: the consumer group that pulls.
    """
    middles = {one.queue: (one.start + one.stop) // 2 for one in ranges}

    def of_broker(members: tuple[Addresses, list[MessageQueue]]) -> dict[str, float]:
        at, asked = members
        requests = [_pull(queue, middles[queue], group) for queue in asked]
        try:
            answers = cluster.exchange(at.all[0], requests) if at.all else []
        except RocketMQError as e:  # the read itself tries again, and says what fails
            _log.info("the size of messages of %s is not known, tasks are divided by rows: %s", at.broker, e)
            return {}
        sizes = {queue.topic: _size(answer, middles[queue]) for queue, answer in zip(asked, answers, strict=False)}
        return {topic: size for topic, size in sizes.items() if size is not None}

    found = at_once(of_broker, list(queues.only(middles).by_address().items()))
    return {topic: size for sizes in found for topic, size in sizes.items()}


def _size(answer: Reply, offset: int) -> float | None:
    """Bytes of a message in the answer to a pull at ``offset``; None if it has none."""
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
