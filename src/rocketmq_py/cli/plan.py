"""``rocketmq plan``: what a cluster needs for a load."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from rocketmq_py.cli.output.tables import TABLE, Row, echo_record, output_option
from rocketmq_py.core.capacity import Load, Plan, plan

_COUNT = click.IntRange(min=1)
_UNITS = {
    "masters": "", "brokers": "", "sends_each": "messages/s", "deliveries_each": "messages/s",
    "core_share_each": "of a core", "written_mb_each": "MB/s", "disk_gib_each": "GiB", "disk_gib": "GiB",
    "memory_mib_each": "MiB", "page_cache_gib_per_hour": "GiB", "descriptors_each": "", "heartbeats_each": "/s",
    "route_polls": "/s", "route_polls_per_name_server": "/s", "registrations_per_name_server": "/s",
}  # fmt: skip


@click.command(name="plan")
@click.option("--messages", type=click.FloatRange(min=0), required=True, metavar="PER_SECOND",
              help="Messages sent in a second, all topics together.")  # fmt: skip
@click.option("--size", "message_bytes", type=_COUNT, default=1024, show_default=True, metavar="BYTES",
              help="Body and properties of a message.")  # fmt: skip
@click.option("--groups", type=click.IntRange(min=0), default=1, show_default=True,
              help="Groups that read each message.")  # fmt: skip
@click.option("--days", type=click.FloatRange(min=0), default=3.0, show_default=True,
              help="Days for which messages are kept.")  # fmt: skip
@click.option("--topics", type=_COUNT, default=100, show_default=True, help="Topics of the cluster.")
@click.option("--clients", type=_COUNT, default=100, show_default=True, help="Connected producers and consumers.")
@click.option("--topics-per-client", type=_COUNT, default=1, show_default=True,
              help="Topics that a client sends to or subscribes to.")  # fmt: skip
@click.option("--copies", type=_COUNT, default=1, show_default=True,
              help="Copies of each message; 2 is a master with a slave.")  # fmt: skip
@click.option("--name-servers", type=_COUNT, default=2, show_default=True, help="Name servers of the cluster.")
@output_option
def command(output: str, **load: Any) -> None:
    """Compute the brokers, disk, memory and descriptors that a load needs; connects to nothing.

    The figures come from measurements of one machine, which the page Capacity of the manual describes.
    """
    found = plan(Load(**load))
    echo_record(_with_units(found) if output == TABLE else msgspec.structs.asdict(found), output)


def _with_units(found: Plan) -> Row:
    return {name: f"{_short(getattr(found, name))} {unit}".rstrip() for name, unit in _UNITS.items()}


def _short(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
