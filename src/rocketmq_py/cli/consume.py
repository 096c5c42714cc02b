"""``rocketmq consume``: run a message listener in a consumer group, in one or several processes."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from rocketmq_py.cli.connect.connect import Target, cluster_options
from rocketmq_py.cli.server.broker_plan import available_cores
from rocketmq_py.cli.server.logs import log_as, logging_options
from rocketmq_py.cli.supervisor import ChildProcess, end_of_input, python_command, running

if TYPE_CHECKING:
    from rocketmq_py import PushConsumer

MOST = 256
"""Maximum number of processes."""

_STARTS = {"latest": "LAST_OFFSET", "earliest": "FIRST_OFFSET"}


@click.command(name="consume", short_help="Run a listener as members of a group.")
@click.argument("listener", metavar="MODULE:LISTENER")
@click.option("--group", required=True, metavar="GROUP", help="Consumer group to join.")
@click.option("--topic", "topics", required=True, multiple=True, metavar="TOPIC", help="Topic to consume; repeatable.")
@click.option("--tags", default="*", show_default=True, metavar="'A || B'", help="Only messages with these tags.")
@click.option("--sql", metavar="EXPR", help="Only messages whose properties match.")
@click.option("--orderly", is_flag=True, help="One message of a queue at a time, in order.")
@click.option(
    "--batch", type=click.IntRange(1, 1024), default=1, show_default=True, metavar="N",
    help="Maximum messages per call; with more than 1 the function has two parameters (messages, context).",
)  # fmt: skip
@click.option("--threads", type=click.IntRange(1, 1000), default=20, show_default=True, metavar="N",
              help="Listener threads of each process.")  # fmt: skip
@click.option(
    "--from", "start", type=click.Choice(sorted(_STARTS)), default="latest", show_default=True,
    help="Where a group without offsets starts.",
)  # fmt: skip
@click.option(
    "--processes", metavar="N|auto", default="1", show_default=True, help="Members to run; auto for one per core."
)
@click.option("--supervised", is_flag=True, hidden=True)
@cluster_options
@logging_options
def command(
    processes: str, supervised: bool, log_level: str | None, log_format: str, target: Target, **options: Any
) -> None:
    """Run a listener as members of a consumer group until it is interrupted.

    LISTENER is a function of MODULE; the current directory is searched, too. It is called like a listener of
    PushConsumer, with one message, or with messages and a context if it has two parameters. Each process is a member of
    the group with a share of the queues, so there is work for as many processes as there are queues. A process that
    ends is started again.

    Prints READY group=GROUP processes=N when all have joined the group.
    """
    from rocketmq_py.server.runner import run

    count = _count(processes)
    log_as(log_level, log_format, str(os.getpid()) if supervised else "")
    load_listener(options["listener"])  # fails here, once, rather than in each process
    if count > 1:
        run(_supervise(options["group"], count, [*python_command(), *_arguments(), "--supervised"]))
    else:
        run(_consume(_consumer(target, options), supervised=supervised))


def _count(text: str) -> int:
    if text == "auto":
        return available_cores()
    if text.isdecimal() and 1 <= int(text) <= MOST:
        return int(text)
    raise click.BadParameter(f"{text} is neither a number from 1 to {MOST} nor auto", param_hint="'--processes'")


def load_listener(name: str) -> Callable[..., Any]:
    """Import and return the function that an argument ``MODULE:LISTENER`` names.

    The current directory is added to the module search path.

    :raises click.BadParameter: the argument has another form, or there is no such module or function.
    """
    module_name, separator, attribute = name.partition(":")
    hint = "'MODULE:LISTENER'"
    if not separator or not module_name or not attribute:
        raise click.BadParameter(f"{name!r}: module:function is expected", param_hint=hint)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # not removed again, because listeners may import later
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as e:
        raise click.BadParameter(f"there is no module {e.name!r}", param_hint=hint) from e
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise click.BadParameter(f"{module_name} has no function {attribute!r}", param_hint=hint)
    return found  # type: ignore[no-any-return]


def _arguments() -> list[str]:
    """Return the arguments with which this command was called, without ``--processes``, for its child processes."""
    context = click.get_current_context()
    words = [context.command.name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name == "processes" or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        words += _words(parameter, context.params[name])
    return words


def _words(parameter: click.Parameter, value: Any) -> list[str]:
    if isinstance(parameter, click.Argument):
        return [str(value)]
    if isinstance(value, bool):
        return [parameter.opts[0] if value else parameter.secondary_opts[0]]
    values = value if parameter.multiple else (value,)
    return [word for one in values for word in (parameter.opts[0], str(one))]


def _consumer(target: Target, options: Mapping[str, Any]) -> PushConsumer:
    """Return the consumer that this process runs, from the options of the command; it is not started."""
    from rocketmq_py import ConsumeFromWhere, PushConsumer

    consumer = PushConsumer(
        options["group"], target.namesrv, listener=load_listener(options["listener"]), orderly=options["orderly"],
        consume_batch_size=options["batch"], consume_threads=options["threads"],
        consume_from=ConsumeFromWhere[_STARTS[options["start"]]], address_map=target.address_map, tls=target.tls,
        credentials=target.credentials, timeout=target.timeout,
    )  # fmt: skip
    for topic in options["topics"]:
        consumer.subscribe(topic, options["tags"], sql=options["sql"])
    return consumer


async def _consume(consumer: PushConsumer, *, supervised: bool) -> None:
    try:
        await asyncio.to_thread(consumer.start)
        click.echo(f"READY group={consumer.group} processes=1")
        await (end_of_input(sys.stdin) if supervised else asyncio.Event().wait())
    finally:
        await asyncio.to_thread(consumer.close)


async def _supervise(group: str, count: int, arguments: list[str]) -> None:
    children = [ChildProcess(f"process {number + 1} of group {group}", lambda: arguments) for number in range(count)]
    async with running(children):
        click.echo(f"READY group={group} processes={count}")
        await asyncio.Event().wait()
