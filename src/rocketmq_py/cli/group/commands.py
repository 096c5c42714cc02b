"""``rocketmq group``: list, describe, reset and delete consumer groups."""

from __future__ import annotations

import asyncio
import fnmatch
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_group, with_admin
from rocketmq_py.cli.connect.listing import listing
from rocketmq_py.cli.group.lag import lag
from rocketmq_py.cli.group.lookup import existing_group
from rocketmq_py.cli.group.reset import reset
from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.cli.output.prompts import confirm, yes_option
from rocketmq_py.cli.output.tables import TABLE, Row, echo_record, echo_rows, output_option

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.protocol.bodies.client import ConsumerConnection
    from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig

MAX_CONCURRENT_GROUPS = 16
"""Maximum number of groups that one command queries at the same time."""

_TYPES = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull", "CONSUME_POP": "pop"}
_MODELS = {"CLUSTERING": "clustering", "BROADCASTING": "broadcasting", "LITE_SELECTIVE": "lite"}


@click.group(name="group")
def command() -> None:
    """Consumer groups: ls, describe, lag, reset, delete."""


command.add_command(lag)
command.add_command(reset)


# -- ls


@command.command("ls")
@click.argument("pattern", required=False)
@click.option("-a", "--all", "everything", is_flag=True, help="Also list the brokers' own system groups.")
@cluster_options
@output_option
def list_(pattern: str | None, everything: bool, target: Target, output: str) -> None:
    """List consumer groups; PATTERN is a name with * and ?. Exit status 4 when a broker does not answer."""

    async def work(admin: Admin) -> list[Row]:
        names = [name for name in await admin.groups() if is_listed(name, pattern, everything)]
        limit = asyncio.Semaphore(MAX_CONCURRENT_GROUPS)
        return list(await asyncio.gather(*(_row(admin, name, limit) for name in names)))

    with listing(target) as query:
        echo_rows(query.run(work), output, ("group", "members", "type", "model", "topics", "lag"))


def is_listed(name: str, pattern: str | None, everything: bool) -> bool:
    """Return whether ``group ls`` shows a group.

    :param pattern: shell pattern of the name; None for every name.
    :param everything: show system groups, too.
    """
    from rocketmq_py.protocol.names import is_system_group

    if pattern is not None and not fnmatch.fnmatchcase(name, pattern):
        return False
    return everything or not is_system_group(name)


async def _row(admin: Admin, group: str, limit: asyncio.Semaphore) -> Row:
    async with limit:
        members, progress = await asyncio.gather(admin.members(group), admin.progress(group))
    return {
        "group": group,
        "members": len(members.connection_set) if members else 0,
        **consumption(members),
        "topics": sorted({queue.topic for queue in progress} | set(members.subscription_table if members else ())),
        "lag": sum(state.lag for state in progress.values()),
    }


def consumption(members: ConsumerConnection | None) -> Row:
    """Return how the members of a group consume, as fields ``type`` (push, pull, pop) and ``model``.

    Both are None if no member is connected.
    """
    if members is None:
        return {"type": None, "model": None}
    kind, model = members.consume_type or "", members.message_model or ""
    return {"type": _TYPES.get(kind, kind) or None, "model": _MODELS.get(model, model) or None}


# -- describe


@command.command("describe")
@click.argument("group", shell_complete=complete_group)
@cluster_options
@output_option
def describe(group: str, target: Target, output: str) -> None:
    """Show a consumer group: its settings, members, subscriptions and lag.

    Exit status 4 when a broker does not answer; the answers of the other brokers are shown.
    """
    with listing(target) as query:
        found = query.run(lambda admin: description(admin, group))
        if output == TABLE:
            _echo_description(found)
        else:
            echo_record(found, output)


def _echo_description(found: Row) -> None:
    echo_record({name: value for name, value in found.items() if not isinstance(value, list)}, TABLE)
    for name in ("brokers", "members", "subscriptions", "topics"):
        click.echo()
        if found[name]:
            echo_rows(found[name], TABLE)
        else:
            click.echo(f"no {name}")


async def description(admin: Admin, group: str) -> Row:
    """Return settings, members, subscriptions and lag of a group, as ``group describe`` shows them.

    :raises CommandFailure: no broker has the group; exit status 3.
    """
    configs = await existing_group(admin, group)
    members, progress = await asyncio.gather(admin.members(group), admin.progress(group))
    lag_by_topic: dict[str, int] = {}
    for queue, state in progress.items():
        lag_by_topic[queue.topic] = lag_by_topic.get(queue.topic, 0) + state.lag
    return {
        "group": group,
        **consumption(members),
        "startsFrom": members.consume_from_where if members else None,
        "lag": sum(lag_by_topic.values()),
        "brokers": [config_row(broker, config) for broker, config in configs.items()],
        "members": member_rows(members),
        "subscriptions": subscription_rows(members),
        "topics": [{"topic": topic, "lag": count} for topic, count in sorted(lag_by_topic.items())],
    }


def config_row(broker: str, config: SubscriptionGroupConfig) -> Row:
    """Return an output row with the settings of a group on one broker."""
    return {
        "broker": broker,
        "consumeEnable": config.consume_enable,
        "broadcastEnable": config.consume_broadcast_enable,
        "orderly": config.consume_message_orderly,
        "retryMaxTimes": config.retry_max_times,
        "retryQueues": config.retry_queue_nums,
    }


def member_rows(members: ConsumerConnection | None) -> list[Row]:
    """Return an output row for each connected member."""
    from rocketmq_py.protocol.codes import version_name

    return [
        {
            "clientId": connection.client_id,
            "address": connection.client_addr,
            "language": connection.language,
            "version": version_name(connection.version),
        }
        for connection in (members.connection_set if members else [])
    ]


def subscription_rows(members: ConsumerConnection | None) -> list[Row]:
    """Return an output row for each topic that the members subscribe to, with its filter."""
    table = members.subscription_table if members else {}
    return [
        {"topic": topic, "filter": subscription.sub_string, "filterType": subscription.expression_type}
        for topic, subscription in sorted(table.items())
    ]


# -- delete


@command.command("delete")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_group)
@click.option("--keep-offsets", is_flag=True, help="Keep committed offsets for a new group of that name.")
@yes_option
@cluster_options
def delete(groups: tuple[str, ...], keep_offsets: bool, yes: bool, target: Target) -> None:
    """Delete consumer groups and their offsets. A group with connected members is refused."""
    for group in groups:
        _delete(target, group, keep_offsets=keep_offsets, yes=yes)


def _delete(target: Target, group: str, *, keep_offsets: bool, yes: bool) -> None:
    found = with_admin(target, lambda admin: description(admin, group))
    if found["members"]:
        client_ids = ", ".join(member["clientId"] for member in found["members"])
        raise CommandFailure(
            f"group {group} is in use by {client_ids}: stop its members first, or they create it again"
        )
    confirm(f"Delete consumer group {group}, with a lag of {found['lag']} messages?", yes=yes)
    with_admin(target, lambda admin: admin.delete_group(group, clean_offsets=not keep_offsets))
    click.echo(f"deleted group {group}")
