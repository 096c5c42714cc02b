"""``rocketmq topic``: list, create, update, describe, delete and tail topics."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_topic, with_admin
from rocketmq_py.cli.connect.listing import listing
from rocketmq_py.cli.output.failures import CommandFailure, missing
from rocketmq_py.cli.output.prompts import confirm, yes_option
from rocketmq_py.cli.output.tables import TABLE, Row, echo_record, echo_rows, output_option
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.cli.topic.tail import tail
from rocketmq_py.protocol.names import MESSAGE_TYPES, PERMISSIONS

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.protocol.bodies.topic import TopicConfig

QUEUE_COLUMNS = ("broker", "queue", "minOffset", "maxOffset", "messages", "lastStored")


@click.group(name="topic")
def command() -> None:
    """Topics: list, create, update, describe, delete, tail."""


command.add_command(tail)


# -- ls


@command.command("ls")
@click.argument("pattern", required=False)
@click.option("-a", "--all", "everything", is_flag=True, help="Also list retry, dead-letter and system topics.")
@cluster_options
@output_option
def list_(pattern: str | None, everything: bool, target: Target, output: str) -> None:
    """List topics; PATTERN is a name with * and ?. Exit status 4 when a broker does not answer."""

    async def work(admin: Admin) -> list[Row]:
        configs, system = await asyncio.gather(admin.topic_configs(), admin.system_topics())
        hidden = frozenset() if everything else frozenset(system)
        return [topic_row(name, config) for name, config in configs.items() if is_listed(name, pattern, hidden)]

    with listing(target) as query:
        columns = ("topic", "brokers", "readQueues", "writeQueues", "perm", "type")
        echo_rows(query.run(work), output, columns)


def is_listed(name: str, pattern: str | None, system: Collection[str]) -> bool:
    """Return whether ``topic ls`` shows a topic: system, retry and dead-letter topics only if ``pattern`` names them.

    :param pattern: shell pattern of the name; None for every name.
    :param system: system topics as the brokers report them; if empty, no topic is hidden.
    """
    from rocketmq_py.protocol.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic

    if pattern is not None and not fnmatch.fnmatchcase(name, pattern):
        return False
    named = pattern is not None and pattern[:1] not in ("*", "?", "[")
    hidden = name in system or name.startswith((RETRY_PREFIX, DLQ_PREFIX)) or is_system_topic(name)
    return not system or named or not hidden


def topic_row(name: str, by_broker: dict[str, TopicConfig]) -> Row:
    """Return the output row of ``topic ls`` for a topic; numbers of queues are sums over all brokers.

    :param by_broker: the topic's configuration by broker name.
    """
    configs = list(by_broker.values())
    return {
        "topic": name,
        "brokers": sorted(by_broker),
        "readQueues": sum(config.read_queue_nums for config in configs),
        "writeQueues": sum(config.write_queue_nums for config in configs),
        "perm": "/".join(sorted({permission(config.perm) for config in configs})),
        "type": "/".join(sorted({message_type(config) for config in configs})),
    }


def permission(perm: int) -> str:
    """Return a permission number as ``rw``, ``r``, ``w`` or ``none``."""
    return ("r" if perm & 4 else "") + ("w" if perm & 2 else "") or "none"


def message_type(config: TopicConfig) -> str:
    """Return the message type that a topic's attributes declare; NORMAL if they declare none."""
    return config.attributes.get("message.type", "NORMAL")


# -- create and update


