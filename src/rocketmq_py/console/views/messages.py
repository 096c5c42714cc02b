"""Messages: rows of a list, and all fields of one message."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from rocketmq_py.client.dead_letters import origin_of
from rocketmq_py.client.message_fields import message_fields
from rocketmq_py.client.message_state import GroupState
from rocketmq_py.console.bodies import Shown
from rocketmq_py.console.masks import Bodies
from rocketmq_py.model import MessageExt
from rocketmq_py.properties import Property, own_properties
from rocketmq_py.wire.trace import TraceEntry

COLUMNS = ("stored", "topic", "broker", "queue", "offset", "msgId", "tags", "keys", "size", "body")
DEAD_COLUMNS = ("stored", "broker", "queue", "offset", "msgId", "origin", "originId", "tags", "keys",
                "reconsumeTimes", "resent", "body")  # fmt: skip


def message_row(message: MessageExt, bodies: Bodies) -> dict[str, Any]:
    """Return the row of a message; ``body`` is the start of its body as text, None if the page may not show it."""
    return {
        "stored": message.store_timestamp,
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "msgId": message.msg_id,
        "tags": message.tags,
        "keys": message.keys,
        "size": len(message.body),
        "body": bodies.preview(message.body),
    }


def dead_row(message: MessageExt, bodies: Bodies, resent_before: int | None) -> dict[str, Any]:
    """Return the row of a dead letter.

    :param resent_before: the offset before which dead letters of its queue were resent; None if none were.
    """
    properties = message.properties
    return message_row(message, bodies) | {
        "origin": origin_of(message),
        "originId": properties.get(Property.DLQ_ORIGIN_MESSAGE_ID) or properties.get(Property.ORIGIN_MESSAGE_ID),
        "reconsumeTimes": message.reconsume_times,
        "resent": resent_before is not None and message.queue_offset < resent_before,
    }


def message_details(message: MessageExt, body: Shown, *, is_open: bool = True) -> dict[str, Any]:
    """Return all fields of a message; the body as text, and in Base64.

    :param is_open: nothing of the body is hidden or masked.
    """
    own = own_properties(message.properties)
    return {
        **message_fields(message),
        "storeSize": message.store_size,
        "flag": message.flag,
        "properties": dict(sorted(own.items())),
        "systemProperties": {name: value for name, value in sorted(message.properties.items()) if name not in own},
        "body": {
            "text": body.text,
            "decoder": body.decoder,
            "shownBytes": body.shown,
            "bytes": body.size,
            "cut": body.is_cut,
            "base64": base64.b64encode(message.body).decode() if is_open and not body.is_cut else None,
        },
    }


def state_rows(states: Iterable[GroupState]) -> list[dict[str, Any]]:
    """Return a row for each group."""
    return [state._asdict() for state in states]


def trace_rows(entries: Iterable[TraceEntry]) -> list[dict[str, Any]]:
    """Return a row for each trace entry."""
    return [
        {
            "at": entry.timestamp,
            "what": entry.kind.value,
            "group": entry.group,
            "host": entry.client_host or entry.store_host,
            "costMs": entry.cost_ms,
            "success": entry.success,
        }
        for entry in entries
    ]


def path_of(row: Mapping[str, Any]) -> tuple[str, str, int, int]:
    """Return what identifies the message of a row: topic, broker, queue and offset."""
    return row["topic"], row["broker"], row["queue"], row["offset"]
