"""Queries of all brokers that leave out silent brokers, which do not answer, and report them at the end."""

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
    """Queries the brokers of a cluster and leaves out those that do not answer."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.silent: dict[str, object] = {}
        """The error of each broker that did not answer, by broker."""

    def run(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        """Run ``work`` with an administration client that leaves out silent brokers; return its result."""

        async def recorded(admin: Admin) -> T:
            try:
                return await work(admin)
            finally:
                self.silent |= admin.silent

        return with_admin(self._target, recorded, skip_silent=True)


@contextmanager
def listing(target: Target) -> Iterator[Listing]:
    """Context manager with a :class:`Listing`; at the end, prints brokers that did not answer to standard error.

    If a broker did not answer, the command exits with status UNHEALTHY. That status also replaces NOT_FOUND, because
    such a broker may have the missing item.
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
    """Print the errors of brokers that did not answer to standard error.

    :param silent: the errors, by broker.
    """
    for broker, error in sorted(silent.items()):
        click.echo(f"broker {broker}: {error}", err=True)
