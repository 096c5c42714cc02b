"""Names, ports and directories of the brokers that ``rocketmq serve --brokers N`` runs.

The first broker is the one that ``serve`` runs without ``--brokers``, with the same directory and port, so that others
can be added later. Their directories are inside the directory of the first one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rocketmq_py.errors import ConfigError

MOST = 26
"""Maximum number of brokers of one ``serve``: one for each letter of the alphabet."""

PORT_STEP = 10
"""Difference between the ports of consecutive brokers: each also listens on the next port, for its slaves."""

AUTO = "auto"

_ONE_DIRECTORY = (
    "storePathCommitLog", "storePathConsumeQueue", "storePathIndex", "storeCheckpoint", "abortFile", "brokerConfigPath",
)  # fmt: skip
"""Settings that name a single file or directory, which several brokers cannot share."""


class PlannedBroker(NamedTuple):
    """A broker that ``serve`` runs.

    :ivar store: its directory.
    :ivar port: port for clients; 0 for any free port.
    :ivar ha_port: port for its slaves; 0 for any free port.
    :ivar metrics_port: port of metrics, if they are on; 0 for any free port.
    :ivar health_port: port of health alone; 0 for any free port, -1 for none.
    :ivar grpc_port: one more port for clients; 0 for any free port, -1 for none.
    """

    name: str
    store: Path
    port: int
    ha_port: int
    metrics_port: int = 0
    health_port: int = -1
    grpc_port: int = -1


def broker_count(text: str) -> int:
    """Parse option ``--brokers``; ``auto`` means one broker for each core that this process may use, at most 26.

    :raises ConfigError: the text is neither ``auto`` nor a number from 1 to 26.
    """
    if text == AUTO:
        return min(available_cores(), MOST)
    if text.isdecimal() and 1 <= int(text) <= MOST:
        return int(text)
    raise ConfigError(f"--brokers {text}: a number from 1 to {MOST} is expected, or {AUTO} for one per core")


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def plan(count: int, first: PlannedBroker) -> list[PlannedBroker]:
    """Return the brokers to run: ``first`` and ``count - 1`` others, with names, ports and directories like its own."""
    return [_sibling(first, number) for number in range(count)]


def _sibling(first: PlannedBroker, number: int) -> PlannedBroker:
    if not number:
        return first
    name = f"{first.name.removesuffix('-a')}-{chr(ord('a') + number)}"
    own = (first.port, first.ha_port, first.metrics_port, first.health_port, first.grpc_port)
    ports = (_shifted(port, number) for port in own)
    return PlannedBroker(name, first.store / name, *ports)


def _shifted(port: int, number: int) -> int:
    return port + PORT_STEP * number if port > 0 else port


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse settings that several brokers cannot share.

    :raises ConfigError: a setting names a single file or directory, or the role is SLAVE.
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
    """Refuse to run with fewer brokers than before if the store of a broker left out has messages.

    :param count: the number of brokers to run.
    :param has_messages: returns whether the store in a directory has messages.
    :raises ConfigError: no broker would serve a store that has messages.
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
