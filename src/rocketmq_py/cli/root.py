"""The root of the command: its verbs, how much it logs, and how an error looks to its user.

Exit statuses: 0 done, 1 what was asked for did not work out, 2 the command could not even begin (a wrong option, a port
in use, a locked store).
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

import click

from rocketmq_py import __version__
from rocketmq_py.errors import ConfigError, RocketMQError, StoreError

VERBS = ("namesrv", "serve", "store")
"""One module of this package each, with a ``command``."""


class Verbs(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command = importlib.import_module(f"rocketmq_py.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; an error a user can do something about is one line, not a traceback."""
        try:
            return super().invoke(ctx)
        except RocketMQError as e:
            kind = _Unusable if isinstance(e, ConfigError | StoreError) else _Failed
            raise kind(str(e)) from e


class _Unusable(click.ClickException):
    """The command could not even begin."""

    exit_code = 2


class _Failed(click.ClickException):
    """What was asked for did not work out."""

    exit_code = 1


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rocketmq")
@click.option("-v", "--verbose", count=True, help="Log more to standard error; twice for everything.")
def main(verbose: int) -> None:
    """RocketMQ for Python: name server, broker and tools."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
