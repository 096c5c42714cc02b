"""``rocketmq store``: verify or inspect a store directory on disk, read-only and without a broker."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketmq_py.cli.connect.security import CliSecurity, security_options
from rocketmq_py.cli.output.prompts import progress
from rocketmq_py.cli.output.tables import TABLE, Row, echo_record, echo_rows, output_option

if TYPE_CHECKING:
    from rocketmq_py.store.tools.repair import Plan
    from rocketmq_py.store.tools.replica_reader import ReplicaReader
    from rocketmq_py.store.tools.verify import Report

F = TypeVar("F", bound=Callable[..., Any])

_TIMES = ("oldestMessage", "newestMessage", "stored", "born")


@click.group(name="store", short_help="Verify, inspect or repair a store directory.")
def command() -> None:
    """Verify, inspect or repair a store directory.

    Works with stores of this broker and of Apache RocketMQ; verify and inspect also while a broker runs on them.
    """


def _arguments(function: F) -> F:
    slots = click.option(
        "--hash-slots",
        type=click.IntRange(min=1),
        metavar="N",
        help="maxHashSlotNum, when it is not a quarter of maxIndexNum.",
    )
    log = click.option(
        "--commit-log",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="storePathCommitLog, when the commit log is not in DIR/commitlog.",
    )
    directory = click.argument(
        "directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
    )
    return directory(slots(log(output_option(function))))


@command.command()
@_arguments
def verify(directory: Path, hash_slots: int | None, commit_log: Path | None, output: str) -> None:
    """Check that commit log, consume queues, index, checkpoint and config files are complete and consistent.

    Exit status: 0 valid, 1 problems were found, 2 DIR is not a store. Notes are not problems: they list what the next
    start repairs after an unclean shutdown, or what a running broker has not written yet.
    """
    from rocketmq_py.store.tools.offline import OfflineStore
    from rocketmq_py.store.tools.verify import verify as check

    with OfflineStore(directory, hash_slots, commit_log) as store, _progress() as report_progress:
        report = check(store, report_progress)
    if output == TABLE:
        _echo_report(directory, report)
    else:
        echo_record(_as_row(directory, report), output)
    sys.exit(0 if report.is_valid else 1)


@command.command()
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--commit-log",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="storePathCommitLog, when the commit log is not in DIR/commitlog.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Repair the store instead of only showing what is damaged.")
@click.option(
    "--from", "replica", metavar="HOST:PORT", help="Take lost records from this broker: a slave or the master."
)
@security_options
@output_option
def repair(
    directory: Path, commit_log: Path | None, replica: str | None, security: CliSecurity, output: str, *,
    is_applied: bool,
) -> None:  # fmt: skip
    """Show what is damaged in the commit log, which messages are lost, and with --apply make the rest readable.

    With --apply, damaged and missing parts of the commit log are replaced by filler, and consume queues, index and
    checkpoint are rebuilt. What is replaced is kept in DIR/replaced-1 and so on. No broker may run on the store. A
    repair that was interrupted is continued by the same command.

    With --from, records are first taken from a running broker that has the same commit log, of this project or of
    Apache RocketMQ: what is damaged here, and what follows after the end. Only the rest is lost.

    Exit status: 0 nothing is lost, 1 messages are lost, 2 DIR is not a store, a broker uses it, or the broker of --from
    has another log.
    """
    from rocketmq_py.store.tools.repair import apply, make_plan

    with _reader(replica, security) as read:
        with _progress() as report_progress:
            plan = make_plan(directory, commit_log, report_progress, read)
        kept = apply(directory, plan, commit_log, read) if is_applied else None
    if output != TABLE:
        echo_record(_plan_row(directory, plan, is_applied=is_applied), output)
    else:
        _echo_plan(directory, plan, kept)
    sys.exit(1 if plan.lost else 0)


@contextmanager
def _reader(replica: str | None, security: CliSecurity) -> Iterator[ReplicaReader | None]:
    if replica is None:
        yield None
        return
    from rocketmq_py.store.tools.replica_reader import ReplicaReader

    with ReplicaReader(replica, security.tls_options(), security.credentials(os.environ)) as reader:
        yield reader


def _plan_row(directory: Path, plan: Plan, *, is_applied: bool) -> Row:
    return {
        "store": str(directory),
        "records": plan.records,
        "healed": [part._asdict() for part in plan.healed],
        "damaged": [gap._asdict() for gap in plan.gaps],
        "lost": [one._asdict() for one in plan.lost],
        "repaired": is_applied,
    }


def _echo_plan(directory: Path, plan: Plan, kept: Path | None) -> None:
    for part in plan.healed:
        what = "healed" if kept else "can be healed"
        click.echo(f"{what}: commit log {part.begin} to {part.end}: {part.records} records of the replica")
    for gap in plan.gaps:
        click.echo(f"damaged: commit log {gap.begin} to {gap.end}: {gap.what}")
    for one in plan.lost:
        click.echo(f"lost: {one.topic}-{one.queue_id} offsets {one.first} to {one.last}")
    done = f"repaired, what was replaced is in {kept}" if kept else "nothing was changed, repair with --apply"
    click.echo(f"{directory}: {plan.records} whole records, {len(plan.gaps)} damaged parts; {done}")


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Context manager that shows the progress of a check on a terminal.

    Yields a function to call with completed and total bytes; None if standard error is no terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return

    with ExitStack() as stack:
        advance: Callable[[int], None] | None = None
        shown = 0

        def show(done: int, total: int) -> None:
            nonlocal advance, shown
            advance = advance or stack.enter_context(progress("checking MiB", total >> 20))
            advance((done >> 20) - shown)
            shown = done >> 20

        yield show


def _as_row(directory: Path, report: Report) -> Row:
    counts = report.counts
    return {
        "store": str(directory),
        "valid": report.is_valid,
        "state": report.state,
        "logBegin": report.log_begin,
        "logEnd": report.log_end,
        "checked": {
            "records": counts.records,
            "logBytes": counts.log_bytes,
            "queues": counts.queues,
            "queueEntries": counts.queue_entries,
            "indexFiles": counts.index_files,
            "indexEntries": counts.index_entries,
            "configFiles": counts.config_files,
        },
        "problems": report.findings.problems,
        "findings": [finding._asdict() for finding in report.findings.listed()],
    }


def _echo_report(directory: Path, report: Report) -> None:
    counts = report.counts
    for finding in report.findings.listed():
        click.echo(f"{finding.severity}: {finding.place}: {finding.what}")
    checked = (
        f"{counts.records} records from {report.log_begin} to {report.log_end} of the log, "
        f"{counts.queue_entries} entries in {counts.queues} consume queues, "
        f"{counts.index_entries} entries in {counts.index_files} index files and {counts.config_files} config files"
    )
    click.echo(f"{directory} ({report.state}): checked {checked}")
    problems = report.findings.problems
    click.echo("valid" if not problems else f"{problems} problem{'s' if problems > 1 else ''} found")


@command.command()
@_arguments
@click.option("--topic", metavar="T", help="Show the queues of this topic.")
@click.option("--queue", type=click.IntRange(min=0), metavar="Q", help="With --topic: show messages of this queue.")
@click.option(
    "--offset", type=click.IntRange(min=0), metavar="N", help="With --queue: the first message.  [default: the oldest]"
)
@click.option(
    "--count", type=click.IntRange(min=1), metavar="M", help="With --queue: how many messages.  [default: 32]"
)
@click.option("--physical", type=click.IntRange(min=0), metavar="P", help="Show the record at this offset of the log.")
def inspect(
    directory: Path, hash_slots: int | None, commit_log: Path | None, output: str, *, topic: str | None,
    queue: int | None, offset: int | None,
    count: int | None, physical: int | None,
) -> None:  # fmt: skip
    """Show the contents of a store: a summary, the queues of a topic, messages of a queue, or one record.

    Exit status: 0 success, 1 no record at --physical, 2 DIR is not a store or has no such topic or queue.
    """
    from rocketmq_py.store.tools import inspect as look
    from rocketmq_py.store.tools.offline import OfflineStore

    _check_options(topic, queue, offset, count, physical)
    with OfflineStore(directory, hash_slots, commit_log) as store:
        if physical is not None:
            _echo_physical(look.record(store, physical), output)
        elif topic is not None and queue is not None:
            rows = look.messages(store, topic, queue, offset, count or 32)
            _echo_messages(rows, output)
        elif topic is not None:
            echo_rows(look.queues(store, topic), output)
        else:
            _echo_overview(look.overview(store), look.queues(store), output)


def _check_options(
    topic: str | None, queue: int | None, offset: int | None, count: int | None, physical: int | None
) -> None:
    if physical is not None and (topic is not None or queue is not None):
        raise click.UsageError("--physical cannot be combined with --topic and --queue")
    if queue is not None and topic is None:
        raise click.UsageError("--queue needs --topic")
    if queue is None and (offset is not None or count is not None):
        raise click.UsageError("--offset and --count need --topic and --queue")


def _echo_physical(record: Row, output: str) -> None:
    echo_record(_readable(record) if output == TABLE else record, output)
    if "error" in record:
        sys.exit(1)


def _echo_messages(rows: Iterator[Row], output: str) -> None:
    if output != TABLE:
        echo_rows(rows, output)
        return
    columns = ("offset", "physical", "size", "stored", "tags", "keys", "msgId", "body")
    echo_rows(map(_in_short, rows), output, columns)


def _in_short(row: Row) -> Row:
    properties = row.get("properties", {})
    body = row.get("body", row.get("error", ""))
    return {**_readable(row), "tags": properties.get("TAGS"), "keys": properties.get("KEYS"), "body": body}


def _echo_overview(overview: Row, queues: list[Row], output: str) -> None:
    if output != TABLE:
        echo_record({**overview, "queueList": queues}, output)
        return
    echo_record(_readable(overview), output)
    if queues:
        click.echo()
        echo_rows(queues, output)


def _readable(row: Row) -> Row:
    """Return a copy of the row with local times as text instead of milliseconds."""
    times = {name: _time(row[name]) for name in _TIMES if isinstance(row.get(name), int)}
    return {**row, **times}


def _time(milliseconds: int) -> str:
    local = datetime.datetime.fromtimestamp(milliseconds / 1000).astimezone()
    return local.isoformat(sep=" ", timespec="milliseconds")
