"""Why no connection could be made, as people say it."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.tls import connect_fault

NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NO_NAME, "Name or service not known"),
        (OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (OSError("Multiple exceptions: this, that"), "Multiple exceptions: this, that"),
        (TimeoutError(), "no answer in time"),
        (ssl.SSLError("no shared cipher"), "TLS: no shared cipher"),
    ],
)
def test_connection_errors_are_described(error: OSError, words: str) -> None:
    assert connect_fault(error) == words


def test_an_unknown_host_differs_from_an_unreachable_server() -> None:
    told = str(ConnectionPool().cannot_connect("nosuch.example:9876", NO_NAME))
    assert told == (
        "cannot connect to nosuch.example:9876: Name or service not known. "
        "Is the name spelt as it should be, and known from here?"
    )
