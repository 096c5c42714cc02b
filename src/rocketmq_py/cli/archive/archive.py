"""``rocketmq archive``: keep a topic as Parquet files, run after run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_topic
from rocketmq_py.cli.output.failures import CommandFailure, Status
from rocketmq_py.cli.output.prompts import progress
from rocketmq_py.errors import RocketMQError
from rocketmq_py.store.fs.os_files import OsFileSystem

if TYPE_CHECKING:
    from rocketmq_py.arrow.topics import ReadSettings
    from rocketmq_py.cli.archive.manifest import Manifest


@click.command("archive")
@click.argument("topic", shell_complete=complete_topic)
@click.option("--to", "directory", required=True, type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="The directory of the archive; it is created.")  # fmt: skip
@click.option("--format", "format_name", type=click.Choice(("parquet",)), default="parquet", show_default=True)
@click.option("--store", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
              help="Read the files of this store instead of the brokers.")  # fmt: skip
@click.option("--rows", type=click.IntRange(min=1), default=1_000_000, show_default=True, metavar="N",
              help="Most messages in one file.")  # fmt: skip
@click.option("--accept-loss", is_flag=True, help="Go on where messages behind the archive's end were removed.")
@click.option("--skip-damaged", is_flag=True, help="Leave out messages that cannot be decoded, with a warning.")
@cluster_options
def command(
    topic: str, directory: Path, format_name: str, store: Path | None, rows: int, accept_loss: bool, skip_damaged: bool,
    target: Target,
) -> None:  # fmt: skip
    """Add what is new in TOPIC to an archive of Parquet files.

    The first run takes all messages, each later one what came since. Every message is in the archive once, also after a
    run that was killed; 'archive.json' in DIR names the files that count. No offset is committed. 'rocketmq replay'
    sends an archive to a topic. Needs the extra: pip install 'rocketmq-py[arrow]'.
    """
    del format_name
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
        _archive(topic, directory, {**(brokers if store is None else files), **strictness}, rows)
    except ModuleNotFoundError as e:
        raise CommandFailure(f"archive needs {e.name}: pip install 'rocketmq-py[arrow]'", Status.USAGE) from e


def _archive(topic: str, directory: Path, settings: ReadSettings, rows: int) -> None:
    from rocketmq_py.arrow.topics import read_options
    from rocketmq_py.cli.archive.archiving import archive_topic, plan
    from rocketmq_py.cli.archive.manifest import Manifest, load

    options = read_options(topic, settings)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory):
            manifest = load(directory) or Manifest(topic)
            if manifest.topic != topic:
                raise CommandFailure(f"{directory} is an archive of topic {manifest.topic}: each topic needs its own")
            ranges = plan(options, manifest)
            with progress(f"archiving {topic}", sum(one.range.size for one in ranges)) as advance:
                count = archive_topic(directory, manifest, options, ranges, rows, advance)
            check_files(directory, manifest)
    except (BrokenPipeError, RocketMQError):
        raise
    except OSError as e:
        raise CommandFailure(f"{directory} cannot be written: {e.strerror or e}") from e
    click.echo(
        f"archived {count} messages of topic {topic}; {directory} has {manifest.rows} in {len(manifest.parts)} files"
    )


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
