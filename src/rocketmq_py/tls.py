"""TLS of an outgoing connection: what a program says about it, and the context that follows.

Knows certificates and how OpenSSL's and the system's complaints are said in words. Refuses to know what travels over a
connection.
"""

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
    """How servers are reached over TLS.

    :param ca: PEM file of the authorities that are trusted; None trusts those of the system.
    :param cert: PEM file of this side's certificate and its chain, for servers that ask for one.
    :param key: PEM file of its private key; None when it is in ``cert``.
    :param key_password: opens the private key.
    :param verify: whether the server's certificate is checked; Java's clients do not unless told to
        (tls.client.authServer).
    :param check_hostname: whether it must be made out to the host or address that is connected to, too.
    """

    ca: str | os.PathLike[str] | None = None
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """What :mod:`ssl` needs.

        :raises ConfigError: a file is missing or is not what it should be.
        """
        if self.key is not None and self.cert is None:
            raise ConfigError("a TLS key is of use with its certificate only: give cert, too")
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
"""True: the system's authorities are trusted. None and False: no TLS."""


def client_context(tls: Tls) -> ssl.SSLContext | None:
    """The context of what a program said about TLS; None for none.

    :raises ConfigError: it cannot work.
    """
    if isinstance(tls, ssl.SSLContext):
        return tls
    if isinstance(tls, TlsOptions):
        return tls.context()
    if tls is None or isinstance(tls, bool):
        return TlsOptions().context() if tls else None
    raise ConfigError(f"tls is {type(tls).__name__}: True, TlsOptions or an ssl.SSLContext is expected")


def load_authorities(context: ssl.SSLContext, ca: str | os.PathLike[str]) -> None:
    """Trust the authorities of a PEM file.

    :raises ConfigError: the file is missing or is not what it should be.
    """
    try:
        context.load_verify_locations(Path(ca).expanduser())
    except OSError as e:  # ssl's errors are some, too
        raise ConfigError(f"TLS: no trusted certificates can be read from {ca}: {_file_fault(e)}") from e


def load_certificate(
    context: ssl.SSLContext,
    cert: str | os.PathLike[str],
    key: str | os.PathLike[str] | None,
    password: str | None,
) -> None:
    """Use a certificate and its private key.

    :raises ConfigError: a file is missing or is not what it should be, or they do not belong together.
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
    "CERTIFICATE_REQUIRED": "the {} asks for a certificate of ours: give cert and key",
    "NOT_RETURN_A_CERTIFICATE": "the {} gave no certificate, and one is asked for",
    "ALERT_UNKNOWN_CA": "the {} does not trust our certificate's authority",
    "ALERT_BAD_CERTIFICATE": "the {} does not accept our certificate",
    "ALERT_CERTIFICATE_EXPIRED": "our certificate has expired",
    "ALERT_HANDSHAKE_FAILURE": "the {} refuses the handshake; it may ask for a certificate of ours",
    "WRONG_VERSION_NUMBER": "the {} does not speak TLS there",
}


def tls_fault(error: OSError, other: str = "server") -> str | None:
    """What an error of TLS means, in words; None for an error of another kind.

    :param other: what the other end is to this one.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        said = error.verify_message.rstrip(".")
        trust = error.verify_code in _UNTRUSTED
        hint = "; name its authority with the option ca" if trust and other == "server" else ""
        return f"TLS: the {other}'s certificate is not accepted: {said}{hint}"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).upper().replace(" ", "_")
        if "UNEXPECTED_EOF" in reason:
            hint = "; it may not speak TLS there" if other == "server" else ""
            return f"TLS: the {other} ended the handshake without a word{hint}"
        known = next((words for part, words in _ALERTS.items() if part in reason), None)
        return f"TLS: {known.format(other) if known else error.reason or error}"
    return None


def connect_fault(error: OSError, other: str = "server") -> str:
    """Why no connection could be made, in words: of TLS, of the look-up of a name, or of the system.

    :param other: what the other end is to this one.
    """
    tls = tls_fault(error, other)
    if tls is not None:
        return tls
    if isinstance(error, socket.gaierror):  # its numbers are not the system's
        return error.strerror or str(error)
    if error.errno:
        return os.strerror(error.errno)
    return str(error) or "no answer in time"


def closed_without_a_word(why: object, *, over_tls: bool) -> str:
    """Why a server may close a connection before its first answer: it speaks TLS, or another kind of it.

    :param why: how the connection ended.
    :param over_tls: the connection spoke TLS.
    """
    if over_tls:
        return f"{why} without a word; it may ask for a certificate of ours, or for another one"
    return f"{why} without a word; does it ask for TLS (the option tls)?"


_UNTRUSTED = (18, 19, 20, 21)
"""OpenSSL's codes for a chain that ends at an authority nobody named."""
