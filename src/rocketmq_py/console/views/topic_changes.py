"""What the creation, the change and the deletion of a topic would do on each broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import TopicOffset
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.names import MESSAGE_TYPE, PERMISSIONS

COLUMNS = ("broker", "readFrom", "readTo", "writeFrom", "writeTo", "permFrom", "permTo", "typeFrom", "typeTo", "hidden")
QUEUE_COLUMNS = ("broker", "queues", "messages")
GROUP_COLUMNS = ("group", "members", "lag")


class Wanted(NamedTuple):
    """New values; None leaves a value as it is.

    :ivar perm: one of PERMISSIONS.
    :ivar kind: the message type.
    """

    read: int | None
    write: int | None
    perm: str | None
    kind: str | None


def change_row(
    broker: str, config: TopicConfig | None, wanted: Wanted, stats: Mapping[MessageQueue, TopicOffset] | None
) -> dict[str, Any]:
    """Return what a change does on one broker.

    ``hidden`` is the number of messages in queues that clients no longer read; None if it is not known.

    :param config: the configuration before; None if the broker has none.
    """
    old: dict[str, Any] = {"read": None, "write": None, "perm": None, "type": None}
    if config is not None:
        old = {"read": config.read_queue_nums, "write": config.write_queue_nums, "perm": perm_word(config.perm),
               "type": config.attributes.get(MESSAGE_TYPE)}  # fmt: skip
    new: dict[str, Any] = {name: old[name] if value is None else value for name, value in zip(old, wanted, strict=True)}
    hidden = 0 if config is None else _hidden(broker, new["read"], new["perm"], stats)
    return {
        "broker": broker, "readFrom": old["read"], "readTo": new["read"], "writeFrom": old["write"],
        "writeTo": new["write"], "permFrom": old["perm"], "permTo": new["perm"], "typeFrom": old["type"],
        "typeTo": new["type"], "hidden": hidden,
    }  # fmt: skip


def perm_word(perm: int) -> str:
    """Return a permission as a key of PERMISSIONS."""
    return next(word for word, number in PERMISSIONS.items() if number == perm & 6)


def _hidden(broker: str, read: int, perm: str | None, stats: Mapping[MessageQueue, TopicOffset] | None) -> int | None:
    if stats is None:
        return None
    left = read if perm is not None and "r" in perm else 0
    return sum(
        extent.max_offset - max(0, extent.min_offset)
        for queue, extent in stats.items()
        if queue.broker_name == broker and queue.queue_id >= left
    )


def is_change(row: Mapping[str, Any]) -> bool:
    """Return True if a row of :func:`change_row` changes something."""
    return any(row[f"{name}From"] != row[f"{name}To"] for name in ("read", "write", "perm", "type"))


def seen_of(row: Mapping[str, Any]) -> str:
    """Return the values before a change as text, for the form: the change refuses if they are others by then."""
    return "|".join(str(row[name]) for name in ("broker", "readFrom", "writeFrom", "permFrom", "typeFrom"))


def queue_rows(
    configs: Mapping[str, TopicConfig], stats: Mapping[MessageQueue, TopicOffset] | None
) -> list[dict[str, Any]]:
    """Return what goes with a topic on each broker."""
    return [
        {
            "broker": broker,
            "queues": max(config.read_queue_nums, config.write_queue_nums),
            "messages": _hidden(broker, 0, None, stats),
        }
        for broker, config in sorted(configs.items())
    ]


def total(rows: Iterable[Mapping[str, Any]], name: str) -> int | None:
    """Return the sum of a column; None if a value is unknown."""
    values = [row[name] for row in rows]
    return None if None in values else sum(values)