def _attributes(function: Any) -> Any:
    options = (
        click.option("--type", "kind", type=click.Choice(MESSAGE_TYPES, case_sensitive=False), help="Message type."),
        click.option("--attribute", "attributes", metavar="NAME=VALUE", multiple=True,
                     help="A topic attribute; NAME= removes it."),
        click.option("--read-queues", type=click.IntRange(min=1), metavar="N", help="Readable queues on each broker."),
        click.option("--write-queues", type=click.IntRange(min=1), metavar="N", help="Writable queues on each broker."),
        click.option("--perm", type=click.Choice(tuple(PERMISSIONS)), help="Permission of clients."),
        click.option("--order/--no-order", default=None, help="Whether the topic is for ordered messages."),
        click.option("--broker", "brokers", metavar="NAME", multiple=True, help="Only on this broker."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def parse_attributes(kind: str | None, assignments: tuple[str, ...]) -> dict[str, str | None]:
    """Return topic attributes from the options ``--type`` and ``--attribute``; the value None removes an attribute.

    :raises click.BadParameter: an argument has no name or no ``=``.
    """
    found: dict[str, str | None] = {"message.type": kind.upper()} if kind else {}
    for text in assignments:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{text!r} is no attribute NAME=VALUE", param_hint="'--attribute'")
        found[name.strip()] = value.strip() or None
    return found


@command.command("create")
@click.argument("topic")
@click.option("-q", "--queues", type=click.IntRange(min=1), default=8, show_default=True, metavar="N",
              help="Queues on each broker.")  # fmt: skip
@_attributes
@click.option("--cluster", metavar="NAME", help="Only on brokers of this cluster.")
@click.option("--if-not-exists", is_flag=True, help="Succeed without a change if the topic exists.")
@cluster_options
def create(  # noqa: PLR0913, PLR0917 - one for each option
    topic: str, queues: int, kind: str | None, attributes: tuple[str, ...], perm: str | None, order: bool | None,
    brokers: tuple[str, ...], cluster: str | None, if_not_exists: bool, target: Target, **numbers: int | None,
) -> None:  # fmt: skip
    """Create a topic on every master of the cluster."""
    from rocketmq_py.errors import NoRouteError

    async def work(admin: Admin) -> bool:
        try:
            await admin.route(topic)
        except NoRouteError:
            await admin.create_topic(
                topic, queues, PERMISSIONS[perm or "rw"], order=bool(order), cluster=cluster,
                attributes=parse_attributes(kind, attributes), brokers=brokers or None, **numbers,
            )  # fmt: skip
            return True
        return False

    if with_admin(target, work):
        click.echo(f"created topic {topic}")
    elif not if_not_exists:
        raise CommandFailure(f"topic {topic} exists already; change it with 'rocketmq topic update'")


@command.command("update")
@click.argument("topic", shell_complete=complete_topic)
@click.option("-q", "--queues", type=click.IntRange(min=1), metavar="N", help="Queues on each broker.")
@_attributes
@cluster_options
def update(  # noqa: PLR0913, PLR0917 - one for each option
    topic: str, queues: int | None, kind: str | None, attributes: tuple[str, ...], perm: str | None,
    order: bool | None, brokers: tuple[str, ...], target: Target, read_queues: int | None, write_queues: int | None,
) -> None:  # fmt: skip
    """Change a topic; settings without an option keep their value on each broker."""
    changed = parse_attributes(kind, attributes)

    async def work(admin: Admin) -> None:
        configs = await _existing(admin, topic)
        unknown = sorted(set(brokers) - configs.keys())
        if unknown:
            raise missing(f"topic {topic} is not on {', '.join(unknown)}", f"It is on {', '.join(sorted(configs))}")
        for broker, now in configs.items():
            if brokers and broker not in brokers:
                continue
            await admin.create_topic(
                topic,
                perm=now.perm if perm is None else PERMISSIONS[perm],
                read_queues=read_queues or queues or now.read_queue_nums,
                write_queues=write_queues or queues or now.write_queue_nums,
                order=now.order if order is None else order,
                attributes=changed,
                brokers=[broker],
            )

    with_admin(target, work)
    click.echo(f"updated topic {topic}")


async def _existing(admin: Admin, topic: str) -> dict[str, TopicConfig]:
    from rocketmq_py.errors import NoRouteError

    try:
        found = await admin.topic_config(topic)
    except NoRouteError as e:
        raise missing(f"there is no topic {topic}", "'rocketmq topic ls' lists them") from e
    if not found:
        raise missing(f"the name server has a route of topic {topic}, but no broker has the topic")
    return found


# -- describe


@command.command("describe")
@click.argument("topic", shell_complete=complete_topic)
@cluster_options
@output_option
def describe(topic: str, target: Target, output: str) -> None:
    """Show a topic: its brokers, its queues with their offsets, and its consumer groups.

    Exit status 4 when a broker does not answer; the answers of the other brokers are shown.
    """
    with listing(target) as query:
        found = query.run(lambda admin: description(admin, topic))
        if output == TABLE:
            _echo_description(found)
        else:
            echo_record(found, output)


def _echo_description(found: Row) -> None:
    queues = [{**row, "lastStored": show_time(row["lastStored"])} for row in found["queues"]]
    short = {"topic": found["topic"], "messages": found["messages"], "groups": found["groups"]}
    echo_record(short, TABLE)
    click.echo()
    echo_rows(found["brokers"], TABLE)
    click.echo()
    echo_rows(queues, TABLE, QUEUE_COLUMNS)


async def description(admin: Admin, topic: str) -> Row:
    """Return brokers, queues and consumer groups of a topic, as ``topic describe`` shows them.

    :raises CommandFailure: there is no such topic; exit status 3.
    """
    configs = await _existing(admin, topic)
    stats, groups, route = await asyncio.gather(admin.topic_stats(topic), admin.topic_groups(topic), admin.route(topic))
    queues: list[Row] = [
        {
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "minOffset": extent.min_offset,
            "maxOffset": extent.max_offset,
            "messages": extent.max_offset - extent.min_offset,
            "lastStored": extent.last_update_timestamp,
        }
        for queue, extent in stats.items()
    ]
    brokers: list[Row] = [
        {
            "broker": broker,
            "address": next(iter(route.brokers.get(broker, {}).values()), None),
            "readQueues": config.read_queue_nums,
            "writeQueues": config.write_queue_nums,
            "perm": permission(config.perm),
            "order": config.order,
            "attributes": config.attributes,
        }
        for broker, config in configs.items()
    ]
    messages = sum(row["messages"] for row in queues)
    return {"topic": topic, "messages": messages, "groups": groups, "brokers": brokers, "queues": queues}


# -- delete


@command.command("delete")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topic)
@yes_option
@cluster_options
def delete(topics: tuple[str, ...], yes: bool, target: Target) -> None:
    """Delete topics with their messages and their groups' offsets."""
    for topic in topics:
        _delete(target, topic, yes=yes)


def _delete(target: Target, topic: str, *, yes: bool) -> None:
    found = with_admin(target, lambda admin: description(admin, topic))
    confirm(
        f"Delete topic {topic} with {found['messages']} messages, consumed by {len(found['groups'])} groups?", yes=yes
    )
    with_admin(target, lambda admin: admin.delete_topic(topic))
    click.echo(f"deleted topic {topic}")
