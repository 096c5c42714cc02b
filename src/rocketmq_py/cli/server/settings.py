"""Options of the server commands for settings by key, settings files, TLS and drain."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from rocketmq_py.errors import shortened

_log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


def settings_options(what: str) -> Callable[[F], F]:
    """Return a decorator that adds ``-c FILE`` and ``--set KEY=VALUE`` to a command.

    :param what: the server, for the help text.
    """

    def decorate(function: F) -> F:
        by_key = click.option(
            "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="One setting; overrides the file."
        )
        by_file = click.option(
            "-c",
            "--config",
            "config_file",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help=f"File with settings of the {what}, with Apache RocketMQ's keys.",
        )
        return by_file(by_key(function))

    return decorate


_TLS = {
    "tls_mode": "tls.server.mode", "tls_cert": "tls.server.certPath", "tls_key": "tls.server.keyPath",
    "tls_ca": "tls.server.trustCertPath",
}  # fmt: skip


def tls_options(function: F) -> F:
    """Add the options for common TLS settings; the command gets the settings by key in ``tls_assignments``."""

    @functools.wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        given = {key: str(value) for name, key in _TLS.items() if (value := options.pop(name)) is not None}
        if "tls.server.trustCertPath" in given:
            given |= {"tls.server.authClient": "true", "tls.server.need.client.auth": "require"}
        return function(*args, tls_assignments=given, **options)

    decorated = (
        click.option("--tls-cert", metavar="FILE", help="Serve TLS with this certificate and its chain, PEM."),
        click.option("--tls-key", metavar="FILE", help="Its private key.  [default: in the certificate's file]"),
        click.option(
            "--tls-ca", metavar="FILE", help="Require a client certificate from one of these authorities, PEM."
        ),
        click.option(
            "--tls-mode",
            type=click.Choice(["disabled", "permissive", "enforcing"]),
            help="Whether the server accepts connections without TLS.  [default: permissive]",
        ),
    )
    for option in reversed(decorated):
        command = option(command)
    return command  # type: ignore[return-value]


def drain_option(function: F) -> F:
    """Add the option ``--drain SECONDS``; the command gets the broker's settings by key in ``drain_assignments``."""

    @functools.wraps(function)
    def command(*args: Any, drain: int | None, **options: Any) -> Any:
        assignments = {} if drain is None else {
            "enableShutdownGracefully": str(drain > 0).lower(), "shutdownWaitTimeSeconds": str(drain),
        }  # fmt: skip
        return function(*args, drain_assignments=assignments, **options)

    option = click.option(
        "--drain",
        metavar="SECONDS",
        type=click.IntRange(min=0),
        help="Before shutdown, redirect producers to other brokers for at most this long.  [default: 0]",
    )
    return option(command)  # type: ignore[return-value]


def assigned(assignments: Iterable[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` arguments; of a key that is given twice, the last value counts.

    :raises click.BadParameter: an argument has another form.
    """
    found = {}
    for text in assignments:
        key, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not key:
            raise click.BadParameter(f"{text!r} is not a setting: key=value is expected", param_hint="'--set'")
        found[key] = value
    return found


def without_unknown(settings: dict[str, str], is_known: Callable[[str], bool]) -> dict[str, str]:
    """Return the settings of a file without unknown keys, and log one warning that lists these.

    Java's servers ignore unknown keys silently, so old files contain some. On the command line they are errors.
    """
    unknown = sorted(key for key in settings if not is_known(key))
    if unknown:
        _log.warning("settings that no RocketMQ server has, without effect: %s", ", ".join(map(shortened, unknown)))
    return {key: text for key, text in settings.items() if key not in unknown}


def ready(**addresses: str) -> None:
    """Print the READY line with the addresses of the servers, from which programs see that they have started."""
    click.echo("READY " + " ".join(f"{name}={address}" for name, address in addresses.items()))


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine reach an address to listen on."""
    return host in ("localhost", "::1") or host.startswith("127.")
