"""TLS of outgoing connections: options, SSL contexts, and error messages in plain words."""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from rocketmq_py.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """TLS options of a client.

    :param ca: PEM file of the trusted certificate authorities; None trusts those of the system.
    :param cert: PEM file of the client's certificate and its chain, for servers that require one.
    :param key: PEM file of its private key; None if the key is in ``cert``.
    :param key_password: password of the private key.
    :param verify: verify the server's certificate; Java clients don't by default (tls.client.authServer).
    :param check_hostname: also check that the certificate is for the host or address of the connection.
    """

    ca: str | os.PathLike[str] | None = None
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """Build the :class:`ssl.SSLContext`.

        :raises ConfigError: a file is missing or invalid.
        """
        if self.key is not None and self.cert is None:
            raise ConfigError("a TLS key needs its certificate: give cert, too")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify and self.check_hostname
        context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        if self.ca is not None:
            load_authorities(context, self.ca)
        elif self.verify:
            context.load_default_certs()
        if self.cert is not None:
            load_certificate(context, self.cert, self.key, self.key_password)
        return context


Tls: TypeAlias = bool | TlsOptions | ssl.SSLContext | None
"""The ``tls`` option of clients: options, an SSL context, True for TLS with the system's authorities, None or False for
no TLS.
"""


def client_context(tls: Tls) -> ssl.SSLContext | None:
    """Return the SSL context for a client's ``tls`` option; None if it connects without TLS.

    :raises ConfigError: the option is invalid.
    """
    if isinstance(tls, ssl.SSLContext):
        return tls
    if isinstance(tls, TlsOptions):
        return tls.context()
    if tls is None or isinstance(tls, bool):
        return TlsOptions().context() if tls else None
    raise ConfigError(f"tls is {type(tls).__name__}: True, TlsOptions or an ssl.SSLContext is expected")


def load_authorities(context: ssl.SSLContext, ca: str | os.PathLike[str]) -> None:
    """Make an SSL context trust the certificate authorities of a PEM file.

    :raises ConfigError: the file is missing or invalid.
    """
    try:
        context.load_verify_locations(Path(ca).expanduser())
    except OSError as e:  # ssl.SSLError is a subclass
        raise ConfigError(f"TLS: no trusted certificates can be read from {ca}: {_file_fault(e)}") from e


def load_certificate(
    context: ssl.SSLContext,
    cert: str | os.PathLike[str],
    key: str | os.PathLike[str] | None,
    password: str | None,
) -> None:
    """Load a certificate and its private key into an SSL context.

    :param key: PEM file of the key; None if it is in ``cert``.
    :raises ConfigError: a file is missing or invalid, or the key does not match the certificate.
    """
    files = f"certificate {cert}" + (f" and key {key}" if key is not None else "")
    try:
        context.load_cert_chain(
            Path(cert).expanduser(), Path(key).expanduser() if key is not None else None, lambda: password or ""
        )
    except OSError as e:
        raise ConfigError(f"TLS: {files} cannot be used: {_file_fault(e)}") from e


def _file_fault(error: OSError) -> str:
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    reason = (error.reason or "").upper()
    if "KEY_VALUES_MISMATCH" in reason:
        return "the key is not the certificate's"
    if "BAD_DECRYPT" in reason or "BAD_PASSWORD" in reason:
        return "the key needs a password, or another one"
    return "it is not PEM of the expected kind" if "PEM" in reason or reason.startswith("NO_") or not reason else reason


_ALERTS = {
    "CERTIFICATE_REQUIRED": "the {} requires a client certificate: give cert and key",
    "NOT_RETURN_A_CERTIFICATE": "the {} gave no certificate, and one is asked for",
    "ALERT_UNKNOWN_CA": "the {} does not trust our certificate's authority",
    "ALERT_BAD_CERTIFICATE": "the {} does not accept our certificate",
    "ALERT_CERTIFICATE_EXPIRED": "our certificate has expired",
    "ALERT_HANDSHAKE_FAILURE": "the {} refuses the handshake; it may require a client certificate",
    "WRONG_VERSION_NUMBER": "the {} does not use TLS there",
}


def tls_fault(error: OSError, other: str = "server") -> str | None:
    """Return a description of a TLS error; None if ``error`` is not a TLS error.

    :param other: how the text calls the peer.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        refusal = error.verify_message.rstrip(".")
        trust = error.verify_code in _UNTRUSTED
        hint = "; name its authority with the option ca" if trust and other == "server" else ""
        return f"TLS: the {other}'s certificate is not accepted: {refusal}{hint}"
    if isinstance(error, ssl.SSLError):
        # Only OpenSSL's own errors have a reason; the text of others is that of a tuple.
        said = getattr(error, "reason", None) or error.strerror or " ".join(map(str, error.args))
        reason = said.upper().replace(" ", "_")
        if "UNEXPECTED_EOF" in reason:
            hint = "; it may not use TLS there" if other == "server" else ""
            return f"TLS: the {other} ended the handshake without a reason{hint}"
        known = next((words for part, words in _ALERTS.items() if part in reason), None)
        return f"TLS: {known.format(other) if known else said}"
    return None


def connect_fault(error: OSError, other: str = "server") -> str:
    """Return a description of why connecting failed: an error of TLS, name resolution or the operating system.

    :param other: how the text calls the peer.
    """
    tls = tls_fault(error, other)
    if tls is not None:
        return tls
    if isinstance(error, socket.gaierror):  # its errno is not one of the operating system's
        return error.strerror or str(error)
    if error.errno:
        return os.strerror(error.errno)
    return str(error) or "no answer in time"


def early_close_fault(why: object, *, over_tls: bool) -> str:
    """Return a text that suggests why a server closed a connection before its first response: it may require TLS, or a
    client certificate.

    :param why: how the connection ended; the text begins with it.
    :param over_tls: True if the connection used TLS.
    """
    if over_tls:
        return f"{why} without a reason; it may require a client certificate, or another one"
    return f"{why} without a reason; does it require TLS (the option tls)?"


_UNTRUSTED = (18, 19, 20, 21)
"""OpenSSL's verification error codes for a certificate chain whose root is not trusted."""
