"""Connections of Spark's planners and tasks: the shared blocking transport, secured as the options say."""

from __future__ import annotations

import ssl
import threading
from collections import defaultdict

from rocketmq_py.remoting.blocking import BlockingConnection
from rocketmq_py.spark.options.security import OPEN, Security

_HINT = "Is it running, and reachable from this machine under that address (a broker announces its brokerIP1)?"


def connect(
    address: str, timeout: float, security: Security = OPEN, context: ssl.SSLContext | None = None
) -> BlockingConnection:
    """Open a connection.

    :param address: ``host:port``.
    :param timeout: seconds to wait for the connection, and each time for bytes of an answer.
    :param security: TLS options, and credentials for signing requests.
    :param context: the TLS context of ``security``, if it exists already.
    :raises ConnectError: the connection is refused or not made in time, or TLS fails.
    """
    tls = context or security.context()
    return BlockingConnection.connect(address, timeout, tls=tls, credentials=security.credentials, hint=_HINT)


class BlockingConnections:
    """Connections by address, opened on first use. For one thread, or several that hold :meth:`lock` of an address.

    :param timeout: seconds, as of :func:`connect`.
    """

    def __init__(self, timeout: float, security: Security = OPEN) -> None:
        self._timeout = timeout
        self._security = security
        self._context = security.context()
        self._open: dict[str, BlockingConnection] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def to(self, address: str) -> BlockingConnection:
        """The connection to ``address``.

        :raises ConnectError: it cannot be opened.
        """
        connection = self._open.get(address)
        if connection is None:
            connection = self._open[address] = connect(address, self._timeout, self._security, self._context)
        return connection

    def lock(self, address: str) -> threading.Lock:
        """The lock that threads hold which share the connection to ``address``."""
        return self._locks[address]

    def drop(self, address: str) -> None:
        """Close a connection that failed; the next use opens a new one."""
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._open):
            self.drop(address)


class IdleConnections:
    """Connections of a task that one range has used and the next one may. For one thread."""

    def __init__(self) -> None:
        self._idle: dict[str, list[BlockingConnection]] = {}

    def take(self, address: str) -> BlockingConnection | None:
        """An open connection to ``address`` that nobody uses; None if there is none."""
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.is_alive():
                return connection
            connection.close()
        return None

    def put(self, connection: BlockingConnection) -> None:
        """Keep a connection for others; it is closed if answers are still to come."""
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
