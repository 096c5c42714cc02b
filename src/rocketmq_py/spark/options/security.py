"""TLS and credentials of connections, as one value from the options to every socket."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace

from rocketmq_py.tls import TlsOptions, client_context
from rocketmq_py.wire.signing import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """TLS and credentials. Pickled and sent to executors; its text shows no secret.

    :ivar tls: TLS options; None for plain connections. A context of :mod:`ssl` cannot be pickled.
    :ivar credentials: sign requests; None leaves them unsigned.
    """

    tls: TlsOptions | ssl.SSLContext | None = None
    credentials: Credentials | None = None

    def context(self) -> ssl.SSLContext | None:
        """What :mod:`ssl` needs; None for plain connections.

        :raises ConfigError: a file is missing or is not what it should be.
        """
        return client_context(self.tls)

    def loaded(self) -> Security:
        """Return a copy whose certificates and authorities are loaded, for a process that makes several connections.

        Loading the system's authorities takes 30 ms.

        :raises ConfigError: as :meth:`context`.
        """
        return replace(self, tls=self.context())


OPEN = Security()
"""No TLS, no signatures."""
