"""What a reset of offsets would do: for each queue the new offset, and which messages come again or are skipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

EARLIEST, LATEST, TIME, OFFSET, SHIFT, GROUP = "earliest", "latest", "time", "offset", "shift", "group"
TARGETS = (EARLIEST, LATEST, TIME, OFFSET, SHIFT, GROUP)
COLUMNS = ("broker", "queue", "minOffset", "maxOffset", "from", "to", "again", "skipped", "gone")


class QueueState(NamedTuple):
    """A queue before the reset.

    :ivar committed: the committed offset of the group; None if there is none.
    :ivar at_time: the offset of the first message stored at or after the time that was asked for; None without a time.
    :ivar of_other: the committed offset of the group whose offsets are copied; None if it has none.
    """

    broker: str
    queue: int
    first: int
    end: int
    committed: int | None
    at_time: int | None = None
    of_other: int | None = None


def planned(state: QueueState, target: str, value: int) -> dict[str, Any]:
    """Return the row of a queue.

    ``again`` is the number of messages that the group consumes a second time, ``skipped`` of those that it will never
    consume, ``gone`` of those that it would have consumed again but that are deleted.

    :param value: the offset, or the number of messages to shift by.
    """
    if target == GROUP and state.of_other is None:
        return _unchanged(state)
    wanted = _wanted(state, target, value)
    to = min(max(wanted, state.first), state.end)
    committed = state.committed
    start = state.first if committed is None else committed
    return {
        "broker": state.broker,
        "queue": state.queue,
        "minOffset": state.first,
        "maxOffset": state.end,
        "from": committed,
        "to": to,
        "again": max(0, start - to),
        "skipped": max(0, to - max(start, state.first)),
        "gone": max(0, min(state.first, start) - wanted) if target in (OFFSET, SHIFT, GROUP) else 0,
    }


def _unchanged(state: QueueState) -> dict[str, Any]:
    """Return the row of a queue in which the group whose offsets are copied has none."""
    return {
        "broker": state.broker, "queue": state.queue, "minOffset": state.first, "maxOffset": state.end,
        "from": state.committed, "to": state.committed, "again": 0, "skipped": 0, "gone": 0,
    }  # fmt: skip


def _wanted(state: QueueState, target: str, value: int) -> int:
    if target == EARLIEST:
        return state.first
    if target == LATEST:
        return state.end
    if target == TIME:
        return state.end if state.at_time is None else state.at_time
    if target == GROUP:
        return state.of_other or 0
    if target == OFFSET:
        return max(0, value)
    return max(0, (state.first if state.committed is None else state.committed) + value)


def totals(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the sums over all queues, and the number of queues whose offset changes."""
    rows = list(rows)
    sums = {name: sum(row[name] for row in rows) for name in ("again", "skipped", "gone")}
    return sums | {"changed": sum(row["from"] != row["to"] for row in rows), "queues": len(rows)}
