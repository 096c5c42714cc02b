"""The options of commands that can serve metrics and health on a port of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def monitoring_options(function: F) -> F:
    """Add the options ``--metrics-port`` and ``--metrics-host`` to a command."""
    port = click.option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        metavar="PORT",
        help="Also serve /metrics, /livez, /readyz and /startupz, on this port; 0 picks a free one.",
    )
    host = click.option(
        "--metrics-host", default="127.0.0.1", show_default=True, metavar="H", help="Address of that port."
    )
    return port(host(function))
