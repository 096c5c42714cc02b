"""The cluster a command connects to, and the administration client with which it runs.

The cluster is the first of: ``--namesrv``, ``--context``, the environment variable NAMESRV_ADDR, the current context,
127.0.0.1:9876.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from rocketmq_py.cli.connect.contexts import Contexts, file_path, load
from rocketmq_py.cli.connect.security import CliSecurity, security_options
from rocketmq_py.errors import ConfigError, ConnectError

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.client.producer.producer import Producer
    from rocketmq_py.tls import Tls
    from rocketmq_py.wire.signing import Credentials

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

NAMESRV_VARIABLE = "NAMESRV_ADDR"
DEFAULT_NAMESRV = "127.0.0.1:9876"
DEFAULT_TIMEOUT = 5.0
PRODUCER_GROUP = "rocketmq-cli"


class Target(NamedTuple):
    """A cluster to connect to.

    :ivar namesrv: addresses of the name servers.
    :ivar origin: where the addresses come from, for errors: the option, variable or context.
    :ivar address_map: reachable addresses by the addresses that brokers advertise.
    :ivar timeout: timeout of a request in seconds.
    :ivar security: TLS options and access key of the saved context.
    """

    namesrv: str
    origin: str
    address_map: dict[str, str] = {}  # noqa: RUF012 - never changed
    timeout: float = DEFAULT_TIMEOUT
    security: CliSecurity = CliSecurity()
    tls: Tls = None
    credentials: Credentials | None = None

    def secured(self, given: CliSecurity, environment: Mapping[str, str]) -> Target:
        """Return a copy with TLS and credentials from the command line, the environment and the saved context.

        :param given: options of the command line, which override those of the saved context.
        :raises click.UsageError: one of access key and secret key is missing.
        """
        security = given.over(self.security)
        return self._replace(tls=security.tls_options(), credentials=security.credentials(environment))

    def admin(self, *, skip_silent: bool = False) -> Admin:
        """Return a new administration client of the cluster, which is not started.

        :param skip_silent: leave out brokers that do not answer, instead of failing.
        """
        from rocketmq_py.client.admin.admin import Admin

        return Admin(
            self.namesrv, timeout=self.timeout, address_map=self.address_map, tls=self.tls,
            credentials=self.credentials, skip_silent=skip_silent,
        )  # fmt: skip

    def producer(self, **options: Any) -> Producer:
        """Return a new producer for the cluster, which is not started."""
        from rocketmq_py.client.producer.producer import Producer

        return Producer(
            PRODUCER_GROUP, self.namesrv, address_map=self.address_map, tls=self.tls, credentials=self.credentials,
            **options,
        )  # fmt: skip


def choose(
    namesrv: str | None, context: str | None, environment: Mapping[str, str], saved: Callable[[], Contexts]
) -> Target:
    """Return the cluster that options, environment and current context select, in this order.

    :param saved: reads the saved contexts; called only when needed.
    :raises ConfigError: there is no context of this name.
    """
    if namesrv is not None:
        return Target(namesrv, "--namesrv")
    if context is None and environment.get(NAMESRV_VARIABLE):
        return Target(environment[NAMESRV_VARIABLE], NAMESRV_VARIABLE)
    contexts = saved()
    name = context or contexts.current
    if name is None:
        return Target(DEFAULT_NAMESRV, "the default, since there is no --namesrv, NAMESRV_ADDR or context")
    cluster = contexts.get(name)
    timeout = cluster.timeout or DEFAULT_TIMEOUT
    return Target(cluster.namesrv, f"context {name}", cluster.address_map, timeout, cluster.security or CliSecurity())


def cluster_options(function: F) -> F:
    """Add the options that select the cluster; the command gets it as a :class:`Target` in ``target``."""

    @functools.wraps(function)
    def command(
        *args: Any, namesrv: str | None, context: str | None, addresses: tuple[str, ...], timeout: float | None,
        security: CliSecurity, **others: Any,
    ) -> Any:  # fmt: skip
        import os

        target = choose(namesrv, context, os.environ, lambda: load(file_path()))
        target = target._replace(address_map={**target.address_map, **address_map(addresses)})
        target = target.secured(security, os.environ)
        if timeout is not None:
            target = target._replace(timeout=timeout)
        return function(*args, target=target, **others)

    options = (
        click.option("--namesrv", metavar="H:P;H:P", help="Name servers; overrides context and environment."),
        click.option("--context", metavar="NAME", shell_complete=_contexts, help="A saved cluster."),
        click.option(
            "--map", "addresses", metavar="FROM=TO", multiple=True, help="Reach a broker that advertises FROM at TO."
        ),
        click.option("--timeout", type=click.FloatRange(min=0.1), metavar="S", help="Timeout of a request in seconds."),
    )
    command = security_options(command)
    for option in reversed(options):
        command = option(command)
    return command  # type: ignore[return-value]


def address_map(assignments: tuple[str, ...]) -> dict[str, str]:
    """Parse ``FROM=TO`` arguments; return reachable addresses by advertised address.

    :raises click.BadParameter: an argument has another form.
    """
    found = {}
    for text in assignments:
        advertised, separator, reachable = text.partition("=")
        if not separator or not advertised or not reachable:
            raise click.BadParameter(f"{text!r} is no pair FROM=TO of addresses", param_hint="'--map'")
        found[advertised.strip()] = reachable.strip()
    return found


def with_admin(target: Target, work: Callable[[Admin], Awaitable[T]], *, skip_silent: bool = False) -> T:
    """Run ``work`` with an administration client of the cluster, and return its result.

    Ctrl-C cancels ``work`` and closes the client.

    :param skip_silent: leave out brokers that do not answer, instead of failing.
    """

    async def run() -> T:
        async with target.admin(skip_silent=skip_silent) as admin:
            return await work(admin)

    try:
        return asyncio.run(run())
    except ConnectError as e:
        if target.origin.startswith("the default"):
            raise ConnectError(f"{e}. {target.namesrv} is {target.origin}") from e
        raise


def _contexts(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _saved_names() if name.startswith(incomplete)]


def _saved_names() -> list[str]:
    try:
        return sorted(load(file_path()).contexts)
    except ConfigError:
        return []  # shell completion cannot show an error


def complete_topic(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return topic names for shell completion, from the cluster that the incomplete command line selects."""
    return _complete(ctx, incomplete, _topics)


def complete_group(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return names of consumer groups for shell completion, from the cluster that the command line selects."""
    return _complete(ctx, incomplete, _groups)


async def _topics(admin: Admin) -> list[str]:
    return await admin.topics()


async def _groups(admin: Admin) -> list[str]:
    return list(await admin.groups())


def _complete(ctx: click.Context, incomplete: str, names_of: Callable[[Admin], Awaitable[list[str]]]) -> list[str]:
    import os

    from rocketmq_py.errors import RocketMQError

    try:
        target = choose(ctx.params.get("namesrv"), ctx.params.get("context"), os.environ, lambda: load(file_path()))
        target = target.secured(CliSecurity(), os.environ)
        return [name for name in with_admin(target._replace(timeout=1.0), names_of) if name.startswith(incomplete)]
    except (RocketMQError, click.UsageError):
        return []  # shell completion cannot show an error
