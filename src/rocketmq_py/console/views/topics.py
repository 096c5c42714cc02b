"""The list of topics, and one topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import TopicOffset
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.names import DLQ_PREFIX, MESSAGE_TYPE, RETRY_PREFIX, is_system_topic

COLUMNS = ("topic", "kind", "type", "brokers", "readQueues", "writeQueues", "perm", "messages", "lastStored")
QUEUE_COLUMNS = ("broker", "queue", "minOffset", "maxOffset", "messages", "lastStored")

NORMAL, RETRY, DEAD, SYSTEM = "normal", "retry", "dead", "system"
KINDS = (NORMAL, RETRY, DEAD, SYSTEM)
_PERMS = {0: "–", 2: "w", 4: "r", 6: "rw"}


def kind_of(topic: str, system: Collection[str] = ()) -> str:
    """Return what a topic is for: ``normal``, ``retry``, ``dead`` or ``system``.

    :param system: the names of the brokers' internal topics.
    """
    if topic.startswith(RETRY_PREFIX):
        return RETRY
    if topic.startswith(DLQ_PREFIX):
        return DEAD
    return SYSTEM if topic in system or is_system_topic(topic) else NORMAL


def selected(topics: Collection[str], system: Collection[str], text: str, kind: str) -> list[str]:
    """Return the topics of a kind whose names contain a text, regardless of case, sorted.

    :param kind: one of KINDS, or empty for all.
    """
    text = text.lower()
    return [topic for topic in sorted(topics) if text in topic.lower() and (not kind or kind_of(topic, system) == kind)]


def topic_row(
    topic: str, kind: str, configs: Mapping[str, TopicConfig], stats: Mapping[MessageQueue, TopicOffset] | None
) -> dict[str, Any]:
    """Return the row of a topic.

    :param configs: its configurations by broker name.
    :param stats: the offsets of its queues; None if they are not known.
    """
    known = list(configs.values())
    return {
        "topic": topic,
        "kind": kind,
        "type": next((config.attributes[MESSAGE_TYPE] for config in known if MESSAGE_TYPE in config.attributes), None),
        "brokers": len(configs) or None,
        "readQueues": sum(config.read_queue_nums for config in known) if known else None,
        "writeQueues": sum(config.write_queue_nums for config in known) if known else None,
        "perm": "/".join(sorted({perm_text(config.perm) for config in known})) or None,
        "messages": None if stats is None else sum(_held(extent) for extent in stats.values()),
        "lastStored": None if stats is None else last_stored(stats),
    }


def perm_text(perm: int) -> str:
    """Return a permission as letters: ``rw``, ``r``, ``w``."""
    return _PERMS.get(perm & 6, str(perm))


def _held(extent: TopicOffset) -> int:
    return max(0, extent.max_offset - max(0, extent.min_offset))


def last_stored(stats: Mapping[MessageQueue, TopicOffset]) -> int | None:
    """Return the store time of the newest message; None if there is none."""
    return max((extent.last_update_timestamp for extent in stats.values()), default=0) or None


def queue_rows(stats: Mapping[MessageQueue, TopicOffset]) -> list[dict[str, Any]]:
    """Return a row for each queue."""
    return [
        {
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "minOffset": extent.min_offset,
            "maxOffset": extent.max_offset,
            "messages": _held(extent),
            "lastStored": extent.last_update_timestamp or None,
        }
        for queue, extent in sorted(stats.items())
    ]


def config_rows(configs: Mapping[str, TopicConfig]) -> list[dict[str, Any]]:
    """Return a row for each broker's configuration of a topic."""
    return [
        {
            "broker": broker,
            "readQueues": config.read_queue_nums,
            "writeQueues": config.write_queue_nums,
            "perm": perm_text(config.perm),
            "order": config.order,
            "attributes": dict(sorted(config.attributes.items())),
        }
        for broker, config in sorted(configs.items())
    ]
