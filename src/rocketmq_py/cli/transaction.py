"""``rocketmq transaction``: list open and given-up transactions, and resume checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, with_admin
from rocketmq_py.cli.connect.listing import listing
from rocketmq_py.cli.output.tables import TABLE, Row, echo_rows, output_option
from rocketmq_py.cli.output.times import now_ms, show_span, show_time

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageExt

COLUMNS = ("stored", "age", "transactionId", "group", "topic", "queue", "checks", "keys", "broker", "offsetMsgId")


@click.group(name="transaction")
def command() -> None:
    """Transactions: ls, resume.

    A half message holds the message of a transaction until its producer commits or rolls back. Brokers check old half
    messages with the producer group, and drop them after transactionCheckMax checks.
    """


@command.command("ls")
@click.option("--topic", metavar="NAME", help="Only messages of this topic.")
@click.option("--group", metavar="NAME", help="Only messages of this producer group.")
@click.option("--given-up", is_flag=True, help="List transactions that brokers no longer check, instead of open ones.")
@cluster_options
@output_option
def list_(topic: str | None, group: str | None, given_up: bool, target: Target, output: str) -> None:
    """List the half messages of open transactions, oldest first.

    A transaction that ended in the last seconds may still be listed, because brokers write ends in batches.
    Exit status 4 when a broker does not answer.
    """

    async def work(admin: Admin) -> list[MessageExt]:
        if given_up:
            return [half async for half in admin.given_up_transactions()]
        return await admin.open_transactions()

    with listing(target) as query:
        rows = [row for row in map(half_row, query.run(work))
                if topic in (None, row["topic"]) and group in (None, row["group"])]  # fmt: skip
        echo_rows(map(_in_short, rows) if output == TABLE else rows, output, COLUMNS)


def _in_short(row: Row) -> Row:
    return {**row, "stored": show_time(row["stored"]), "age": show_span(now_ms() - row["born"])}


@command.command("resume")
@click.argument("offset_msg_id", metavar="OFFSETMSGID")
@cluster_options
def resume(offset_msg_id: str, target: Target) -> None:
    """Make a broker check a given-up transaction again; OFFSETMSGID as shown by ls --given-up."""
    with_admin(target, lambda admin: admin.resume_transaction(offset_msg_id))


def half_row(half: MessageExt) -> Row:
    """Return the output row of a half message; times are milliseconds since the epoch."""
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
