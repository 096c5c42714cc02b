"""``rocketmq broker replicas``: the slaves of masters and their replication lag."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, with_admin
from rocketmq_py.cli.output.failures import Status, missing
from rocketmq_py.cli.output.tables import Row, echo_rows, output_option

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.protocol.bodies.admin import HaStatus

COLUMNS = ("broker", "master", "slave", "logEnd", "behind", "inSync", "bytesPerS")


@click.command("replicas")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@cluster_options
@output_option
def replicas(names: tuple[str, ...], target: Target, output: str) -> None:
    """Show the slaves of each master, or of the masters NAME, and how many bytes they are behind.

    Exit status 4 when a master has fewer slaves in sync than are registered, or a named master has none. A script that
    restarts brokers can wait for status 0.
    """
    found = with_admin(target, lambda admin: _replication(admin, names))
    echo_rows(
        [row for name, address, _, status in found for row in replica_rows(name, address, status)], output, COLUMNS
    )
    faults = [fault for name, _, registered, status in found
              if (fault := missing_slaves(name, status, registered, at_least=1 if names else 0))]  # fmt: skip
    for fault in faults:
        click.echo(fault, err=True)
    if faults:
        raise SystemExit(Status.UNHEALTHY)


async def _replication(admin: Admin, names: Sequence[str]) -> list[tuple[str, str, int, HaStatus]]:
    """Return name, address, number of registered slaves and replication status of each master.

    :param names: broker names; empty for all masters.

    :raises CommandFailure: no master of a name is registered; exit status 3.
    """
    table = (await admin.cluster()).broker_addr_table
    masters = {name: data.broker_addrs for name, data in table.items() if 0 in data.broker_addrs}
    for name in names:
        if name not in masters:
            known = ", ".join(sorted(masters)) or "none"
            raise missing(f"no master of broker {name} is registered", f"Registered masters: {known}")
    wanted = [(name, masters[name]) for name in sorted(names or masters)]
    states = await asyncio.gather(*(admin.replication(addresses[0]) for _, addresses in wanted))
    return [(name, addresses[0], len(addresses) - 1, state)
            for (name, addresses), state in zip(wanted, states, strict=True)]  # fmt: skip


def replica_rows(name: str, address: str, status: HaStatus) -> list[Row]:
    """Return an output row for each slave of a master; a single row without a slave if it has none."""
    master: Row = {"broker": name, "master": address, "slave": None, "logEnd": status.master_commit_log_max_offset,
                   "behind": None, "inSync": None, "bytesPerS": None}  # fmt: skip
    return [
        {**master, "slave": one.addr, "behind": max(0, one.diff), "inSync": one.in_sync,
         "bytesPerS": one.transferred_byte_in_second}
        for one in status.ha_connection_info
    ] or [master]  # fmt: skip


def missing_slaves(name: str, status: HaStatus, registered: int, *, at_least: int = 0) -> str | None:
    """Return a message if a master has too few slaves in sync, else None.

    :param registered: the number of registered slaves, which must all be in sync.
    :param at_least: the number of slaves required even if fewer are registered.
    """
    wanted = max(registered, at_least)
    if status.in_sync_slave_nums >= wanted:
        return None
    return f"broker {name}: {status.in_sync_slave_nums} of {wanted} slave{'s' * (wanted > 1)} in sync"
