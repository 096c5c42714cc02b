"""Listings that skip brokers that do not answer, show the answers of the others and name the silent brokers."""

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
    """Queries the brokers of a cluster and skips those that do not answer."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.silent: dict[str, object] = {}
        """Errors by broker that did not answer."""

    def run(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        """The result of ``work``, from the brokers that answer."""

        async def recorded(admin: Admin) -> T:
            try:
                return await work(admin)
            finally:
                self.silent |= admin.silent

        return with_admin(self._target, recorded, skip_silent=True)


@contextmanager
def listing(target: Target) -> Iterator[Listing]:
    """A listing; on exit it names silent brokers, and the exit status is UNHEALTHY if there are any.

    NOT_FOUND then becomes UNHEALTHY too, because a silent broker may have the missing item.
    """
    query = Listing(target)
    try:
        yield query
    except CommandFailure as e:
        if e.status == Status.NOT_FOUND and query.silent:
            raise CommandFailure(f"{e.message}; brokers that do not answer may have it", Status.UNHEALTHY) from e
        raise
    finally:
        name_silent(query.silent)
    if query.silent:
        raise SystemExit(Status.UNHEALTHY)


def name_silent(silent: Mapping[str, object]) -> None:
    """Print the errors of silent brokers on standard error."""
    for broker, error in sorted(silent.items()):
        click.echo(f"broker {broker}: {error}", err=True)
