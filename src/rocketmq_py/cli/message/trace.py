"""``rocketmq message trace``: show where a message is stored, which groups have consumed it, and its trace.

The status in a group follows from committed offsets, members' subscriptions, and copies in retry and dead-letter
topics. Trace entries come from the trace topic, to which clients with tracing enabled write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_topic, with_admin
from rocketmq_py.cli.message.lookup import find
from rocketmq_py.cli.message.rows import in_short, message_row
from rocketmq_py.cli.output.tables import TABLE, Row, echo_record, echo_rows, output_option
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.protocol.names import TRACE_TOPIC, dlq_topic, retry_topic

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageExt, MessageQueue
    from rocketmq_py.protocol.bodies.admin import OffsetWrapper
    from rocketmq_py.protocol.bodies.client import ConsumerConnection
    from rocketmq_py.wire.trace import TraceEntry

CONSUMED, WAITING, FILTERED, RETRYING, DEAD, BROADCAST = (
    "consumed", "waiting", "filtered", "retrying", "dead", "broadcast"
)  # fmt: skip
_BRIEF = ("topic", "broker", "queue", "offset", "msgId", "offsetMsgId", "tags", "keys", "born", "bornHost", "stored",
          "storeHost")  # fmt: skip
CONSUMER_COLUMNS = ("group", "status", "members", "retries")
TRACE_COLUMNS = ("at", "what", "group", "host", "costMs", "success")


@click.command("trace")
@click.argument("msg_id", metavar="ID")
@click.option(
    "--topic", metavar="NAME", shell_complete=complete_topic, help="Topic of the message; needed for a unique id."
)
@click.option(
    "--trace-topic", metavar="NAME", default=TRACE_TOPIC, show_default=True, help="Topic with the clients' traces."
)
@cluster_options
@output_option
def trace(msg_id: str, topic: str | None, trace_topic: str, target: Target, output: str) -> None:
    """Show the status of a message in each group that consumes its topic.

    \b
    consumed   the group's committed offset is past it
    waiting    the group's committed offset is not past it
    filtered   the offset is past it, but the subscribed tags exclude it
    retrying   it failed, and the next retry is not consumed yet
    dead       all retries failed, and it is a dead letter
    broadcast  every member consumes it; brokers have no offsets

    Entries of the trace topic follow if the clients write any.
    """
    found = with_admin(target, lambda admin: gather(admin, msg_id, topic, trace_topic))
    if output != TABLE:
        echo_record(found, output)
        return
    message = in_short({**found["message"], "body": ""})
    echo_record({name: message[name] for name in _BRIEF}, output)
    for name, columns in (("consumers", CONSUMER_COLUMNS), ("trace", TRACE_COLUMNS)):
        click.echo()
        if found[name]:
            echo_rows(map(_readable, found[name]), output, columns)
        else:
            click.echo("no group has consumed the topic" if name == "consumers" else f"nothing in {trace_topic}")


def _readable(row: Row) -> Row:
    return {**row, "at": show_time(row.get("at"))}


async def gather(admin: Admin, msg_id: str, topic: str | None, trace_topic: str) -> Row:
    """Return a message, its status in each consumer group, and its trace entries, as ``message trace`` shows them.

    :raises CommandFailure: there is no such message; exit status 3.
    """
    message = await find(admin, msg_id, topic)
    groups = await admin.topic_groups(message.topic)
    consumers = await asyncio.gather(*(_consumer(admin, message, group) for group in groups))
    return {
        "message": {name: value for name, value in message_row(message).items() if name in _BRIEF},
        "consumers": list(consumers),
        "trace": [trace_row(entry) for entry in await _entries(admin, trace_topic, message.msg_id)],
    }


async def _consumer(admin: Admin, message: MessageExt, group: str) -> Row:
    members, progress, retries, dead = await asyncio.gather(
        admin.members(group),
        admin.progress(group),
        _copies(admin, retry_topic(group), message.msg_id),
        _copies(admin, dlq_topic(group), message.msg_id),
    )
    return {
        "group": group,
        "status": status(message, members, progress, retries, dead),
        "members": len(members.connection_set) if members else 0,
        "retries": len(retries),
    }


def status(
    message: MessageExt,
    members: ConsumerConnection | None,
    progress: Mapping[MessageQueue, OffsetWrapper],
    retries: list[MessageExt],
    dead: list[MessageExt],
) -> str:
    """Return the status of a message in one group: consumed, waiting, filtered, retrying, dead or broadcast.

    :param members: the connected members; None if there are none.
    :param progress: the group's progress in each queue, also in its retry topic.
    :param retries: its copies in the group's retry topic, oldest first.
    :param dead: its copies in the group's dead-letter topic.
    """
    if dead:
        return DEAD
    if members is not None and members.message_model == "BROADCASTING":
        return BROADCAST
    if retries:
        return CONSUMED if _is_past(retries[-1], progress) else RETRYING
    if not _is_past(message, progress):
        return WAITING
    subscription = members.subscription_table.get(message.topic) if members is not None else None
    tags = subscription.tags_set if subscription is not None and subscription.expression_type == "TAG" else []
    return FILTERED if tags and message.tags not in tags else CONSUMED


def _is_past(message: MessageExt, progress: Mapping[MessageQueue, OffsetWrapper]) -> bool:
    state = progress.get(message.queue)
    return state is not None and state.consumer_offset > message.queue_offset


async def _copies(admin: Admin, topic: str, msg_id: str) -> list[MessageExt]:
    """Return the messages of a topic whose unique id is ``msg_id``; empty if the topic does not exist."""
    from rocketmq_py.errors import NoRouteError

    try:
        return await admin.messages_by_key(topic, msg_id, unique=True)
    except NoRouteError:
        return []


async def _entries(admin: Admin, trace_topic: str, msg_id: str) -> list[TraceEntry]:
    """Return the trace entries of a message, ordered by timestamp; entries without a timestamp come first."""
    from rocketmq_py.errors import CorruptRecord, NoRouteError
    from rocketmq_py.wire.trace import decode_trace

    found: list[TraceEntry] = []
    try:
        messages = await admin.messages_by_key(trace_topic, msg_id)
    except NoRouteError:
        return []
    for message in messages:
        try:
            found += [entry for entry in decode_trace(message.body) if entry.msg_id == msg_id]
        except CorruptRecord as e:
            click.echo(f"{message.queue} at {message.queue_offset} is skipped: {e}", err=True)
    return sorted(found, key=lambda entry: entry.timestamp or 0)


def trace_row(entry: TraceEntry) -> Row:
    """Return the output row of a trace entry: common fields as columns, and all fields in ``fields``."""
    fields: dict[str, Any] = msgspec.to_builtins(entry)
    return {
        "at": entry.timestamp,
        "what": entry.kind.value,
        "group": entry.group,
        "host": entry.client_host or entry.store_host,
        "costMs": entry.cost_ms,
        "success": entry.success,
        "fields": fields,
    }
