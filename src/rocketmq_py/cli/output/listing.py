"""Listings that one silent broker must not prevent: what the others tell is shown, the silent ones are named.

Knows how such a command ends. Refuses to know what is listed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from rocketmq_py.cli.connect.connect import Target, with_admin
from rocketmq_py.cli.output.failures import CommandFailure, Status

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin

T = TypeVar("T")


class Listing:
    """Asks the brokers of a cluster, and goes on without those that do not answer."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.silent: dict[str, object] = {}
        """What went wrong, by broker."""

    def ask(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        """What comes of ``work``, as far as brokers answer."""

        async def noted(admin: Admin) -> T:
            try:
                return await work(admin)
            finally:
                self.silent |= admin.silent

        return with_admin(self._target, noted, skip_silent=True)


@contextmanager
def listing(target: Target) -> Iterator[Listing]:
    """A listing; at its end silent brokers are named, and the exit status is UNHEALTHY if there are any.

    What is not found is UNHEALTHY then, too: a silent broker may have it.
    """
    asked = Listing(target)
    try:
        yield asked
    except CommandFailure as e:
        if e.status == Status.NOT_FOUND and asked.silent:
            raise CommandFailure(f"{e.message}; brokers that do not answer may know better", Status.UNHEALTHY) from e
        raise
    finally:
        name_silent(asked.silent)
    if asked.silent:
        raise SystemExit(Status.UNHEALTHY)


def name_silent(silent: Mapping[str, object]) -> None:
    """Say on standard error which brokers are silent, and why."""
    for broker, error in sorted(silent.items()):
        click.echo(f"broker {broker}: {error}", err=True)
