"""The list of consumer groups, and one group: lag, members, who owns which queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper, TopicOffset
from rocketmq_py.protocol.bodies.client import ConsumerConnection
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.statistics import ConsumerRunningInfo, ConsumeTimes
from rocketmq_py.protocol.codes import version_name

Progress = Mapping[MessageQueue, OffsetWrapper]

COLUMNS = ("group", "lag", "topics", "queues", "members", "lastConsumed", "deadLetters")
QUEUE_COLUMNS = ("topic", "broker", "queue", "minOffset", "committed", "maxOffset", "lag", "expired", "waitingMs",
                 "lastConsumed", "owner", "held", "lastPull")  # fmt: skip


def group_row(group: str, progress: Progress | None, *, members: int | None, dead_letters: bool) -> dict[str, Any]:
    """Return the row of a group.

    :param progress: its progress; None if it is not known. A group without offsets has a lag that nobody knows.
    :param dead_letters: True if it has a dead-letter topic.
    """
    known = progress or {}
    return {
        "group": group,
        "lag": lag_of(known),
        "topics": len({queue.topic for queue in known}) if progress is not None else None,
        "queues": len(known) if progress is not None else None,
        "members": members,
        "lastConsumed": max((state.last_timestamp for state in known.values()), default=0) or None,
        "deadLetters": dead_letters,
    }


def lag_of(progress: Progress) -> int | None:
    """Return the lag of a group; None for one without offsets, whose lag nobody knows."""
    return sum(state.lag for state in progress.values()) if progress else None


def by_lag(row: Mapping[str, Any]) -> tuple[int, str]:
    """Sort key: the largest lag first, unknown lags last."""
    lag = row["lag"]
    return (1 if lag is None else -lag, row["group"])


def queue_rows(
    progress: Progress,
    extents: Mapping[MessageQueue, TopicOffset],
    times: Mapping[MessageQueue, ConsumeTimes],
    running: Mapping[str, ConsumerRunningInfo | None],
) -> list[dict[str, Any]]:
    """Return a row for each queue in which a group has progress.

    ``expired`` is the number of messages that were deleted before the group consumed them.

    :param extents: offsets of the queues, as far as they are known.
    :param times: store times, as far as they are known.
    :param running: what each member says about itself, by client id.
    """
    owners = owners_of(running)
    rows = []
    for queue, state in sorted(progress.items()):
        extent, time, owned = extents.get(queue), times.get(queue), owners.get(queue)
        first = None if extent is None else max(0, extent.min_offset)
        expired = None if first is None else max(0, min(first, state.broker_offset) - max(0, state.consumer_offset))
        rows.append(
            {
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "minOffset": first,
                "committed": state.consumer_offset,
                "maxOffset": state.broker_offset,
                "lag": state.lag,
                "expired": expired,
                "waitingMs": None if time is None else time.delay_time if state.lag else 0,
                "lastConsumed": state.last_timestamp or None,
                "owner": owned[0] if owned else None,
                "held": owned[1] if owned else None,
                "lastPull": owned[2] if owned else None,
            }
        )
    return rows


def owners_of(
    running: Mapping[str, ConsumerRunningInfo | None],
) -> dict[MessageQueue, tuple[str, int | None, int | None]]:
    """Return for each queue the client id of its owner, the messages that it holds, and the time of its last pull."""
    found: dict[MessageQueue, tuple[str, int | None, int | None]] = {}
    for client_id, info in running.items():
        if info is None:
            continue
        for queue in info.popped_queues():
            found[queue] = (client_id, None, None)
        for queue, state in info.queues().items():
            if not state.dropped:
                found[queue] = (client_id, state.cached_count, state.last_pull_timestamp or None)
    return found


def topic_rows(progress: Progress) -> list[dict[str, Any]]:
    """Return a row for each topic with the sums of its queues, by name."""
    found: dict[str, dict[str, Any]] = {}
    for queue, state in progress.items():
        sums = found.setdefault(queue.topic, {"topic": queue.topic, "queues": 0, "lag": 0, "lastConsumed": None})
        sums["queues"] += 1
        sums["lag"] += state.lag
        sums["lastConsumed"] = max(sums["lastConsumed"] or 0, state.last_timestamp) or None
    return [found[topic] for topic in sorted(found)]


def largest(rows: list[dict[str, Any]], most: int) -> tuple[list[dict[str, Any]], int]:
    """Return the rows with the largest lags, and the number of the others; as many as may be shown stay as they are."""
    if len(rows) <= most:
        return rows, 0
    return sorted(rows, key=lambda row: -row["lag"])[:most], len(rows) - most


def member_rows(
    connected: ConsumerConnection | None, running: Mapping[str, ConsumerRunningInfo | None]
) -> list[dict[str, Any]]:
    """Return a row for each connected member.

    :param running: what members say about themselves; None for those that did not answer.
    """
    rows = []
    for member in connected.connection_set if connected is not None else []:
        info = running.get(member.client_id)
        rates = info.status_table.values() if info is not None else ()
        rows.append(
            {
                "clientId": member.client_id,
                "address": member.client_addr,
                "language": member.language,
                "version": version_name(member.version),
                "queues": None if info is None else len(info.mq_table) + len(info.mq_pop_table),
                "held": None if info is None else sum(state.cached_count for state in info.queues().values()),
                "consumedPerSecond": None if info is None else round(sum(rate.consume_ok_tps for rate in rates), 2),
                "failedPerSecond": None if info is None else round(sum(rate.consume_failed_tps for rate in rates), 2),
            }
        )
    return rows


def subscription_rows(connected: ConsumerConnection | None) -> list[dict[str, Any]]:
    """Return a row for each subscription of the connected members."""
    table = connected.subscription_table if connected is not None else {}
    return [
        {"topic": topic, "type": subscription.expression_type, "expression": subscription.sub_string}
        for topic, subscription in sorted(table.items())
    ]


def config_rows(configs: Mapping[str, SubscriptionGroupConfig]) -> list[dict[str, Any]]:
    """Return a row for each broker's configuration of a group."""
    return [
        {
            "broker": broker,
            "consumeEnable": config.consume_enable,
            "broadcastEnable": config.consume_broadcast_enable,
            "orderly": config.consume_message_orderly,
            "retryMaxTimes": config.retry_max_times,
        }
        for broker, config in sorted(configs.items())
    ]
