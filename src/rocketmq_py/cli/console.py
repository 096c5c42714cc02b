"""``rocketmq console``: pages that show and change a cluster, in a browser."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rocketmq_py.cli.connect.connect import Target, choose, cluster_options
from rocketmq_py.cli.connect.contexts import file_path, load
from rocketmq_py.cli.connect.security import CliSecurity
from rocketmq_py.cli.output.failures import CommandFailure, Status
from rocketmq_py.cli.server.monitoring_options import monitoring_options
from rocketmq_py.cli.supervisor import end_of_input

if TYPE_CHECKING:
    from rocketmq_py.console.checkpoints import Checkpoints
    from rocketmq_py.console.connection import Connection
    from rocketmq_py.console.figures import Figures
    from rocketmq_py.console.security import ProxyLogin
    from rocketmq_py.wire.signing import Credentials

PASSWORD_VARIABLE = "ROCKETMQ_CONSOLE_KEY_PASSWORD"  # noqa: S105 - the name of the variable


@click.command(name="console", short_help="Show and change a cluster in a browser.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="H", help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port; 0 picks a free one."
)
@click.option("--read-only", is_flag=True, help="Only show: nothing can be changed.")
@click.option("--allowed-host", "hosts", multiple=True, metavar="NAME", help="Also serve under this name.")
@click.option("--insecure", is_flag=True, help="Listen on an address that other machines reach, without a login.")
@click.option("--login", is_flag=True, help="Ask for an access key; pages act with the rights of its user.")
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME[=H:P]",
    help="Show this cluster: a saved context, or name servers under a name. Several times: several clusters.",
)
@click.option("--auth-header", metavar="NAME", help="A proxy says in this header who the user is.")
@click.option(
    "--auth-from",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of the proxy; requests from elsewhere are refused.",
)
@click.option(
    "--proxy-roles",
    "roles",
    metavar="FILE",
    help="What its users may do: lines such as operator: ann bob; * is everybody.",
)
@click.option("--no-bodies", is_flag=True, help="Show no message bodies.")
@click.option(
    "--mask",
    "patterns",
    multiple=True,
    metavar="REGEX",
    help="Replace what this matches in bodies by ***; may be repeated.",
)
@click.option(
    "--mask-path",
    "paths",
    multiple=True,
    metavar="PATH",
    help="Replace the values at this JSON path, such as $.card.number or $..token; hides bodies that are no JSON.",
)
@click.option(
    "--spark-checkpoint",
    "checkpoints",
    multiple=True,
    metavar="DIR",
    help="Show lag and decisions of the streaming query with this checkpoint; may be repeated.",
)
@click.option("--https-cert", metavar="FILE", help="Serve with TLS: the console's certificate; PEM.")
@click.option("--https-key", metavar="FILE", help=f"Its private key; its password is in {PASSWORD_VARIABLE}.")
@monitoring_options
@click.option("--supervised", is_flag=True, hidden=True)
@cluster_options
def command(supervised: bool, target: Target, **options: Any) -> None:
    """Serve web pages about a cluster, of this project or of Apache RocketMQ, until interrupted.

    Prints READY console=http://HOST:PORT (https with --https-cert). Needs the extra: pip
    install 'rocketmq-py[console]'.
    """
    try:
        from rocketmq_py.console.connection import Connection
        from rocketmq_py.console.figures import Figures
        from rocketmq_py.console.masks import Masks
        from rocketmq_py.console.roles import Roles
        from rocketmq_py.console.security import ProxyLogin, check_bind
        from rocketmq_py.console.server import Https, Site, serve
    except ModuleNotFoundError as e:
        raise CommandFailure(f"the console needs {e.name}: pip install 'rocketmq-py[console]'", Status.USAGE) from e
    from rocketmq_py.cli.server.settings import ready
    from rocketmq_py.server.runner import run

    host, login, cert, key = (options[name] for name in ("host", "login", "https_cert", "https_key"))
    if key is not None and cert is None:
        raise click.UsageError("--https-key needs --https-cert")
    masks = Masks(options["patterns"], options["paths"], are_hidden=options["no_bodies"])
    if options["roles"] is not None and options["auth_header"] is None:
        raise click.UsageError("--proxy-roles needs --auth-header")
    roles = None if options["roles"] is None else Roles.read(options["roles"])
    proxy = _proxy(partial(ProxyLogin, roles=roles), options["auth_header"], options["proxies"], login=login)
    check_bind(host, insecure=options["insecure"], login=login or proxy is not None, https=cert is not None)

    def connect_to(at: Target) -> Callable[[Credentials | None], Connection]:
        return lambda credentials: Connection(
            at.namesrv, timeout=at.timeout, address_map=at.address_map, tls=at.tls, credentials=credentials
        )

    def connected(at: Target) -> tuple[Connection, Callable[[Credentials], Connection] | None]:
        connect = connect_to(at)
        return connect(None if login else at.credentials), connect if login else None

    targets = targets_of(options["clusters"], target)
    checkpoints = _checkpoints(options["checkpoints"], several=bool(targets))

    async def main() -> None:
        figures = Figures()
        async with _monitored(options["metrics_host"], options["metrics_port"], figures) as started:
            await _serve(figures, started)

    async def _serve(figures: Figures, started: Callable[[], None]) -> None:
        def on_ready(address: str) -> None:
            started()
            ready(console=address)

        connection, connect = (None, None) if targets else connected(target)
        await serve(
            connection or [Site(name, *connected(at)) for name, at in targets.items()], host=host,
            port=options["port"], read_only=options["read_only"], hosts=options["hosts"], connect=connect, proxy=proxy,
            https=Https(cert, key, os.environ.get(PASSWORD_VARIABLE)) if cert else None,
            figures=figures, masks=masks, checkpoints=checkpoints, on_ready=on_ready,
            until=(lambda: end_of_input(sys.stdin)) if supervised else None,
        )  # fmt: skip

    run(main())


def targets_of(words: Sequence[str], usual: Target) -> dict[str, Target]:
    """Return the clusters of the options ``--cluster`` by name.

    :param words: saved contexts, or ``NAME=HOST:PORT``, which is reached as ``usual`` is.
    :raises click.UsageError: a name is none, or is there twice.
    """
    found: dict[str, Target] = {}
    for word in words:
        name, equals, namesrv = word.partition("=")
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or not name.isascii():
            raise click.UsageError(f"--cluster {word}: a name has letters, digits, '-', '_' and '.'")
        if name in found:
            raise click.UsageError(f"--cluster {name} is given twice")
        if equals:
            found[name] = usual._replace(namesrv=namesrv, origin="--cluster")
        else:
            saved = choose(None, name, {}, lambda: load(file_path()))
            found[name] = saved.secured(CliSecurity(), os.environ)
    return found


def _checkpoints(folders: Sequence[str], *, several: bool) -> Checkpoints | None:
    """Return what reads the checkpoints of streaming queries; None if none is named."""
    from rocketmq_py.cli.console_checkpoints import checked, read_query
    from rocketmq_py.console.checkpoints import Checkpoints

    if not folders:
        return None
    if several:
        raise click.UsageError("--spark-checkpoint and --cluster exclude each other: a query reads from one cluster")
    found = checked(folders)
    return Checkpoints(lambda: [read_query(folder) for folder in found])


def _proxy(
    make: Callable[[str, Sequence[str]], ProxyLogin], header: str | None, sources: Sequence[str], *, login: bool
) -> ProxyLogin | None:
    if header is None and not sources:
        return None
    if login:
        raise click.UsageError("--auth-header and --login exclude each other")
    return make(header or "", sources)


@contextlib.asynccontextmanager
async def _monitored(host: str, port: int | None, figures: Figures) -> AsyncIterator[Callable[[], None]]:
    """Serve health and metrics during the block; yields what to call when pages are served.

    :param port: None to serve nothing.
    """
    from rocketmq_py.server.monitoring.endpoint import MonitoringEndpoint
    from rocketmq_py.server.monitoring.exposition import target_info
    from rocketmq_py.server.monitoring.settings import Place

    if port is None:
        yield lambda: None
        return
    began = time.time_ns() // 1_000_000

    async def collect(wanted: frozenset[str]) -> list[bytes]:
        return [figures.exposition(began, wanted)]

    target = target_info("rocketmq-console", f"{socket.gethostname()}:{port}")
    endpoint = MonitoringEndpoint(Place(host, port), None, dict, collect, target)
    await endpoint.start()
    try:
        yield endpoint.started
    finally:
        endpoint.draining()
        await endpoint.stop()
