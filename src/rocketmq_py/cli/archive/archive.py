"""``rocketmq archive``: keep a topic as Parquet files or a Delta table, run after run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_topic
from rocketmq_py.cli.output.failures import CommandFailure, Status
from rocketmq_py.cli.output.prompts import progress
from rocketmq_py.errors import RocketMQError
from rocketmq_py.store.fs.os_files import OsFileSystem

if TYPE_CHECKING:
    from rocketmq_py.arrow.options.read import ReadOptions
    from rocketmq_py.arrow.topics import ReadSettings
    from rocketmq_py.cli.archive.manifest import Manifest


class StorePlace(click.Path):
    """A directory of this machine, or the URI of one on another file system."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if "://" in str(value) else super().convert(value, param, ctx)


@click.command("archive")
@click.argument("topic", shell_complete=complete_topic)
@click.option("--to", "directory", required=True, type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="The directory of the archive; it is created.")  # fmt: skip
@click.option("--format", "format_name", type=click.Choice(("parquet", "delta")), default="parquet", show_default=True)
@click.option("--store", type=StorePlace(exists=True, file_okay=False, path_type=Path), metavar="DIR|URI",
              help="Read the files of this store instead of the brokers, also of one at s3://BUCKET/PATH.")  # fmt: skip
@click.option("--rows", type=click.IntRange(min=1), default=1_000_000, show_default=True, metavar="N",
              help="Most messages in one file, or one commit of a Delta table.")  # fmt: skip
@click.option("--accept-loss", is_flag=True, help="Go on where messages behind the archive's end were removed.")
@click.option("--skip-damaged", is_flag=True, help="Leave out messages that cannot be decoded, with a warning.")
@cluster_options
def command(
    topic: str, directory: Path, format_name: str, store: Path | str | None, rows: int, accept_loss: bool,
    skip_damaged: bool, target: Target,
) -> None:  # fmt: skip
    """Add what is new in TOPIC to an archive: Parquet files, or a Delta table.

    The first run takes all messages, each later one what came since. Every message is in the archive once, also after a
    run that was killed; 'archive.json' in DIR names the Parquet files that count. No offset is committed. 'rocketmq
    replay' sends an archive of Parquet files to a topic. Needs the extra: pip install 'rocketmq-py[arrow]'; for Delta
    'rocketmq-py[delta]'.
    """
    if target.address_map:
        raise CommandFailure("archive cannot map addresses: run it where the brokers' own are reached")
    brokers: ReadSettings = {
        "namesrv": target.namesrv, "timeout": target.timeout, "tls": target.tls, "credentials": target.credentials,
    }  # fmt: skip
    files: ReadSettings = {"store": store}
    strictness: ReadSettings = {
        "fail_on_data_loss": not accept_loss,
        "mode": "PERMISSIVE" if skip_damaged else "FAILFAST",
    }
    try:
        _archive(topic, directory, {**(brokers if store is None else files), **strictness}, rows, format_name)
    except ModuleNotFoundError as e:
        extra = "delta" if e.name == "deltalake" else "arrow"
        raise CommandFailure(f"archive needs {e.name}: pip install 'rocketmq-py[{extra}]'", Status.USAGE) from e


def _archive(topic: str, directory: Path, settings: ReadSettings, rows: int, format_name: str) -> None:
    from rocketmq_py.arrow.topics import read_options

    options = read_options(topic, settings)
    add = _add_to_table if format_name == "delta" else _add_files
    try:
        directory.mkdir(parents=True, exist_ok=True)
        count, kept, files = add(topic, directory, options, rows)
    except (BrokenPipeError, RocketMQError):
        raise
    except OSError as e:
        raise CommandFailure(f"{directory} cannot be written: {e.strerror or e}") from e
    click.echo(f"archived {count} messages of topic {topic}; {directory} has {kept} in {files} files")


def _add_files(topic: str, directory: Path, options: ReadOptions, rows: int) -> tuple[int, int, int]:
    """Add what is new as Parquet files; return the number of messages, of those in the archive, and of files."""
    from rocketmq_py.cli.archive.archiving import archive_topic, plan
    from rocketmq_py.cli.archive.manifest import Manifest, load

    if (directory / "_delta_log").exists():
        raise CommandFailure(f"{directory} has a Delta table: --format delta adds to it")
    with locked(directory):
        manifest = load(directory) or Manifest(topic)
        if manifest.topic != topic:
            raise CommandFailure(f"{directory} is an archive of topic {manifest.topic}: each topic needs its own")
        ranges = plan(options, lambda _: manifest.ends())
        with progress(f"archiving {topic}", sum(one.range.size for one in ranges)) as advance:
            count = archive_topic(directory, manifest, options, ranges, rows, advance)
        check_files(directory, manifest)
    return count, manifest.rows, len(manifest.parts)


def _add_to_table(topic: str, directory: Path, options: ReadOptions, rows: int) -> tuple[int, int, int]:
    """Add what is new to a Delta table; see :func:`_add_files`."""
    from rocketmq_py.cli.archive import delta
    from rocketmq_py.cli.archive.archiving import plan
    from rocketmq_py.cli.archive.manifest import NAME

    if (directory / NAME).exists():
        raise CommandFailure(f"{directory} has Parquet files: --format parquet adds to them")
    with locked(directory):
        table = delta.opened(directory, topic)
        ranges = plan(options, lambda queues: delta.ends(table, queues))
        with progress(f"archiving {topic}", sum(one.range.size for one in ranges)) as advance:
            count = delta.archive_topic(table, options, ranges, rows, advance)
        return count, *delta.content(table)


def check_files(directory: Path, manifest: Manifest) -> None:
    """Compare the number of rows of each file with the manifest.

    :raises CommandFailure: a file is missing, or has another number of rows.
    """
    import pyarrow.parquet as pq

    for part in manifest.parts:
        path = directory / part.name
        try:
            found = pq.read_metadata(path).num_rows
        except (OSError, ValueError) as e:
            raise CommandFailure(f"{path}, which archive.json names, cannot be read: {e}") from e
        if found != part.rows:
            raise CommandFailure(f"{path} has {found} rows, archive.json says {part.rows}")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Let no other run use an archive during the block.

    :raises CommandFailure: another run is using it.
    """
    try:
        lock = OsFileSystem().lock(directory / "lock")
    except BlockingIOError as e:
        raise CommandFailure(f"another run is using {directory}") from e
    try:
        yield
    finally:
        lock.release()
