"""Topics and consumer groups that their files have lost, found again by what else is on disk.

A topic has folders of its consume queues, or messages that wait for their time or transaction; a group has offsets.
Everything else about them (permissions, attributes, the number of queues that never had a message) is lost and gets its
default.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping

from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.topic_attributes import BATCHED
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.core.queue_limits import MAX_QUEUES
from rocketmq_py.errors import ConfigError, CorruptRecord, shortened
from rocketmq_py.properties import Property
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.store import MessageStore
from rocketmq_py.wire.record import decode_record

_log = logging.getLogger(__name__)

_MOST_WAITING = 10_000
"""The newest messages of each queue of a system topic are looked at."""
_LITE_PREFIX = "%LMQ%"
"""Prefix of queues that Java brokers create without a topic."""


def restore_topics(
    topics: TopicConfigs,
    queues: Iterable[tuple[str, int]],
    batched: Collection[str],
    offsets: Mapping[str, Iterable[int]],
) -> None:
    """Create the topics again that have consume queues but no configuration.

    :param queues: topic and id of all consume queues on disk, and of those that messages wait for.
    :param batched: the topics with batch consume queues.
    :param offsets: queue ids by ``topic@group``; they tell of queues without messages.
    """
    numbers = queue_numbers(queues, offsets, topics.table)
    if numbers:
        text = ", ".join(f"{topic} ({number})" for topic, number in sorted(numbers.items()))
        _log.warning(
            "topics with messages are missing in topics.json; they are created again with default permissions "
            "and attributes, and with the number of queues that are known: %s",
            shortened(text, 1000),
        )
        topics.put(
            TopicConfig(
                topic_name=topic, read_queue_nums=number, write_queue_nums=number,
                attributes=dict(BATCHED) if topic in batched else {},
            )
            for topic, number in numbers.items()
        )  # fmt: skip


def restore_groups(groups: SubscriptionGroups, offsets: Iterable[str]) -> None:
    """Create the groups again that have offsets but no configuration.

    :param offsets: ``topic@group`` of all offsets.
    """
    owners = dict.fromkeys(key.partition("@")[2] for key in offsets)
    lost = [group for group in owners if group not in groups.table and _is_group(group)]
    if lost:
        _log.warning(
            "consumer groups with offsets are missing in subscriptionGroup.json; they are created again with default "
            "settings: %s",
            shortened(", ".join(lost), 1000),
        )
        groups.put(SubscriptionGroupConfig(group_name=group) for group in lost)


def queue_numbers(
    queues: Iterable[tuple[str, int]], offsets: Mapping[str, Iterable[int]], known: Collection[str]
) -> dict[str, int]:
    """Number of queues of each topic that has consume queues and is not in ``known``."""
    numbers: dict[str, int] = {}
    for topic, queue_id in queues:
        if topic not in known and queue_id < MAX_QUEUES and not topic.startswith(_LITE_PREFIX):
            numbers[topic] = max(numbers.get(topic, 0), queue_id + 1)
    for key, ids in offsets.items() if numbers else ():
        topic = key.partition("@")[0]
        if topic in numbers:
            numbers[topic] = max([numbers[topic], *(queue_id + 1 for queue_id in ids if queue_id < MAX_QUEUES)])
    return numbers


def waiting_queues(store: MessageStore, begins: Mapping[tuple[str, int], int]) -> Iterator[tuple[str, int]]:
    """Topic and id of the queues into which delayed, timed and half messages will be written.

    :param begins: the offset of the first message that waits, by queue of a system topic; others begin at their ends.
    """
    for topic, queue_id in store.queues():
        if topic not in (names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.HALF_TOPIC):
            continue
        low, high = store.queue_range(topic, queue_id)
        for offset in range(max(low, begins.get((topic, queue_id), low), high - _MOST_WAITING), high):
            queue = _target(store.record_at_queue(topic, queue_id, offset))
            if queue is not None:
                yield queue


def _target(record: bytes | None) -> tuple[str, int] | None:
    """Topic and queue id to which a record goes one day; None if it does not say so."""
    try:
        properties = decode_record(record).properties if record is not None else {}
        topic = names.check_topic(properties.get(Property.REAL_TOPIC, ""))
        return topic, max(0, int(properties.get(Property.REAL_QUEUE_ID, "0")))
    except (ConfigError, CorruptRecord, ValueError):
        return None


def _is_group(name: str) -> bool:
    """True if a name can be that of a group that somebody has created."""
    try:
        names.check_group(name)
    except ConfigError:
        return False
    return not name.startswith(_LITE_PREFIX) and not names.is_system_group(name)
