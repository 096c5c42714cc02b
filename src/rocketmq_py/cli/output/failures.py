"""How a command ends: its exit statuses, and the one line that says what went wrong.

Knows which error of the package means which status. Refuses to know how it came about.
"""

from __future__ import annotations

import enum

import click

from rocketmq_py.errors import (
    ConfigError,
    ConsumerNotOnline,
    GroupNotExist,
    NoRouteError,
    NotFound,
    RocketMQError,
    StoreError,
    TopicNotExist,
)


class Status(enum.IntEnum):
    """Exit statuses of every verb."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNHEALTHY = 4
    INTERRUPTED = 130
    """By Ctrl-C: 128 and the number of SIGINT, as shells have it."""
    PIPE_CLOSED = 141
    """Whoever read the output has ended: 128 and the number of SIGPIPE."""


class CommandFailure(click.ClickException):
    """The end of a command: one line on standard error and an exit status."""

    def __init__(self, message: str, status: Status = Status.FAILED) -> None:
        super().__init__(message)
        self.status = status

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """What the process ends with."""
        return self.status


def missing(what: str, hint: str = "") -> CommandFailure:
    """What was asked for is not there."""
    return CommandFailure(what + (f". {hint}" if hint else ""), Status.NOT_FOUND)


def failure_of(error: RocketMQError) -> CommandFailure:
    """How a command ends that failed so."""
    return CommandFailure(str(error), status_of(error))


def status_of(error: RocketMQError) -> Status:
    """The exit status of an error."""
    if isinstance(error, ConfigError | StoreError):
        return Status.USAGE
    if isinstance(error, NoRouteError | NotFound | TopicNotExist | GroupNotExist | ConsumerNotOnline):
        return Status.NOT_FOUND
    return Status.FAILED
