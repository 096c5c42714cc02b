"""``rocketmq broker``: show and change settings of running brokers, and show their replicas."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from rocketmq_py.cli.broker.replicas import replicas
from rocketmq_py.cli.connect.connect import Target, cluster_options, with_admin
from rocketmq_py.cli.output.failures import CommandFailure, missing
from rocketmq_py.cli.output.tables import echo_record, output_option
from rocketmq_py.cli.server.settings import assigned

if TYPE_CHECKING:
    from rocketmq_py.client.admin.admin import Admin
    from rocketmq_py.protocol.bodies.route import ClusterInfo


@click.group(name="broker")
def command() -> None:
    """Brokers: settings, set, replicas.

    BROKER is a name (of a master), a name with an id (broker-a:1) or an address; 'rocketmq cluster' lists them.
    """


command.add_command(replicas)


@command.command("settings")
@click.argument("broker")
@click.argument("patterns", nargs=-1, metavar="[KEY...]")
@cluster_options
@output_option
def settings(broker: str, patterns: tuple[str, ...], target: Target, output: str) -> None:
    """Show the settings of a running broker, by default all; KEY is a name with * and ?."""

    async def work(admin: Admin) -> dict[str, str]:
        return await admin.broker_config(address_of(await admin.cluster(), broker))

    found = with_admin(target, work)
    wanted = {key: found[key] for key in sorted(found) if not patterns or _is_named(key, patterns)}
    if not wanted:
        raise missing(f"broker {broker} has no setting {' or '.join(patterns)}")
    echo_record(wanted, output)


def _is_named(key: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(key.lower(), pattern.lower()) for pattern in patterns)


@command.command("set")
@click.argument("broker")
@click.argument("assignments", nargs=-1, required=True, metavar="KEY=VALUE...")
@cluster_options
def set_(broker: str, assignments: tuple[str, ...], target: Target) -> None:
    """Change settings of a running broker, which also writes them to its settings file.

    An unknown key or an invalid value is refused, and then no setting changes. The broker reports which settings take
    effect at its next start.
    """
    changes = assigned(assignments)

    async def work(admin: Admin) -> tuple[str, dict[str, str], dict[str, str]]:
        address = address_of(await admin.cluster(), broker)
        before = await admin.broker_config(address)
        remark = await admin.update_broker_config(address, changes)
        return remark, before, await admin.broker_config(address)

    remark, before, now = with_admin(target, work)
    ignored = {key: reason for key in changes if (reason := ignored_setting(key, changes[key], before, now))}
    for key in (key for key in changes if key not in ignored):
        click.echo(f"{key}={now[key]}")
    if remark:
        click.echo(remark, err=True)
    if ignored:
        raise CommandFailure(f"broker {broker} ignored settings: {'; '.join(ignored.values())}")


def ignored_setting(key: str, value: str, before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return why a broker did not apply a setting; None if it did.

    Java brokers silently ignore unknown keys and invalid values.

    :param before: the broker's settings before the change.
    :param now: the broker's settings after the change.
    """
    from rocketmq_py.core.java_config import unknown_key

    if key not in now:
        return unknown_key(key, now)
    if now[key] != before.get(key) or now[key].lower() == value.lower():
        return None
    return f"{key} is still {now[key]!r}"


def address_of(info: ClusterInfo, broker: str) -> str:
    """Return the address of a registered broker.

    :param broker: its name (of a master), its name and id (``broker-a:1``), or its address.

    :raises CommandFailure: no such broker is registered; exit status 3.
    """
    brokers = {f"{name}:{number}": address for name, data in sorted(info.broker_addr_table.items())
               for number, address in sorted(data.broker_addrs.items())}  # fmt: skip
    found = brokers.get(broker) or brokers.get(f"{broker}:0")
    if found is not None:
        return found
    if broker in brokers.values():
        return broker
    known = ", ".join(f"{name} at {address}" for name, address in brokers.items()) or "none"
    raise missing(f"no broker {broker} is registered", f"Registered: {known}")
