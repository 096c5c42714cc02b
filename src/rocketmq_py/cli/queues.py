"""Parsing of arguments that name message queues."""

from __future__ import annotations

import click


def parse_queues(texts: tuple[str, ...]) -> set[tuple[str, int]]:
    """Return the broker name and queue id of each argument ``BROKER:N``.

    :raises click.BadParameter: an argument has another form.
    """
    found = set()
    for text in texts:
        broker, _, number = text.rpartition(":")
        if not broker or not number.isdigit():
            raise click.BadParameter(f"{text!r} is no queue BROKER:N, for example broker-a:0", param_hint="'--queue'")
        found.add((broker, int(number)))
    return found
