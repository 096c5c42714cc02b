"""What waits in brokers: open transactions, timed messages, messages that were popped and not acknowledged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageExt
from rocketmq_py.properties import Property
from rocketmq_py.protocol.bodies.statistics import HeldRequests
from rocketmq_py.protocol.pop_checkpoint import CheckPoint, CkKey, decode_revive

TRANSACTION_COLUMNS = ("topic", "group", "checks", "since", "broker", "offset", "msgId", "offsetMsgId", "body")
HOLD_COLUMNS = ("broker", "kind", "topic", "queue", "group", "address", "offset", "since", "waitedMs", "until")
POP_COLUMNS = ("topic", "broker", "queue", "group", "popped", "until", "overdue", "count", "unacked", "firstOffset")
HOUR_MS = 3_600_000
DAY_HOURS = 24


def transaction_row(half: MessageExt, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a half message.

    :param row: its row as a message.
    """
    properties = half.properties
    return dict(row) | {
        "topic": properties.get(Property.REAL_TOPIC), "group": properties.get(Property.PRODUCER_GROUP),
        "checks": _number(properties.get(Property.TRANSACTION_CHECK_TIMES)) or 0, "since": half.born_timestamp,
        "offsetMsgId": half.offset_msg_id,
    }  # fmt: skip


def hold_rows(held: Mapping[str, HeldRequests], now_ms: int) -> list[dict[str, Any]]:
    """Return a row for each request that brokers hold, the longest wait first.

    :param held: the answers by broker name.
    """
    rows = [
        {
            "broker": broker, "kind": one.kind, "topic": one.topic,
            "queue": one.queue_id if one.queue_id >= 0 else None, "group": one.consumer_group,
            "address": one.client_addr, "offset": one.offset, "since": one.since,
            "waitedMs": max(0, now_ms - one.since), "until": one.until,
        }
        for broker, answer in held.items()
        for one in answer.held
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row["since"])


def timer_rows(counts: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Return a row for each topic with timed messages that wait."""
    return [{"topic": topic, "waiting": sum(each.values())} for topic, each in sorted(counts.items())]


def due_by_hour(timed: Iterable[MessageExt], now_ms: int) -> tuple[list[dict[str, Any]], int]:
    """Count timed messages by the hours in which they are due; also returns the number of those due later.

    :param timed: messages of the brokers' timer topic, which keeps delivered ones, too.
    """
    hours: list[Counter[str]] = [Counter() for _ in range(DAY_HOURS)]
    later, seen = 0, set()
    for message in timed:
        due = _number(message.properties.get(Property.TIMER_OUT_MS))
        if due is None or due <= now_ms or message.msg_id in seen:
            continue
        seen.add(message.msg_id)  # a message with a long delay is written again
        hour = (due - now_ms) // HOUR_MS
        if hour < DAY_HOURS:
            hours[hour][message.properties.get(Property.REAL_TOPIC, "?")] += 1
        else:
            later += 1
    rows = [
        {"from": now_ms + number * HOUR_MS, "due": sum(count.values()), "topics": dict(count.most_common(10))}
        for number, count in enumerate(hours)
    ]
    return rows, later


def pops_in_flight(records: Iterable[MessageExt], now_ms: int) -> list[dict[str, Any]]:
    """Return a row for each pop whose messages are not all acknowledged, the next to become visible first.

    A check point that is overdue for longer than its invisible time was revived.

    :param records: messages of the brokers' revive topics.
    """
    points: dict[CkKey, CheckPoint] = {}
    acked: dict[CkKey, int] = {}
    for record in sorted(records, key=lambda one: one.store_timestamp):
        try:
            found = decode_revive(record.tags or "", record.body)
        except RocketMQError:
            continue
        if isinstance(found, CheckPoint):
            points[found.key] = found
        elif found is not None:
            key = found.key(record.broker_name)
            point = points.get(key)
            if point is not None:
                acked[key] = acked.get(key, 0) | point.bits_of(found.offsets)
    rows = []
    for key, point in points.items():
        left = point.count - (point.bit_map & 0xFFFFFFFF | acked.get(key, 0)).bit_count()
        if left <= 0 or now_ms > point.revive_time + max(point.invisible_ms, HOUR_MS):
            continue
        rows.append(
            {
                "topic": point.topic, "broker": point.broker_name, "queue": point.queue_id, "group": point.group,
                "popped": point.pop_time, "until": point.revive_time, "overdue": now_ms > point.revive_time,
                "count": point.count, "unacked": left, "firstOffset": point.start_offset,
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: row["until"])


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None
