"""Serves the console over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator

import uvicorn

from rocketmq_py.console.app import create_app
from rocketmq_py.console.connection import Connection
from rocketmq_py.console.state import Console
from rocketmq_py.errors import ConfigError

_MOST_CONNECTIONS = 128


async def serve(
    connection: Connection,
    *,
    host: str,
    port: int,
    read_only: bool,
    hosts: Iterable[str],
    on_ready: Callable[[str], None],
    until: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve the console until it is cancelled; requests that are being answered are finished.

    :param port: 0 picks a free one.
    :param hosts: further names under which it is served.
    :param on_ready: called with its address, ``http://HOST:PORT``, when it accepts connections.
    :param until: also end when this does.
    :raises ConfigError: the port cannot be used.
    """
    app = create_app(Console(connection, read_only=read_only), (host, *hosts))
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off", timeout_keep_alive=10,
        limit_concurrency=_MOST_CONNECTIONS, timeout_graceful_shutdown=5, proxy_headers=False, ws="none",
    )  # fmt: skip
    with _listen(host, port) as listening:
        server = _Server(config)
        at = f"[{host}]" if ":" in host else host
        on_ready(f"http://{at}:{listening.getsockname()[1]}")
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        ending = asyncio.ensure_future(_ended(until))
        try:
            await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            server.should_exit = True
            await serving
            await connection.close()


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
