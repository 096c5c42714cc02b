"""TLS of a server: settings under Java's names, and the TLS context of new connections."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Protocol, Self

import msgspec

from rocketmq_py.core import java_config
from rocketmq_py.errors import ConfigError
from rocketmq_py.server.self_signed import SelfSignedCertificate, new_server_context
from rocketmq_py.tls import TlsOptions, load_authorities, load_certificate

_log = logging.getLogger(__name__)

PREFIX = "tls."
"""Prefix of the settings keys of TLS."""

CONFIG_FILE = "tls.config.file"
DEFAULT_CONFIG_FILE = "/etc/rocketmq/tls.properties"

_NOT_IN_FILE = ("tls.server.mode", "tls.enable", CONFIG_FILE)
TEST_MODE = "tls.test.mode.enable"

Stamp = tuple[tuple[int, int] | None, ...]


class TlsMode(Enum):
    """Which connections a server accepts: without TLS (disabled), both (permissive) or only with TLS (enforcing)."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientAuth(Enum):
    """Whether a server requests a certificate from its clients (optional), and refuses clients without (require)."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Java's system properties ``tls.*``, with a field for each.

    Without a certificate, a server in permissive mode generates one (``server.self_signed``), as a Java broker does. In
    enforcing mode it does so only with ``tls.test.mode.enable=true``.

    :param test_mode: whether a certificate is generated if none is configured; None: only in permissive mode.
    :param enable: whether this server's requests to other servers use TLS; None: only in enforcing mode, as in Java.
    :param server_need_client_auth: whether clients are asked for a certificate, or must have one.
    :param server_auth_client: whether client certificates are verified; needs ``server_trust_cert_path``.
    :param client_auth_server: whether this server, as a client of other servers, verifies their certificates.
    """

    server_mode: TlsMode = TlsMode.PERMISSIVE
    test_mode: bool | None = None
    server_key_path: str = ""
    server_key_password: str = ""
    server_cert_path: str = ""
    server_need_client_auth: ClientAuth = ClientAuth.NONE
    server_auth_client: bool = False
    server_trust_cert_path: str = ""
    enable: bool | None = None
    client_key_path: str = ""
    client_key_password: str = ""
    client_cert_path: str = ""
    client_auth_server: bool = False
    client_trust_cert_path: str = ""

    def __post_init__(self) -> None:
        if self.server_mode is TlsMode.ENFORCING and not self.server_cert_path and not self.generates_certificate:
            raise ConfigError(
                "tls.server.mode is enforcing but there is no certificate: set tls.server.certPath, or "
                f"{TEST_MODE}=true for a self-signed one"
            )
        if self.server_key_path and not self.server_cert_path:
            raise ConfigError("tls.server.keyPath is of no use without tls.server.certPath")
        asked = self.server_need_client_auth is not ClientAuth.NONE
        if asked and not (self.server_auth_client and self.server_trust_cert_path):
            raise ConfigError(
                f"tls.server.need.client.auth is {self.server_need_client_auth.value}, but nothing says which "
                "certificates are good: set tls.server.authClient=true and tls.server.trustCertPath"
            )

    def __repr__(self) -> str:
        return f"TlsSettings(server_mode={self.server_mode.value}, server_cert_path={self.server_cert_path!r})"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Parse keys and values, and those in the file that ``tls.config.file`` names; as in Java, the file wins.

        :raises ConfigError: a key is unknown or has no effect here, a value or a combination of values is invalid, or
            the file cannot be read.
        """
        given = {**settings, **_from_file(settings.get(CONFIG_FILE))}
        faults = [_FROM_OPENSSL.format(key) for key in OF_OPENSSL if given.get(key)]
        faults += [java_config.unknown_key(key, KEYS) for key in given if key not in KEYS]
        if faults:
            raise ConfigError("; ".join(faults))
        fields: dict[str, Any] = {_KEYS[key]: _value(key, text) for key, text in given.items() if key in _KEYS}
        return cls(**fields)

    @property
    def generates_certificate(self) -> bool:
        """True if the server uses a self-signed certificate that it generates."""
        by_default = self.server_mode is TlsMode.PERMISSIVE
        is_asked = self.test_mode if self.test_mode is not None else by_default
        return is_asked and not self.server_cert_path and self.server_mode is not TlsMode.DISABLED

    @property
    def serves_tls(self) -> bool:
        """True if the server accepts connections with TLS."""
        has_certificate = bool(self.server_cert_path) or self.generates_certificate
        return self.server_mode is not TlsMode.DISABLED and has_certificate

    def check_talks_to_itself(self) -> None:
        """Check that a broker can connect to a name server with the same settings.

        :raises ConfigError: clients must have a certificate, and the broker has none as a client.
        """
        asks = self.serves_tls and self.server_need_client_auth is ClientAuth.REQUIRE
        if asks and self.speaks_tls and not self.client_cert_path:
            raise ConfigError(
                "the name server asks its clients, the broker among them, for a certificate: set tls.client.certPath "
                "and tls.client.keyPath, which may be those of the server if the same authority has issued them"
            )

    @property
    def speaks_tls(self) -> bool:
        """True if this server's requests to other servers use TLS."""
        return self.enable if self.enable is not None else self.server_mode is TlsMode.ENFORCING

    def client_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for this server's requests to other servers; None if they do not use TLS.

        :raises ConfigError: a file is missing or invalid.
        """
        if not self.speaks_tls:
            return None
        return TlsOptions(
            ca=self.client_trust_cert_path or None, cert=self.client_cert_path or None,
            key=self.client_key_path or None, key_password=self.client_key_password or None,
            verify=self.client_auth_server, check_hostname=False,
        ).context()  # fmt: skip


_KEYS = {
    "tls.server.mode": "server_mode",
    "tls.server.keyPath": "server_key_path",
    "tls.server.keyPassword": "server_key_password",
    "tls.server.certPath": "server_cert_path",
    "tls.server.need.client.auth": "server_need_client_auth",
    "tls.server.authClient": "server_auth_client",
    "tls.server.trustCertPath": "server_trust_cert_path",
    TEST_MODE: "test_mode",
    "tls.enable": "enable",
    "tls.client.keyPath": "client_key_path",
    "tls.client.keyPassword": "client_key_password",
    "tls.client.certPath": "client_cert_path",
    "tls.client.authServer": "client_auth_server",
    "tls.client.trustCertPath": "client_trust_cert_path",
}

OF_OPENSSL = ("tls.ciphers", "tls.protocols")
_FROM_OPENSSL = "{} has no effect here: ciphers and protocols are those of OpenSSL's own configuration"

KEYS = frozenset({*_KEYS, *OF_OPENSSL, CONFIG_FILE})
"""All settings keys of TLS."""

_KINDS: dict[str, type] = {
    "server_mode": TlsMode, "server_need_client_auth": ClientAuth, "server_auth_client": bool, "enable": bool,
    "client_auth_server": bool, "test_mode": bool,
}  # fmt: skip


def split(settings: Mapping[str, str]) -> tuple[dict[str, str], TlsSettings]:
    """Return the settings without the keys of TLS, and the parsed settings of TLS. Errors as :meth:`TlsSettings.of`."""
    others = {key: text for key, text in settings.items() if not key.startswith(PREFIX)}
    return others, TlsSettings.of({key: text for key, text in settings.items() if key.startswith(PREFIX)})


def _value(key: str, text: str) -> object:
    kind = _KINDS.get(_KEYS[key])
    if kind is None:
        return text
    if kind is bool:
        fault = java_config.value_fault(key, text, bool)
        if fault:
            raise ConfigError(fault)
        return text.lower() == "true"
    try:
        return kind(text.strip().lower())
    except ValueError:
        raise ConfigError(f"{key} is {text!r}: {', '.join(one.value for one in kind)} are possible") from None  # type: ignore[attr-defined]


def _from_file(named: str | None) -> dict[str, str]:
    """Return the settings in a file, without the keys in ``_NOT_IN_FILE``, which are not read from files.

    :param named: the file; None for Java's default file, which may be missing.
    """
    path = Path(named or DEFAULT_CONFIG_FILE).expanduser()
    if named is None and not path.is_file():
        return {}
    try:
        found = java_config.read_properties(
            java_config.split_lines(java_config.decode_text(path.read_bytes())[0]), strict=False
        )
    except OSError as e:
        raise ConfigError(f"{CONFIG_FILE}: {path} cannot be read: {e.strerror}") from e
    return {key: text for key, text in found.items() if key not in _NOT_IN_FILE}


class TlsContexts(Protocol):
    """Provides the TLS context of each new connection."""

    async def context(self) -> ssl.SSLContext | None:
        """Return the context for a new connection; None if the connection must be refused."""


def tls_contexts(settings: TlsSettings) -> TlsContexts | None:
    """Return the provider of a server's TLS contexts; None if the server does not accept TLS.

    :raises ConfigError: a file is missing or invalid.
    """
    if not settings.serves_tls:
        return None
    if settings.generates_certificate:
        return SelfSignedCertificate(lambda context: _add_client_auth(context, settings))
    return CertificateFiles(settings)


class CertificateFiles:
    """Provides a TLS context with configured certificate files, which are loaded again when one of them has changed.

    :raises ConfigError: a file is missing or invalid.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._files = [
            Path(path).expanduser()
            for path in (settings.server_cert_path, settings.server_key_path, settings.server_trust_cert_path)
            if path
        ]
        self._stamp = self._look()
        self._context = server_context(settings)

    async def context(self) -> ssl.SSLContext:
        """Return the context for a new connection; load the files again first if one has changed.

        If changed files cannot be used, that is logged once and the previous context stays in use.
        """
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = server_context(self._settings)
            except ConfigError as e:
                _log.error("the changed certificate is not taken over, the one before stays in use: %s", e)
            else:
                _log.info("the changed certificate %s is in use now", self._settings.server_cert_path)
        return self._context

    def _look(self) -> Stamp:
        return tuple(_file_stamp(path) for path in self._files)


def _file_stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a server's TLS context with the configured certificate and verification of clients.

    :raises ConfigError: a file is missing or invalid.
    """
    context = new_server_context()
    load_certificate(
        context, settings.server_cert_path, settings.server_key_path or None, settings.server_key_password or None
    )
    _add_client_auth(context, settings)
    return context


def _add_client_auth(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Set in a context whether client certificates are requested, and which authorities they are verified with.

    :raises ConfigError: the file of authorities is missing or invalid.
    """
    if settings.server_auth_client and settings.server_trust_cert_path:
        load_authorities(context, settings.server_trust_cert_path)
    if settings.server_need_client_auth is ClientAuth.OPTIONAL:
        context.verify_mode = ssl.CERT_OPTIONAL
    elif settings.server_need_client_auth is ClientAuth.REQUIRE:
        context.verify_mode = ssl.CERT_REQUIRED
