"""``rocketmq message``: send, recall, look up, trace and export messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_topic, with_admin
from rocketmq_py.cli.connect.listing import listing
from rocketmq_py.cli.message.export import export
from rocketmq_py.cli.message.lookup import find
from rocketmq_py.cli.message.rows import COLUMNS, body_option, in_full, in_short, message_row
from rocketmq_py.cli.message.send import connect, send
from rocketmq_py.cli.message.trace import trace
from rocketmq_py.cli.output.failures import missing
from rocketmq_py.cli.output.tables import TABLE, echo_record, echo_rows, output_option
from rocketmq_py.cli.output.times import Time

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageExt


@click.group(name="message")
def command() -> None:
    """Messages: send, recall, get, query, trace, export."""


command.add_command(send)
command.add_command(trace)
command.add_command(export)


@command.command("recall")
@click.argument("topic", shell_complete=complete_topic)
@click.argument("handle")
@cluster_options
def recall(topic: str, handle: str, target: Target) -> None:
    """Recall a delayed message of TOPIC by the recallHandle that its send returned.

    Needs recallMessageEnable on the brokers. A message that has been delivered already stays delivered.
    """
    with connect(target) as producer:
        click.echo(f"message {producer.recall(topic, handle)} is recalled")


@command.command("get")
@click.argument("msg_id", metavar="ID")
@click.option(
    "--topic", metavar="NAME", shell_complete=complete_topic, help="Topic of the message; needed for a unique id."
)
@click.option("--raw", is_flag=True, help="Write only the body.")
@body_option
@cluster_options
@output_option
def get(msg_id: str, topic: str | None, raw: bool, encoding: str, target: Target, output: str) -> None:
    """Show one message: by its offset id, or by its unique id and its topic.

    If several messages have the same unique id (a send that was retried), the oldest is shown.
    """
    message = with_admin(target, lambda admin: find(admin, msg_id, topic))
    if raw:
        click.echo(message.body, nl=False)
        return
    row = message_row(message, encoding)
    echo_record(in_full(row) if output == TABLE else row, output)


@command.command("query")
@click.argument("topic", shell_complete=complete_topic)
@click.argument("key")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=64, show_default=True, metavar="N",
              help="At most N messages of each broker, the newest.")  # fmt: skip
@click.option("--since", type=Time(), default=None, metavar="TIME", help="Stored at TIME or later.")
@click.option("--until", type=Time(), default=None, metavar="TIME", help="Stored at TIME or earlier.")
@body_option
@cluster_options
@output_option
def query(
    topic: str, key: str, limit: int, since: int | None, until: int | None, encoding: str, target: Target, output: str
) -> None:
    """List messages of TOPIC with KEY, or with KEY as their unique id.

    Exit status 3 when there are none, 4 when a broker does not answer.
    """
    from rocketmq_py.client.admin.messages import FOREVER

    async def work(admin: Admin) -> list[MessageExt]:
        return await admin.messages_by_key(
            topic, key, max_messages=limit, begin_ms=since or 0, end_ms=FOREVER if until is None else until
        )

    with listing(target) as query:
        found = query.run(work)
        if not found:
            raise missing(f"topic {topic} has no message with key {key!r}", "New messages are indexed after a moment")
        rows = [message_row(message, encoding) for message in found]
        echo_rows(map(in_short, rows) if output == TABLE else rows, output, COLUMNS)
