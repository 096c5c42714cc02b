"""``rocketmq transaction``: transactions that have not ended, and those that were given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, with_admin
from rocketmq_py.cli.output.listing import listing
from rocketmq_py.cli.output.tables import TABLE, Row, echo_rows, output_option
from rocketmq_py.cli.output.times import now_ms, show_span, show_time

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageExt

COLUMNS = ("stored", "age", "transactionId", "group", "topic", "queue", "checks", "keys", "broker", "offsetMsgId")


@click.group(name="transaction")
def command() -> None:
    """Transactions: ls, resume.

    The message of a transaction waits in a half message until its producer commits or rolls back. Brokers ask about
    those that wait too long, and give up after some times (transactionCheckMax).
    """


@command.command("ls")
@click.option("--topic", metavar="NAME", help="Only messages for this topic.")
@click.option("--group", metavar="NAME", help="Only those of this producer group.")
@click.option("--given-up", is_flag=True, help="Those nobody is asked about any more, instead of the open ones.")
@cluster_options
@output_option
def list_(topic: str | None, group: str | None, given_up: bool, target: Target, output: str) -> None:
    """List the half messages of transactions that have not ended, the oldest first.

    One that ended in the last seconds may still be listed: brokers write ends down together.
    Exit status 4 when a broker does not answer.
    """

    async def work(admin: Admin) -> list[MessageExt]:
        if given_up:
            return [half async for half in admin.given_up_transactions()]
        return await admin.open_transactions()

    with listing(target) as asked:
        rows = [row for row in map(half_row, asked.ask(work))
                if topic in (None, row["topic"]) and group in (None, row["group"])]  # fmt: skip
        echo_rows(map(_in_short, rows) if output == TABLE else rows, output, COLUMNS)


def _in_short(row: Row) -> Row:
    return {**row, "stored": show_time(row["stored"]), "age": show_span(now_ms() - row["born"])}


@command.command("resume")
@click.argument("offset_msg_id", metavar="OFFSETMSGID")
@cluster_options
def resume(offset_msg_id: str, target: Target) -> None:
    """Have a broker ask again about a transaction it has given up, by the id that ls --given-up shows."""
    with_admin(target, lambda admin: admin.resume_transaction(offset_msg_id))


def half_row(half: MessageExt) -> Row:
    """A half message as a row; times are milliseconds."""
    properties = half.properties
    return {
        "transactionId": half.msg_id,
        "group": properties.get("PGROUP"),
        "topic": properties.get("REAL_TOPIC"),
        "queue": int(properties.get("REAL_QID", "-1")),
        "checks": int(properties.get("TRANSACTION_CHECK_TIMES", "0")),
        "tags": half.tags,
        "keys": half.keys,
        "born": half.born_timestamp,
        "stored": half.store_timestamp,
        "broker": half.broker_name,
        "offset": half.queue_offset,
        "offsetMsgId": half.offset_msg_id,
        "bytes": len(half.body),
    }
