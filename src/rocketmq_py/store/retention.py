"""What is removed from a store, and when: the rules of Java's CleanCommitLogService.

Pure: time, hour and how full the disk is are passed in. Refuses to know files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rocketmq_py.store.settings import StoreConfig

_HOUR_MS = 3_600_000


class RetentionDecision(NamedTuple):
    """What a look at clock and disk says.

    :param why: why files past ``fileReservedTime`` go now, in words for the log; empty when they do not.
    :param at_any_age: the oldest files go however young they are.
    :param disk: how full the disk is, in words, when that is more than it should be; else empty.
    :param refuse: it is so full that messages must be refused.
    """

    why: str
    at_any_age: bool
    disk: str
    refuse: bool


class RetentionLimits(NamedTuple):
    """Parts of the disk in use, 0.0 to 1.0, above which something happens; held where Java holds them."""

    expire: float
    force: float
    refuse: float

    @classmethod
    def of(cls, config: StoreConfig) -> RetentionLimits:
        return cls(
            _between(10, config.disk_max_used_space_ratio, 95),
            _between(30, config.disk_space_clean_forcibly_ratio, 85),
            _between(35, config.disk_space_warning_level_ratio, 90),
        )


def _between(low: int, percent: int, high: int) -> float:
    return min(max(low, percent), high) / 100


def judge(config: StoreConfig, hour: int, used: float, *, asked: bool = False) -> RetentionDecision:
    """Whether files are to go now.

    :param hour: the local hour, 0 to 23.
    :param used: how full the disk is, 0.0 to 1.0.
    :param asked: an operator wants expired files removed whatever the hour.
    """
    limits = RetentionLimits.of(config)
    disk = f"the disk is {used * 100:.0f} % full" if used > min(limits) else ""
    time = f"it is deleteWhen {config.delete_when}" if hour in config.delete_hours else ""
    why = " and ".join(filter(None, (disk, time, "an operator asked for it" if asked else "")))
    at_any_age = used > min(limits.force, limits.refuse) and config.clean_file_forcibly_enable
    return RetentionDecision(why, at_any_age, disk, used > limits.refuse)


def expired(
    files: Iterable[tuple[int, int]], now: int, reserved_hours: int, *, at_any_age: bool, limit: int
) -> list[int]:
    """The files to remove of ``(start, last written)``, given oldest first.

    Stops at the first that must stay, so that the log never has a hole. Times are milliseconds.
    """
    found: list[int] = []
    for start, modified in files:
        if len(found) == limit or not (at_any_age or now - modified >= reserved_hours * _HOUR_MS):
            break
        found.append(start)
    return found
