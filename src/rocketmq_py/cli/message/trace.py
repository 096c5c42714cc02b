"""``rocketmq message trace``: show where a message is stored, which groups have consumed it, and its trace.

The status in a group follows from committed offsets, members' subscriptions, and copies in retry and dead-letter
topics. Trace entries come from the trace topic, to which clients with tracing enabled write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_topic, with_admin
from rocketmq_py.cli.message.lookup import find
from rocketmq_py.cli.message.rows import in_short, message_row
from rocketmq_py.cli.output.tables import TABLE, Row, echo_record, echo_rows, output_option
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.client.message_state import state_in_group, trace_entries
from rocketmq_py.protocol.names import TRACE_TOPIC

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.wire.trace import TraceEntry

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
    consumers = await asyncio.gather(*(state_in_group(admin, message, group) for group in groups))
    entries, damaged = await trace_entries(admin, trace_topic, message.msg_id)
    for place, error in damaged.items():
        click.echo(f"{place} is skipped: {error}", err=True)
    return {
        "message": {name: value for name, value in message_row(message).items() if name in _BRIEF},
        "consumers": [state._asdict() for state in consumers],
        "trace": [trace_row(entry) for entry in entries],
    }


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
