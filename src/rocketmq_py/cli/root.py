"""The root command: its subcommands, its log level, and the display of errors.

Exit statuses are those of :class:`~rocketmq_py.cli.output.failures.Status`.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import logging
import os
import sys
from typing import Any

import click

from rocketmq_py import __version__
from rocketmq_py.cli.output.failures import CommandFailure, Status, failure_of
from rocketmq_py.cli.output.files import discard_output
from rocketmq_py.errors import RocketMQError

VERBS = {
    "access": "access",
    "archive": "archive.archive",
    "broker": "broker.commands",
    "cluster": "cluster",
    "console": "console",
    "consume": "consume",
    "context": "connect.context",
    "dlq": "dlq.commands",
    "doctor": "doctor.commands",
    "group": "group.commands",
    "health": "health",
    "message": "message.commands",
    "namesrv": "server.namesrv",
    "plan": "plan",
    "proxy": "server.proxy",
    "replay": "archive.replay",
    "serve": "server.serve",
    "spark": "spark",
    "store": "store",
    "topic": "topic.commands",
    "transaction": "transaction",
}
"""For each subcommand its module, relative to the package ``rocketmq_py.cli``."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of writes to a full disk, beyond a quota or a limit of file sizes."""


class Verbs(click.Group):
    """The click group of all subcommands; imports the module of a subcommand when it is used."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command = importlib.import_module(f"rocketmq_py.cli.{VERBS[name]}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a subcommand; the error for an unknown one suggests the most similar name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as e:
            near = difflib.get_close_matches(args[0], VERBS, n=1)
            if near:
                raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx) from e
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; print errors that a user can act on as one line, without a traceback."""
        try:
            return super().invoke(ctx)
        except RocketMQError as e:
            if ctx.params.get("debug"):
                raise
            raise failure_of(e) from e
        except KeyboardInterrupt:
            sys.exit(Status.INTERRUPTED)
        except BrokenPipeError:
            discard_output()
            sys.exit(Status.PIPE_CLOSED)
        except OSError as e:
            if ctx.params.get("debug"):
                raise
            if e.filename is not None:
                raise CommandFailure(f"{os.fsdecode(e.filename)} cannot be used: {e.strerror}") from e
            if e.errno not in NO_ROOM:
                raise
            discard_output()
            raise CommandFailure(f"standard output cannot be written: {e.strerror}") from e


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rocketmq")
@click.option("-v", "--verbose", count=True, help="Log more to standard error; -vv logs everything.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error instead of one line.")
@click.pass_context
def main(ctx: click.Context, verbose: int, debug: bool) -> None:
    """RocketMQ for Python: name server, broker and tools.

    Exit statuses: 0 success, 1 failure, 2 wrong usage or configuration, 3 not found, 4 unhealthy, 130 interrupted.
    """
    del debug  # Verbs.invoke reads it
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
