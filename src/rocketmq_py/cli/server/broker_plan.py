"""Which brokers ``rocketmq serve --brokers N`` runs: names, ports and directories.

The first broker is the one that ``serve`` runs without ``--brokers``, with the same directory and port, so a broker can
get siblings later. The others have directories below it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rocketmq_py.errors import ConfigError

MOST = 26
"""Brokers of one supervisor at most: one for each letter of the alphabet."""

PORT_STEP = 10
"""Between the ports of two brokers. A broker takes its own port and, for its slaves, the next one."""

AUTO = "auto"

_ONE_DIRECTORY = (
    "storePathCommitLog", "storePathConsumeQueue", "storePathIndex", "storeCheckpoint", "abortFile", "brokerConfigPath",
)  # fmt: skip
"""Settings that name one place, which several brokers cannot share."""


class PlannedBroker(NamedTuple):
    """One broker of the supervisor. ``port`` and ``ha_port`` are 0 for any free one."""

    name: str
    store: Path
    port: int
    ha_port: int


def broker_count(text: str) -> int:
    """The number of brokers that ``--brokers`` asks for; ``auto`` is one for each core this process may use.

    :raises ConfigError: it is neither ``auto`` nor a number from 1 to 26.
    """
    if text == AUTO:
        return min(available_cores(), MOST)
    if text.isdecimal() and 1 <= int(text) <= MOST:
        return int(text)
    raise ConfigError(f"--brokers {text}: a number from 1 to {MOST} is expected, or {AUTO} for one per core")


def available_cores() -> int:
    """The number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def plan(count: int, first: PlannedBroker) -> list[PlannedBroker]:
    """The first ``count`` brokers."""
    return [_sibling(first, number) for number in range(count)]


def _sibling(first: PlannedBroker, number: int) -> PlannedBroker:
    if not number:
        return first
    name = f"{first.name.removesuffix('-a')}-{chr(ord('a') + number)}"
    return PlannedBroker(name, first.store / name, _shifted(first.port, number), _shifted(first.ha_port, number))


def _shifted(port: int, number: int) -> int:
    return port and port + PORT_STEP * number


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse settings that several brokers cannot share.

    :raises ConfigError: one of them names a single file or directory, or a slave is asked for.
    """
    for key in _ONE_DIRECTORY:
        if key in settings:
            raise ConfigError(
                f"{key}={settings[key]} names one place for all brokers: leave it out with --brokers, or run one "
                "`rocketmq serve` per broker"
            )
    if settings.get("brokerRole", "").strip() == "SLAVE":
        raise ConfigError("--brokers runs masters: run one `rocketmq serve --role SLAVE` for each slave")


def check_left_out(first: PlannedBroker, count: int, has_messages: Callable[[Path], bool]) -> None:
    """Refuse to leave out a broker whose store has messages.

    :param has_messages: whether the store in a directory has messages.
    :raises ConfigError: a store with messages would not be served.
    """
    for left in _left_out(first, count):
        if has_messages(left.store):
            raise ConfigError(
                f"{left.store} has messages, and with --brokers {count} no broker would serve them. Start with more "
                f"brokers, stop sends to this one (rocketmq broker set {left.name} brokerPermission=4), wait until "
                "all groups have consumed its queues (rocketmq group lag), stop, and move the directory away"
            )


def _left_out(first: PlannedBroker, count: int) -> Iterator[PlannedBroker]:
    for number in range(count, MOST):
        yield _sibling(first, number)
