"""Damage of the timer log and of its checkpoint, after which both are written again from the timer topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rocketmq_py.store.timer.timer_wheel import UNIT_SIZE, TimerCheckpoint, TimerLog, TimerUnit

MOST_CHECKED = 50_000
"""Number of entries at the end of the log that are checked at a start, some 50 ms."""
_AHEAD_MS = 60_000
"""The checkpoint can be so much newer than the clock, which may have been set back a little."""


def check_fault(check: TimerCheckpoint, now_ms: int, queue_end: int, precision_ms: int) -> str | None:
    """Return what is wrong with the checkpoint; None if nothing is found.

    It has no checksum, since its layout is Java's. But both brokers write times of slots only, and no other bit of such
    a time can be changed alone: a power of two is no multiple of a precision.

    :param queue_end: end offset of the timer topic.
    :param precision_ms: times of slots are multiples of it: 100, 200, 500 or 1,000.
    """
    if check.read_ms % precision_ms:
        return f"its checkpoint says that everything up to {check.read_ms} was delivered, which is no time of a slot"
    if check.read_ms > now_ms + _AHEAD_MS:
        return f"its checkpoint says that everything up to {check.read_ms} was delivered, and it is {now_ms}"
    if check.read_ms < 0 or check.log_end < 0 or not 0 <= check.queue_offset <= queue_end:
        return f"its checkpoint has impossible positions {check.log_end} and {check.queue_offset}"
    return None


def log_fault(
    log: TimerLog, check: TimerCheckpoint, precision_ms: int, are_timed: Callable[[Iterable[TimerUnit]], bool]
) -> str | None:
    """Return what is wrong with the timer log; None if nothing is found.

    :param precision_ms: times of slots are multiples of it.
    :param are_timed: returns whether all these entries are of messages in the timer topic.
    """
    if log.is_empty or not check.log_end:
        return None
    units = dict(log.units(log.unit_before(check.log_end, MOST_CHECKED)))
    end = max(units, default=-UNIT_SIZE) + UNIT_SIZE
    if end < check.log_end - log.rest_of_file(end):
        return f"its log ends at {end} instead of {check.log_end}"
    odd = next((position for position, unit in units.items() if unit.slot % precision_ms), None)
    if odd is not None:
        return f"the entry at {odd} of its log has no time of a slot"
    return _entry_fault(units, check, are_timed)


def _entry_fault(
    units: dict[int, TimerUnit], check: TimerCheckpoint, are_timed: Callable[[Iterable[TimerUnit]], bool]
) -> str | None:
    first = min(units, default=0)
    for position, unit in units.items():
        if unit.previous >= position or (unit.previous >= first and not _follows(unit, units.get(unit.previous))):
            return f"the entry at {position} of its log follows none of its slot"
    waiting = [unit for unit in units.values() if unit.slot >= check.read_ms and not unit.is_of_no_message]
    return None if are_timed(waiting) else "an entry of its log is of no message in the timer topic"


def _follows(unit: TimerUnit, previous: TimerUnit | None) -> bool:
    return previous is not None and previous.slot == unit.slot
