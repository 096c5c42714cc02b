"""Whether connections speak TLS and who signs requests: one value that travels from the options to every socket."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from rocketmq_py.tls import TlsOptions, client_context
from rocketmq_py.wire.signing import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How servers are spoken to; travels to the executors, and shows no secret when printed.

    :ivar tls: how TLS is spoken; None for plain connections.
    :ivar credentials: what requests are signed with; None leaves them unsigned.
    """

    tls: TlsOptions | None = None
    credentials: Credentials | None = None

    def context(self) -> ssl.SSLContext | None:
        """What :mod:`ssl` needs; None for plain connections.

        :raises ConfigError: a file is missing or is not what it should be.
        """
        return client_context(self.tls)


OPEN = Security()
"""No TLS, no signatures."""
