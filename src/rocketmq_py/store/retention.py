"""Rules for the removal of commit log files: those of Java's CleanCommitLogService, as pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rocketmq_py.store.settings import StoreConfig

_HOUR_MS = 3_600_000


class RetentionDecision(NamedTuple):
    """Decision of one clean-up pass.

    :param why: reason, as text for the log, to remove files past ``fileReservedTime`` now; empty to remove none.
    :param at_any_age: remove the oldest files whatever their age.
    :param disk: disk usage, as text for the log, if it exceeds a limit; else empty.
    :param refuse: the disk is so full that messages must be refused.
    """

    why: str
    at_any_age: bool
    disk: str
    refuse: bool


class RetentionLimits(NamedTuple):
    """Limits of the used part of the disk, 0.0 to 1.0, clamped to Java's ranges.

    Above ``expire`` expired files are removed, above ``force`` files of any age; above ``refuse`` messages are refused.
    """

    expire: float
    force: float
    refuse: float

    @classmethod
    def of(cls, config: StoreConfig) -> RetentionLimits:
        return cls(
            _clamp(10, config.disk_max_used_space_ratio, 95),
            _clamp(30, config.disk_space_clean_forcibly_ratio, 85),
            _clamp(35, config.disk_space_warning_level_ratio, 90),
        )


def _clamp(low: int, percent: int, high: int) -> float:
    return min(max(low, percent), high) / 100


def decide(config: StoreConfig, hour: int, used: float, *, requested: bool = False) -> RetentionDecision:
    """Decide whether to remove files now.

    :param hour: the local hour, 0 to 23.
    :param used: the used part of the disk, 0.0 to 1.0.
    :param requested: an operator has requested the removal of expired files.
    """
    limits = RetentionLimits.of(config)
    disk = f"the disk is {used * 100:.0f} % full" if used > min(limits) else ""
    time = f"it is deleteWhen {config.delete_when}" if hour in config.delete_hours else ""
    why = " and ".join(filter(None, (disk, time, "an operator requested it" if requested else "")))
    at_any_age = used > min(limits.force, limits.refuse) and config.clean_file_forcibly_enable
    return RetentionDecision(why, at_any_age, disk, used > limits.refuse)


def expired(
    files: Iterable[tuple[int, int]], now: int, reserved_hours: int, *, at_any_age: bool, limit: int
) -> list[int]:
    """Start offsets of the files to remove.

    The result ends before the first file that must stay, so that the log never has a gap.

    :param files: start offset and time of the last write of each file, oldest first. Times are milliseconds.
    :param limit: maximum number of files.
    """
    found: list[int] = []
    for start, modified in files:
        if len(found) == limit or not (at_any_age or now - modified >= reserved_hours * _HOUR_MS):
            break
        found.append(start)
    return found
