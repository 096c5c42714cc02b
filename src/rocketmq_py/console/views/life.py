"""The life of one message: its copies in the topic, in retry and dead-letter topics, and its trace, by time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rocketmq_py.model import MessageExt
from rocketmq_py.wire.trace import TraceEntry

SENT, RESENT, RETRIED, DEAD, TRACED = "sent", "resent_as", "retried", "dead", "traced"
COLUMNS = ("at", "event", "group", "topic", "broker", "queue", "offset", "attempts", "what")


def events(
    sent: Iterable[MessageExt],
    retried: Iterable[tuple[str, MessageExt]],
    dead: Iterable[tuple[str, MessageExt]],
    traced: Iterable[TraceEntry],
) -> list[dict[str, Any]]:
    """Return the events in the order of their times; those without a time come first.

    :param sent: the messages of the topic with the unique id, oldest first: the second one was sent again.
    :param retried: groups and the copies in their retry topics.
    :param dead: groups and the copies in their dead-letter topics.
    """
    rows = [_row(RESENT if number else SENT, None, message) for number, message in enumerate(sent)]
    rows += [_row(RETRIED, group, message) for group, message in retried]
    rows += [_row(DEAD, group, message) for group, message in dead]
    rows += [_traced(entry) for entry in traced]
    return sorted(rows, key=lambda row: row["at"] or 0)


def _row(event: str, group: str | None, message: MessageExt) -> dict[str, Any]:
    return {
        "at": message.store_timestamp or None, "event": event, "group": group, "topic": message.topic,
        "broker": message.broker_name, "queue": message.queue_id, "offset": message.queue_offset,
        "attempts": message.reconsume_times, "what": None,
    }  # fmt: skip


def _traced(entry: TraceEntry) -> dict[str, Any]:
    outcome = {True: "success", False: "failure", None: ""}[entry.success]
    cost = "" if entry.cost_ms is None else f"{entry.cost_ms} ms"
    words = " ".join(word for word in (entry.kind.value, outcome, cost, entry.client_host or "") if word)
    return {
        "at": entry.timestamp, "event": TRACED, "group": entry.group, "topic": entry.topic, "broker": None,
        "queue": None, "offset": None, "attempts": None, "what": words,
    }  # fmt: skip
