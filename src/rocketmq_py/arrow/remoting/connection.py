"""Blocking connections of Spark's planners and tasks, with TLS and credentials from the options."""

from __future__ import annotations

import ssl
import threading
from collections import defaultdict

from rocketmq_py.arrow.options.security import OPEN, Security
from rocketmq_py.remoting.blocking import BlockingConnection

_HINT = "Is it running, and reachable from this machine under that address (a broker announces its brokerIP1)?"


def connect(
    address: str, timeout: float, security: Security = OPEN, context: ssl.SSLContext | None = None
) -> BlockingConnection:
    """Open a connection.

    :param address: ``host:port``.
    :param timeout: seconds to wait for the connection, and for each part of a response.
    :param security: TLS options, and credentials for signing requests.
    :param context: a TLS context made from ``security``, for several connections; None makes one.
    :raises ConnectError: the connection is refused or not established in time, or TLS fails.
    """
    tls = context or security.context()
    return BlockingConnection.connect(address, timeout, tls=tls, credentials=security.credentials, hint=_HINT)


class BlockingConnections:
    """One connection for each address, opened on first use. A thread that shares one must hold its :meth:`lock`.

    :param timeout: seconds to wait for a connection, and for each part of a response.
    """

    def __init__(self, timeout: float, security: Security = OPEN) -> None:
        self._timeout = timeout
        self._security = security
        self._context = security.context()
        self._open: dict[str, BlockingConnection] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def to(self, address: str) -> BlockingConnection:
        """Return the connection to ``address``; open it if there is none.

        :raises ConnectError: the connection cannot be opened.
        """
        connection = self._open.get(address)
        if connection is None:
            connection = self._open[address] = connect(address, self._timeout, self._security, self._context)
        return connection

    def lock(self, address: str) -> threading.Lock:
        """Return the lock that a thread must hold while it uses the connection to ``address``."""
        return self._locks[address]

    def drop(self, address: str) -> None:
        """Close the connection to ``address`` after a failure; the next use opens a new one."""
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._open):
            self.drop(address)


class IdleConnections:
    """A pool of open connections that one range of a task has used, for use by the next ranges. Not thread-safe."""

    def __init__(self) -> None:
        self._idle: dict[str, list[BlockingConnection]] = {}

    def take(self, address: str) -> BlockingConnection | None:
        """Remove an open connection to ``address`` from the pool and return it; None if there is none."""
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.is_alive():
                return connection
            connection.close()
        return None

    def put(self, connection: BlockingConnection) -> None:
        """Add a connection to the pool, or close it if there are responses that were not read."""
        if connection.in_flight or connection.arrived:
            connection.close()
        else:
            self._idle.setdefault(connection.address, []).append(connection)

    def close(self) -> None:
        """Close all idle connections."""
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()
