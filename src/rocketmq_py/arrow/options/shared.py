"""Options of both reads and writes: name servers, security, timeouts, retries. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rocketmq_py.arrow.bad_records import Mode
from rocketmq_py.arrow.options.security import OPEN, Security
from rocketmq_py.arrow.options.values import Parse, addresses, boolean, natural, positive, words
from rocketmq_py.errors import ConfigError
from rocketmq_py.tls import TlsOptions
from rocketmq_py.wire.signing import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Options of every read and write: the base of :class:`ReadOptions` and :class:`WriteOptions`.

    :ivar namesrv: name servers, ``host:port``, separated by ``;`` or ``,``. Required.
    :ivar security: options ``tls`` (default false, or true when another of them is given), ``tlsCa``, ``tlsCert``,
        ``tlsKey``, ``tlsKeyPassword``, ``tlsVerify``, ``tlsCheckHostname`` as of :class:`~rocketmq_py.tls.TlsOptions`,
        and ``accessKey``, ``secretKey``, ``securityToken`` as of :class:`~rocketmq_py.wire.signing.Credentials`.
        Files are read on the driver and on every executor.
    :ivar request_timeout_ms: how long to wait for a response (default 10000).
    :ivar num_retries: attempts after the first one, with a growing pause, before a read or write fails (default 7).
    """

    namesrv: tuple[str, ...]
    security: Security = OPEN
    request_timeout_ms: int = 10_000
    num_retries: int = 7

    @property
    def timeout(self) -> float:
        """:attr:`request_timeout_ms` in seconds."""
        return self.request_timeout_ms / 1000


SHARED: dict[str, Parse] = {
    "namesrv": addresses,
    "requestTimeoutMs": positive,
    "numRetries": natural,
    "tls": boolean,
    "tlsCa": words,
    "tlsCert": words,
    "tlsKey": words,
    "tlsKeyPassword": words,
    "tlsVerify": boolean,
    "tlsCheckHostname": boolean,
    "accessKey": words,
    "secretKey": words,
    "securityToken": words,
}
SECRETS = frozenset({"tlsKeyPassword", "secretKey", "securityToken"})
"""Options whose values must not appear in error messages."""

_TLS = {
    "tls_ca": "ca",
    "tls_cert": "cert",
    "tls_key": "key",
    "tls_key_password": "key_password",
    "tls_verify": "verify",
    "tls_check_hostname": "check_hostname",
}


def take_security(given: dict[str, Any]) -> None:
    """Replace the options for TLS and signing in ``given`` by a single entry ``security``, if any is given.

    :param given: parsed values by option name in snake case; changed in place.
    :raises ConfigError: options contradict each other, or a required one is missing.
    """
    security = Security(tls=_tls(given), credentials=_credentials(given))
    if security != OPEN:
        given["security"] = security


def check_dlq_topic(given: Mapping[str, Any]) -> None:
    """Refuse option ``dlqTopic`` without ``mode=DLQ``.

    :raises ConfigError: ``dlqTopic`` is given and ``mode`` is not ``DLQ``.
    """
    if "dlq_topic" in given and given.get("mode") is not Mode.DLQ:
        raise ConfigError("option dlqTopic is of use with mode=DLQ only")


def _tls(given: dict[str, Any]) -> TlsOptions | None:
    wanted = given.pop("tls", None)
    given_tls = {name: given.pop(option) for option, name in _TLS.items() if option in given}
    if wanted is False and given_tls:
        raise ConfigError("option tls is false, but other TLS options are given: drop one or the other")
    if "key" in given_tls and "cert" not in given_tls:
        raise ConfigError("option tlsKey is of use with its certificate only: give tlsCert, too")
    return TlsOptions(**given_tls) if wanted or given_tls else None


def _credentials(given: dict[str, Any]) -> Credentials | None:
    access_key, secret_key = given.pop("access_key", None), given.pop("secret_key", None)
    token = given.pop("security_token", None)
    if access_key and secret_key:
        return Credentials(access_key, secret_key, token)
    if access_key or secret_key or token:
        missing = "secretKey" if access_key else "accessKey"
        raise ConfigError(f"option {missing} is missing: requests are signed with accessKey and secretKey together")
    return None
