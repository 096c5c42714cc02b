"""``rocketmq group lag``: the lag of a consumer group, once or repeatedly with rates."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_group, complete_topic, with_admin
from rocketmq_py.cli.connect.listing import listing
from rocketmq_py.cli.group.lookup import existing_group
from rocketmq_py.cli.output.failures import Status, missing
from rocketmq_py.cli.output.tables import TABLE, Row, echo_record, echo_rows, output_option, table_text
from rocketmq_py.cli.output.times import now_ms, show_span, show_time

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.model import MessageQueue
    from rocketmq_py.protocol.bodies.admin import OffsetWrapper

COLUMNS = ("topic", "broker", "queue", "offset", "end", "lag", "lastConsumed")
RATE_COLUMNS = (*COLUMNS, "inPerS", "outPerS")
_CLEAR = "\x1b[2J\x1b[H"


class LagSnapshot(NamedTuple):
    """The progress of a group in each queue at one time.

    :ivar at: the time, in seconds of the monotonic clock.
    """

    at: float
    queues: Mapping[MessageQueue, OffsetWrapper]


@click.command("lag")
@click.argument("group", shell_complete=complete_group)
@click.option("--topic", metavar="NAME", shell_complete=complete_topic,
              help="Only this topic, even if the group has not consumed it yet.")  # fmt: skip
@click.option("-w", "--watch", is_flag=True, help="Repeat with rates until Ctrl-C.")
@click.option("--interval", type=click.FloatRange(min=0.1), default=2.0, show_default=True, metavar="S",
              help="With --watch: seconds between queries.")  # fmt: skip
@click.option("-c", "--count", type=click.IntRange(min=1), metavar="N", help="With --watch: end after N queries.")
@click.option("--max", "limit", type=click.IntRange(min=0), metavar="N",
              help="Exit status 4 when the lag is above N messages.")  # fmt: skip
@cluster_options
@output_option
def lag(
    group: str, topic: str | None, watch: bool, interval: float, count: int | None, limit: int | None, target: Target,
    output: str,
) -> None:  # fmt: skip
    """Show how many messages of each queue a consumer group has not committed yet.

    With --watch a terminal is redrawn; otherwise tables (with -o json and jsonl, documents) follow one another.
    """
    if count is not None and not watch:
        raise click.UsageError("--count needs --watch")
    repetitions = (count or sys.maxsize) if watch else 1

    async def work(admin: Admin) -> int:
        before: LagSnapshot | None = None
        for number in range(repetitions):
            if number:
                await asyncio.sleep(interval)
            now = await (_snapshot(admin, group, topic) if number else first_snapshot(admin, group, topic))
            if now is not None:
                _echo(group, lag_rows(now, before), output, watch=watch)
                before = now
        return sum(state.lag for state in before.queues.values()) if before is not None else 0

    with listing(target) as query:
        # A watch repeats its query: a broker that does not answer now may answer later.
        total = with_admin(target, work) if watch else query.run(work)
        if limit is not None and total > limit:
            click.echo(f"{total} messages wait for group {group}, more than {limit}", err=True)
            raise SystemExit(Status.UNHEALTHY)


async def first_snapshot(admin: Admin, group: str, topic: str | None) -> LagSnapshot:
    """Query the group's progress, and at the same time whether group and topic exist.

    :raises CommandFailure: there is no such group, or it has committed nothing and ``topic`` is None; exit status 3.
    :raises NoRouteError: there is no such topic.
    :raises NetworkError: a query failed.
    """
    at = time.monotonic()
    exists, route, progress = await asyncio.gather(
        existing_group(admin, group),
        admin.route(topic) if topic is not None else asyncio.sleep(0),
        admin.progress(group, topic),
        return_exceptions=True,
    )
    for outcome in (exists, route, progress):
        if isinstance(outcome, BaseException):
            raise outcome
    assert isinstance(progress, dict)
    if topic is None and not progress:
        raise missing(
            f"group {group} has committed nothing yet",
            "Use --topic NAME to show the lag on a topic it has not consumed",
        )
    return LagSnapshot(at, progress)


async def _snapshot(admin: Admin, group: str, topic: str | None) -> LagSnapshot | None:
    """Query the group's progress again; after a network error, print it and return None."""
    from rocketmq_py.errors import NetworkError

    try:
        return LagSnapshot(time.monotonic(), await admin.progress(group, topic))
    except NetworkError as e:
        click.echo(f"{e}; asked again", err=True)
        return None


def lag_rows(now: LagSnapshot, before: LagSnapshot | None) -> list[Row]:
    """Return an output row for each queue, with rates since the snapshot ``before``; rates are None without one."""
    return [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "offset": state.consumer_offset,
            "end": state.broker_offset,
            "lag": state.lag,
            "lastConsumed": state.last_timestamp or None,
            **_rates(now, before, queue),
        }
        for queue, state in now.queues.items()
    ]


def _rates(now: LagSnapshot, before: LagSnapshot | None, queue: MessageQueue) -> Row:
    earlier = before.queues.get(queue) if before is not None else None
    seconds = now.at - before.at if before is not None else 0.0
    if earlier is None or seconds <= 0:
        return {"inPerS": None, "outPerS": None}
    state = now.queues[queue]
    return {
        "inPerS": round((state.broker_offset - earlier.broker_offset) / seconds, 1),
        "outPerS": round((state.consumer_offset - earlier.consumer_offset) / seconds, 1),
    }


def summary(group: str, rows: Sequence[Row]) -> str:
    """Describe a group in one line: its lag, its rates, and the estimated time until the lag is consumed.

    :param rows: the rows of :func:`lag_rows`.
    """
    total = sum(row["lag"] for row in rows)
    text = f"{group}: {total} messages wait in {len(rows)} queues"
    if not rows or any(row["outPerS"] is None for row in rows):
        return text
    produced, consumed = (sum(row[name] for row in rows) for name in ("inPerS", "outPerS"))
    text += f", {produced:.1f}/s in, {consumed:.1f}/s out"
    if total and consumed > produced:
        return f"{text}, done in about {show_span(total / (consumed - produced) * 1000)}"
    return f"{text}, it falls behind" if total and consumed < produced else text


def _echo(group: str, rows: list[Row], output: str, *, watch: bool) -> None:
    if output != TABLE:
        if watch:
            echo_record({"at": now_ms(), "group": group, "queues": rows}, output)
        else:
            echo_rows([{name: row[name] for name in COLUMNS} for row in rows], output)
        return
    shown = [{**row, "lastConsumed": show_time(row["lastConsumed"])} for row in rows]
    table = f"{table_text(shown, RATE_COLUMNS if watch else COLUMNS)}\n{summary(group, rows)}"
    if not watch:
        click.echo(table)
    elif sys.stdout.isatty():
        click.echo(_CLEAR + table)  # in one write, which avoids flicker
    else:
        click.echo(table + "\n")
