"""Serves the console over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterable

import uvicorn

from rocketmq_py.console.app import create_app
from rocketmq_py.console.connection import Connection
from rocketmq_py.console.state import Console

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
    """Serve the console until the process is interrupted.

    :param port: 0 picks a free one.
    :param hosts: further names under which it is served.
    :param on_ready: called with its address, ``http://HOST:PORT``, when it accepts connections.
    :param until: also end when this does.
    :raises OSError: the port cannot be used.
    """
    app = create_app(Console(connection, read_only=read_only), (host, *hosts))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off", timeout_keep_alive=10,
        limit_concurrency=_MOST_CONNECTIONS, timeout_graceful_shutdown=5, proxy_headers=False, ws="none",
    )  # fmt: skip
    with socket.create_server((host, port), family=family) as listening:
        server = uvicorn.Server(config)
        at = f"[{host}]" if ":" in host else host
        on_ready(f"http://{at}:{listening.getsockname()[1]}")
        ending = asyncio.ensure_future(_end(server, until)) if until is not None else None
        try:
            await server.serve(sockets=[listening])
        finally:
            if ending is not None:
                ending.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await ending
            await connection.close()


async def _end(server: uvicorn.Server, until: Callable[[], Awaitable[None]]) -> None:
    await until()
    server.should_exit = True
