"""Options several verbs share: settings by key, and files of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def settings_options(what: str) -> Callable[[F], F]:
    """``-c FILE`` and ``--set KEY=VALUE`` for the settings of ``what``."""

    def decorate(function: F) -> F:
        by_key = click.option(
            "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="One setting; wins over the file."
        )
        by_file = click.option(
            "-c",
            "--config",
            "config_file",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help=f"Settings of the {what}, in Apache RocketMQ's own keys.",
        )
        return by_file(by_key(function))

    return decorate


def assigned(assignments: Iterable[str]) -> dict[str, str]:
    """The settings of ``KEY=VALUE`` arguments."""
    found = {}
    for text in assignments:
        key, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not key:
            raise click.BadParameter(f"{text!r} is no setting: key=value is expected", param_hint="'--set'")
        found[key] = value
    return found


def ready(**addresses: str) -> None:
    """Print the one line that says what serves where, for people and for programs that wait for it."""
    click.echo("READY " + " ".join(f"{name}={address}" for name, address in addresses.items()))
