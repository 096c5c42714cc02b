"""TLS options and credentials of connections, in one picklable object."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace

from rocketmq_py.tls import TlsOptions, client_context
from rocketmq_py.wire.signing import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """TLS options and credentials. Spark pickles it for executors; its ``repr`` shows no secret.

    :ivar tls: TLS options, or a ready :mod:`ssl` context, which cannot be pickled; None for plain connections.
    :ivar credentials: sign requests with these; None leaves requests unsigned.
    """

    tls: TlsOptions | ssl.SSLContext | None = None
    credentials: Credentials | None = None

    def context(self) -> ssl.SSLContext | None:
        """Return the context for TLS sockets; None for plain connections.

        :raises ConfigError: a certificate or key file is missing or invalid.
        """
        return client_context(self.tls)

    def loaded(self) -> Security:
        """Return a copy whose :attr:`tls` is a ready context, for a process that makes several connections.

        The context is then made once instead of per connection: loading the system's authorities takes 30 ms.

        :raises ConfigError: as :meth:`context`.
        """
        return replace(self, tls=self.context())


OPEN = Security()
"""The default: connections without TLS, requests without signatures."""
