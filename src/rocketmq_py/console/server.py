"""Serves the console over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette

from rocketmq_py.console.app import create_app, create_app_of_several
from rocketmq_py.console.checkpoints import Checkpoints
from rocketmq_py.console.connection import Connection
from rocketmq_py.console.figures import Figures
from rocketmq_py.console.login import Sessions
from rocketmq_py.console.masks import Masks
from rocketmq_py.console.security import Audit, ProxyLogin
from rocketmq_py.console.state import Console
from rocketmq_py.console.timed_http import FewWarnings, TimedHttp
from rocketmq_py.errors import ConfigError
from rocketmq_py.tls import load_certificate
from rocketmq_py.wire.signing import Credentials

_MOST_CONNECTIONS = 2048
"""Browsers keep a connection or two each while somebody looks; the work of all has another limit, in ``app``."""

Connect = Callable[[Credentials], Connection]


class Site(NamedTuple):
    """One of several clusters that a console shows.

    :ivar connect: opens a connection that signs with somebody's credentials; with it the cluster's pages have a login.
    """

    name: str
    connection: Connection
    connect: Connect | None = None


class Https(NamedTuple):
    """The certificate of the console: PEM files; the key may be in the file of the certificate."""

    cert: str
    key: str | None = None
    password: str | None = None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of the server.

        :raises ConfigError: a file is missing or invalid.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        load_certificate(context, self.cert, self.key, self.password)
        return context


async def serve(  # noqa: PLR0913 - options by keyword
    connection: Connection | Sequence[Site],
    *,
    host: str,
    port: int,
    read_only: bool,
    hosts: Iterable[str],
    connect: Connect | None = None,
    https: Https | None = None,
    figures: Figures | None = None,
    proxy: ProxyLogin | None = None,
    masks: Masks | None = None,
    checkpoints: Checkpoints | None = None,
    on_ready: Callable[[str], None],
    until: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve the console until it is cancelled; requests that are being answered are finished.

    :param connection: to the cluster; or several clusters, each with a name.
    :param port: 0 picks a free one.
    :param hosts: further names under which it is served.
    :param connect: opens a connection that signs with somebody's credentials; with it the console has a login.
    :param https: certificate and key, to serve it with TLS.
    :param figures: counts pages and changes.
    :param proxy: tells the user whom a proxy in front of the console knows.
    :param masks: what of bodies pages may show; all without it.
    :param checkpoints: those of streaming queries.
    :param on_ready: called with its address, ``http://HOST:PORT``, when it accepts connections.
    :param until: also end when this does.
    :raises ConfigError: the port or the certificate cannot be used.
    """
    sites = [Site("", connection, connect)] if isinstance(connection, Connection) else connection
    consoles = _consoles(sites, figures or Figures(), masks or Masks(), checkpoints, read_only=read_only)
    make = create_app_of_several if sites[0].name else _app_of_one
    app = make(consoles, (host, *hosts), proxy)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off", timeout_keep_alive=10,
        limit_concurrency=_MOST_CONNECTIONS, timeout_graceful_shutdown=5, proxy_headers=False, ws="none",
        http=TimedHttp,
    )  # fmt: skip
    context = https.context() if https is not None else None
    if context is not None:
        config.load()  # without options for TLS; the context is complete
        config.ssl = context
    with _listen(host, port) as listening, FewWarnings().applied():
        server = _Server(config)
        at = f"[{host}]" if ":" in host else host
        scheme = "http" if context is None else "https"
        on_ready(f"{scheme}://{at}:{listening.getsockname()[1]}")
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        ending = asyncio.ensure_future(_ended(until))
        try:
            await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            server.should_exit = True
            await serving
            for console, sessions in consoles:
                if sessions is not None:
                    await sessions.close()
                await console.close()


def _app_of_one(
    consoles: Sequence[tuple[Console, Sessions | None]], hosts: Iterable[str], proxy: ProxyLogin | None
) -> Starlette:
    [(console, sessions)] = consoles
    return create_app(console, hosts, sessions, proxy)


def _consoles(
    sites: Sequence[Site], figures: Figures, masks: Masks, checkpoints: Checkpoints | None, *, read_only: bool
) -> list[tuple[Console, Sessions | None]]:
    """Return what the pages of each cluster share, and who is logged in to it."""
    names = tuple(site.name for site in sites)
    made = [
        (
            Console(
                site.connection, read_only=read_only, figures=figures, name=site.name, clusters=names,
                audit=Audit(cluster=site.name), masks=masks, checkpoints=checkpoints,
            ),
            Sessions(site.connect, time.monotonic) if site.connect is not None else None,
        )
        for site in sites
    ]  # fmt: skip
    every = [sessions for _, sessions in made if sessions is not None]
    for sessions in every:
        sessions.others = [other for other in every if other is not sessions]
    return made


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as e:
        raise ConfigError(f"cannot listen on {host}:{port}: {e.strerror}") from e


class _Server(uvicorn.Server):
    """Leaves signals to the runner of the process: uvicorn raises them again, which ends it with their status."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _ended(until: Callable[[], Awaitable[None]] | None) -> None:
    await (until() if until is not None else asyncio.Event().wait())
