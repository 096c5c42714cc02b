"""``rocketmq message export``: write the messages of a topic to a file."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_topic
from rocketmq_py.cli.message.rows import body_option
from rocketmq_py.cli.output.failures import CommandFailure, Status
from rocketmq_py.cli.output.files import output_to
from rocketmq_py.cli.output.prompts import progress
from rocketmq_py.cli.output.times import Time

if TYPE_CHECKING:
    from rocketmq_py.arrow.topics import ReadSettings, TopicRead
    from rocketmq_py.cli.message.export_files import FileFormat

FORMATS = ("parquet", "csv", "jsonl")


F = TypeVar("F", bound=Callable[..., Any])


def read_options(function: F) -> F:
    """Add the options that say which messages are read; the command gets them as ``settings`` of the read."""

    @functools.wraps(function)
    def command(
        *args: Any, since: int | None, until: int | None, tags: str | None, sql: str | None, skip_damaged: bool,
        **others: Any,
    ) -> Any:  # fmt: skip
        settings: ReadSettings = {"sql": sql, "mode": "PERMISSIVE" if skip_damaged else "FAILFAST"}
        if tags is not None:
            settings["tags"] = tags
        if since is not None:
            settings["start"] = datetime.fromtimestamp(since / 1000, UTC)
        if until is not None:
            settings["end"] = datetime.fromtimestamp(until / 1000, UTC)
        return function(*args, settings=settings, **others)

    for option in (
        click.option("--skip-damaged", is_flag=True, help="Leave out messages that cannot be decoded, with a warning."),
        click.option("--sql", metavar="EXPRESSION", help="Only messages whose properties match this SQL92 expression."),
        click.option("--tags", metavar="TAGS", help="Only messages with one of these tags: 'a || b'."),
        click.option("--until", type=Time(), default=None, metavar="TIME", help="Stored before TIME."),
        click.option("--since", type=Time(), default=None, metavar="TIME", help="Stored at TIME or later."),
    ):
        command = option(command)
    return command  # type: ignore[return-value]


@click.command("export")
@click.argument("topic", shell_complete=complete_topic)
@click.option("--to", "file", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="The file; - is stdout.")  # fmt: skip
@click.option("--format", "format_name", type=click.Choice(FORMATS), help="Format; default: what FILE ends with.")
@click.option("--columns", metavar="NAMES", help="Columns, separated by commas; default: those of the Spark source"
              " and, except in CSV, the properties.")  # fmt: skip
@read_options
@body_option
@cluster_options
def export(
    topic: str, file: Path, format_name: str | None, columns: str | None, settings: ReadSettings, encoding: str,
    target: Target,
) -> None:  # fmt: skip
    """Write what is in TOPIC now to a file: .parquet, .csv or .jsonl.

    FILE is written completely or not at all. Parquet has bodies as bytes; CSV and JSON lines as text, with a column
    bodyEncoding. 'rocketmq message send TOPIC --jsonl FILE' sends the messages of a .jsonl file. No offset is
    committed. Needs the extra: pip install 'rocketmq-py[arrow]'.
    """
    if target.address_map:
        raise CommandFailure("message export cannot map addresses: run it where the brokers' own are reached")
    try:
        file_format = _format(file, format_name)
        where: ReadSettings = {
            "namesrv": target.namesrv, "timeout": target.timeout, "tls": target.tls, "credentials": target.credentials,
        }  # fmt: skip
        read = _planned(topic, {**settings, **where, "columns": _columns(columns, file_format)})
        count = _write(read, file, file_format, encoding)
    except ModuleNotFoundError as e:
        raise CommandFailure(f"message export needs {e.name}: pip install 'rocketmq-py[arrow]'", Status.USAGE) from e
    click.echo(f"exported {count} messages of topic {topic}", err=True)


def _format(file: Path, name: str | None) -> FileFormat:
    from rocketmq_py.cli.message.export_files import FileFormat, format_of

    found = FileFormat(name) if name else format_of(file)
    if found is None:
        raise click.UsageError(
            f"{file} does not say which format: end it with .{', .'.join(FORMATS)}, or give --format"
        )
    return found


def _columns(names: str | None, file_format: FileFormat) -> list[str]:
    from rocketmq_py.arrow.column_names import DEFAULT_COLUMNS
    from rocketmq_py.cli.message.export_files import FileFormat

    if names is None:
        return [*DEFAULT_COLUMNS] if file_format is FileFormat.CSV else [*DEFAULT_COLUMNS, "properties"]
    found = [name.strip() for name in names.split(",")]
    if file_format is FileFormat.CSV and "properties" in found:
        raise click.UsageError("CSV has no column for properties: name other columns, or export to .jsonl or .parquet")
    return found


def _planned(topic: str, settings: ReadSettings) -> TopicRead:
    from rocketmq_py.arrow.topics import planned

    return planned(topic, settings)


def _write(read: TopicRead, file: Path, file_format: FileFormat, encoding: str) -> int:
    """Write the messages of a read; return their number."""
    from rocketmq_py.cli.message.export_files import writer

    count = 0
    topic = ", ".join(sorted({one.range.queue.topic for one in read.ranges})) or "nothing"
    with (
        output_to(file) as out,
        progress(f"exporting {topic}", read.offsets) as advance,
        read.reader() as batches,
        writer(out, read.schema, file_format, encoding) as write,
    ):
        for batch in batches:
            write(batch)
            count += batch.num_rows
            advance(batch.num_rows)
    return count
