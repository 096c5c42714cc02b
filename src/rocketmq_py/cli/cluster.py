"""``rocketmq cluster``: list the brokers of a cluster and their state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.connect.connect import Target, cluster_options, with_admin
from rocketmq_py.cli.connect.listing import name_silent
from rocketmq_py.cli.output.failures import Status
from rocketmq_py.cli.output.tables import TABLE, Row, echo_rows, output_option
from rocketmq_py.cli.output.times import now_ms, show_span

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin

COLUMNS = ("cluster", "broker", "id", "role", "address", "version", "inTps", "outTps", "inToday", "outToday", "disk",
           "up")  # fmt: skip


@click.command(name="cluster")
@cluster_options
@output_option
def command(target: Target, output: str) -> None:
    """List the registered brokers and their state.

    Exit status 4 when a registered broker does not answer.
    """
    rows = with_admin(target, brokers)
    echo_rows(map(_in_short, rows) if output == TABLE else rows, output, COLUMNS)
    silent = {f"{row['broker']} at {row['address']}": row["error"] for row in rows if row["error"]}
    name_silent(silent)
    if silent:
        raise SystemExit(Status.UNHEALTHY)


async def brokers(admin: Admin) -> list[Row]:
    """Return an output row for each registered broker; field ``error`` is None unless the broker does not answer."""
    info = await admin.cluster()
    clusters = {name: cluster for cluster, names in info.cluster_addr_table.items() for name in names}
    wanted = [
        (clusters.get(name, data.cluster), name, broker_id, address)
        for name, data in sorted(info.broker_addr_table.items())
        for broker_id, address in sorted(data.broker_addrs.items())
    ]
    return list(await asyncio.gather(*(_broker(admin, *each) for each in wanted)))


async def _broker(admin: Admin, cluster: str, name: str, broker_id: int, address: str) -> Row:
    from rocketmq_py.errors import RocketMQError

    state, error = {}, None
    try:
        state = await admin.broker_state(address)
    except RocketMQError as e:
        error = str(e)
    return broker_row(cluster, name, broker_id, address, state, error)


def broker_row(
    cluster: str, name: str, broker_id: int, address: str, state: Mapping[str, str], error: str | None
) -> Row:
    """Return the output row of a broker.

    :param state: the broker's runtime information under Java's names; empty if the broker does not answer.
    :param error: why the broker does not answer; None if it does.
    """
    return {
        "cluster": cluster,
        "broker": name,
        "id": broker_id,
        "role": "master" if broker_id == 0 else "slave",
        "address": address,
        "version": state.get("brokerVersionDesc"),
        "inTps": first_rate(state.get("putTps")),
        "outTps": first_rate(state.get("getTransferredTps") or state.get("getTransferedTps")),
        "inToday": _today(state, "msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
        "outToday": _today(state, "msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
        "diskRatio": _number(state.get("commitLogDiskRatio")),
        "bootTimestamp": int(state.get("bootTimestamp", 0)) or None,
        "error": error,
    }


def first_rate(text: str | None) -> float | None:
    """Return the first of a broker's rates: messages per second over the last ten seconds; None if there is none.

    :param text: numbers separated by spaces, as brokers report them.
    """
    parts = (text or "").split()
    return round(float(parts[0]), 1) if parts else None


def _number(text: str | None) -> float | None:
    return float(text) if text else None


def _today(state: Mapping[str, str], now: str, morning: str) -> int | None:
    return int(state[now]) - int(state.get(morning, 0)) if now in state else None


def _in_short(row: Row) -> Row:
    ratio, boot = row["diskRatio"], row["bootTimestamp"]
    return {
        **row,
        "disk": None if ratio is None else f"{ratio:.0%}",
        "up": None if boot is None else show_span(max(0, now_ms() - boot)),
    }
