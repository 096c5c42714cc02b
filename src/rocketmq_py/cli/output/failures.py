"""Exit statuses of commands, and the error that is printed as one line on standard error."""

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
    """Exit statuses of all commands."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNHEALTHY = 4
    INTERRUPTED = 130
    """Ctrl-C: 128 plus the number of SIGINT, as in shells."""
    PIPE_CLOSED = 141
    """The reader of the output has closed the pipe: 128 plus the number of SIGPIPE."""


class CommandFailure(click.ClickException):
    """The failure of a command: one line on standard error and an exit status."""

    def __init__(self, message: str, status: Status = Status.FAILED) -> None:
        super().__init__(message)
        self.status = status

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """The exit status of the process."""
        return self.status


def missing(what: str, hint: str = "") -> CommandFailure:
    """Return a failure with status NOT_FOUND.

    :param what: the error, without a full stop.
    :param hint: how to fix it; empty for no hint.
    """
    return CommandFailure(what + (f". {hint}" if hint else ""), Status.NOT_FOUND)


def failure_of(error: RocketMQError) -> CommandFailure:
    """Convert an error of the package to the failure of a command, with the matching exit status."""
    return CommandFailure(str(error), status_of(error))


def status_of(error: RocketMQError) -> Status:
    """Return the exit status of a command that fails with ``error``."""
    if isinstance(error, ConfigError | StoreError):
        return Status.USAGE
    if isinstance(error, NoRouteError | NotFound | TopicNotExist | GroupNotExist | ConsumerNotOnline):
        return Status.NOT_FOUND
    return Status.FAILED
