"""TLS options and credentials of a command, from its options, the environment and the saved context.

The secret key comes only from the environment: other users of the machine can see a command line, and a saved context
is an unencrypted file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

if TYPE_CHECKING:
    from rocketmq_py.tls import Tls
    from rocketmq_py.wire.signing import Credentials

F = TypeVar("F", bound=Callable[..., Any])

ACCESS_VARIABLE = "ROCKETMQ_ACCESS_KEY"
SECRET_VARIABLE = "ROCKETMQ_SECRET_KEY"  # noqa: S105 - the name of the variable
TOKEN_VARIABLE = "ROCKETMQ_SECURITY_TOKEN"  # noqa: S105


class CliSecurity(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """TLS options and access key from a command line or a saved context.

    :param tls: use TLS or not; None if it is not specified: then the other options decide.
    :param ca: file with the authority to trust, PEM.
    :param cert: file with the client certificate, PEM.
    :param key: file with its private key, PEM.
    :param insecure: use TLS and accept any certificate.
    """

    tls: bool | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False
    access_key: str | None = None

    @property
    def _has_tls_options(self) -> bool:
        return bool(self.ca or self.cert or self.key or self.insecure)

    def over(self, other: CliSecurity) -> CliSecurity:
        """Return these options with precedence over ``other``: its TLS options apply only if none is given here."""
        if self.tls is None and not self._has_tls_options:
            return msgspec.structs.replace(other, access_key=self.access_key or other.access_key)
        return msgspec.structs.replace(self, access_key=self.access_key or other.access_key)

    def tls_options(self) -> Tls:
        """Return the value for the clients' option ``tls``; None for connections without TLS."""
        from rocketmq_py.tls import TlsOptions

        if self.tls is False or not (self.tls or self._has_tls_options):
            return None
        return TlsOptions(ca=self.ca, cert=self.cert, key=self.key, verify=not self.insecure)

    def credentials(self, environment: Mapping[str, str]) -> Credentials | None:
        """Return the value for the clients' option ``credentials``; None to leave requests unsigned.

        :param environment: environment variables, which contain the secret key.
        :raises click.UsageError: one of access key and secret key is missing.
        """
        from rocketmq_py.wire.signing import Credentials

        access_key = self.access_key or environment.get(ACCESS_VARIABLE)
        secret = environment.get(SECRET_VARIABLE)
        if access_key and secret:
            return Credentials(access_key, secret, environment.get(TOKEN_VARIABLE))
        if access_key:
            raise click.UsageError(f"access key {access_key!r} needs its secret key in the variable {SECRET_VARIABLE}")
        if secret:
            raise click.UsageError(
                f"{SECRET_VARIABLE} is set: give its access key with --access-key or {ACCESS_VARIABLE}"
            )
        return None


def security_options(function: F) -> F:
    """Add the options for TLS and signing; the command gets them as a :class:`CliSecurity` in ``security``."""

    @functools.wraps(function)
    def command(
        *args: Any, tls: bool | None, tls_ca: str | None, tls_cert: str | None, tls_key: str | None,
        tls_insecure: bool, access_key: str | None, **others: Any,
    ) -> Any:  # fmt: skip
        security = CliSecurity(tls, tls_ca, tls_cert, tls_key, tls_insecure, access_key)
        return function(*args, security=security, **others)

    options = (
        click.option("--tls/--no-tls", default=None, help="Whether to use TLS."),
        click.option("--tls-ca", metavar="FILE", help="Trust certificates of this authority; PEM."),
        click.option("--tls-cert", metavar="FILE", help="Client certificate, for servers that require one; PEM."),
        click.option("--tls-key", metavar="FILE", help="Private key of the client certificate."),
        click.option("--tls-insecure", is_flag=True, help="Use TLS and accept any certificate."),
        click.option(
            "--access-key", metavar="NAME", help=f"Sign requests as this user; {SECRET_VARIABLE} holds the secret key."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command  # type: ignore[return-value]
