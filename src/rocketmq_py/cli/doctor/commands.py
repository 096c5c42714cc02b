"""``rocketmq doctor``: check whether a cluster can be used from this machine, and advise how to fix problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, complete_group, complete_topic
from rocketmq_py.cli.output.failures import Status
from rocketmq_py.cli.output.tables import TABLE, echo_rows, output_option
from rocketmq_py.client.doctor.checks import FAIL, OK, WARN, Check

if TYPE_CHECKING:
    pass

_COLOURS = {OK: "green", WARN: "yellow", FAIL: "red"}


@click.command(name="doctor", short_help="Check whether a cluster can be used from this machine.")
@click.option("--topic", metavar="NAME", shell_complete=complete_topic, help="Also check this topic.")
@click.option("--group", metavar="NAME", shell_complete=complete_group, help="Also check this consumer group.")
@cluster_options
@output_option
def command(topic: str | None, group: str | None, target: Target, output: str) -> None:
    """Check a cluster from this machine: name servers, brokers and their advertised addresses, versions, clocks, disks,
    permissions, and optionally a topic and a group.

    Changes nothing. Exit status 4 when a check fails, 0 when there are only warnings.
    """
    import asyncio

    from rocketmq_py.client.doctor.queries import examine

    checks = asyncio.run(
        examine(lambda namesrv: target._replace(namesrv=namesrv).admin(), target.namesrv, topic, group)
    )
    if output == TABLE:
        echo_report(target, checks)
    else:
        echo_rows([check._asdict() for check in checks], output)
    if any(check.status == FAIL for check in checks):
        raise SystemExit(Status.UNHEALTHY)


def echo_report(target: Target, checks: Sequence[Check]) -> None:
    """Print the checks as text, each with its advice below it."""
    click.echo(f"{target.namesrv} ({target.origin})")
    what = max((len(f"{check.check} {check.target}") for check in checks), default=0)
    for check in checks:
        mark = click.style(f"{check.status:<4}", fg=_COLOURS[check.status])
        click.echo(f"{mark}  {f'{check.check} {check.target}':<{what}}  {check.detail}")
        if check.advice:
            click.echo(f"      {check.advice}")
    counts = [f"{sum(check.status == status for check in checks)} {status}" for status in (OK, WARN, FAIL)]
    click.echo(", ".join(counts))
