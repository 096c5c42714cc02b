"""``rocketmq replay``: send an archive to a topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.archive.archive import check_files, locked
from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_topic
from rocketmq_py.cli.output.failures import CommandFailure, Status
from rocketmq_py.cli.output.prompts import progress
from rocketmq_py.cli.output.times import Time
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.names import check_topic
from rocketmq_py.tls import client_context

if TYPE_CHECKING:
    from rocketmq_py.arrow.sink.targets import SendSettings


@click.command("replay")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--topic", required=True, shell_complete=complete_topic, help="Where to send the messages.")
@click.option("--rate", type=click.IntRange(min=1), metavar="N", help="At most N messages a second.")
@click.option(
    "--from", "since", type=Time(), default=None, metavar="TIME", help="Only messages stored at TIME or later."
)
@click.option("--to", "until", type=Time(), default=None, metavar="TIME", help="Only messages stored before TIME.")
@click.option("--check-timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, metavar="SECONDS",
              help="How long to wait for checks of brokers after a run that was killed.")  # fmt: skip
@cluster_options
def command(
    directory: Path, topic: str, rate: int | None, since: int | None, until: int | None, check_timeout: float,
    target: Target,
) -> None:  # fmt: skip
    """Send the messages of an archive that 'rocketmq archive' has made to a topic, each exactly once.

    A run that was stopped or killed is continued by the next one with the same options, as is one whose archive has
    grown since; DIR/replays has what was sent. The messages of one queue stay in order; a Java broker may change the
    order of the batch in which a run was killed, and forgets its flags. They get new ids, and lose delays; bodies,
    tags, keys, flags and other properties stay. Brokers must support transactions, as those of version 4.3 and newer.
    Needs the extra: pip install 'rocketmq-py[arrow]'.
    """
    if target.address_map:
        raise CommandFailure("replay cannot map addresses: run it where the brokers' own are reached")
    try:
        _replay(directory, check_topic(topic), rate, (since, until), check_timeout, target)
    except ModuleNotFoundError as e:
        raise CommandFailure(f"replay needs {e.name}: pip install 'rocketmq-py[arrow]'", Status.USAGE) from e


def _replay(
    directory: Path, topic: str, rate: int | None, times: tuple[int | None, int | None], timeout: float, target: Target
) -> None:
    from rocketmq_py.cli.archive.manifest import load
    from rocketmq_py.cli.archive.replaying import Pace, opened, replay

    manifest = load(directory)
    if manifest is None:
        raise CommandFailure(f"{directory} has no archive.json: rocketmq archive makes archives")
    check_files(directory, manifest)
    path = directory / "replays" / topic / "replay.json"
    settings = _settings(target)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):
            state = opened(path, topic, *times, rate)
            left = None if times != (None, None) else manifest.rows - state.delivered
            with progress(f"replaying to {topic}", left) as advance:
                sent = replay(directory, manifest, path, state, settings, timeout, Pace(rate, advance))
    except RocketMQError:
        raise
    except OSError as e:
        raise CommandFailure(f"{path.parent} cannot be written: {e.strerror or e}") from e
    if left is not None and state.delivered != manifest.rows:
        raise CommandFailure(f"{state.delivered} messages were sent, {directory} has {manifest.rows}")
    click.echo(f"replayed {sent} messages to topic {topic}, {state.delivered} in all runs")


def _settings(target: Target) -> SendSettings:
    from rocketmq_py.arrow.options.security import Security
    from rocketmq_py.arrow.sink.targets import SendSettings
    from rocketmq_py.client.name_servers import name_server_addresses

    return SendSettings(
        namesrv=tuple(name_server_addresses(target.namesrv)), producer_group="replay", timeout=target.timeout,
        retries=7, in_flight=4, max_batch_bytes=256 * 1024,
        security=Security(tls=client_context(target.tls), credentials=target.credentials),
    )  # fmt: skip
