"""Messages that a client sends to its group's retry topic: stored there, or in the dead-letter topic.

The rule is Java's (SendMessageProcessor.handleRetryAndDLQ); it differs from the rule for messages sent back.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketmq_py.broker import remarks
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.send.send_validation import SendHeader
from rocketmq_py.core.broker.lock_table import LockTable
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import ResponseCode as Code, Version

_DEAD_LETTER_QUEUES = 1


class RetryTopics:
    """Decides whether a message sent to a retry topic is stored there or in the group's dead-letter topic."""

    def __init__(
        self, topics: TopicConfigs, groups: SubscriptionGroups, locks: LockTable, clock: Callable[[], int]
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._clock = clock

    def is_dead(self, header: SendHeader, version: int) -> bool:
        """True if a message goes to the dead-letter topic: its retries are used up, or its group consumes in order.

        Orderly consumers retry locally before they send a message to the retry topic.

        :param version: the client's version; clients before 3.4.9 do not send ``maxReconsumeTimes``.
        :raises BrokerError: SUBSCRIPTION_GROUP_NOT_EXIST.
        """
        name = header.topic.removeprefix(names.RETRY_PREFIX)
        group = self._groups.find(name)
        if group is None:
            raise BrokerError.of(Code.SUBSCRIPTION_GROUP_NOT_EXIST, remarks.no_group(name))
        limit = group.retry_max_times
        if version >= Version.V3_4_9 and header.max_reconsume_times is not None:
            limit = header.max_reconsume_times
        return (header.reconsume_times or 0) > limit or self._locks.is_ordered(name, self._clock())

    def dead_letters(self, retry_topic: str) -> str:
        """Return the dead-letter topic of a retry topic's group; create it if it does not exist."""
        topic = names.dlq_topic(retry_topic.removeprefix(names.RETRY_PREFIX))
        return self._topics.create_for_group(topic, _DEAD_LETTER_QUEUES).topic_name
