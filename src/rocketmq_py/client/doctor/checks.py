"""The checks of ``rocketmq doctor``, computed from the answers of servers. No IO."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_py.client.times import show_span
from rocketmq_py.core.route import MASTER_ID

if TYPE_CHECKING:
    from rocketmq_py.core.route import TopicRoute
    from rocketmq_py.protocol.bodies.client import ConsumerConnection
    from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
    from rocketmq_py.protocol.bodies.route import ClusterInfo

OK, WARN, FAIL = "ok", "warn", "fail"

CLOCK_TOLERANCE_MS = 2000
"""Allowed clock difference; brokers report their time in whole seconds."""
DISK_WARN, DISK_FAIL = 0.75, 0.90
"""Disk usage above which brokers delete files early (diskMaxUsedSpaceRatio), and above which they refuse messages."""

_RUNTIME = re.compile(r"(\d+) days?, (\d+) hours?, (\d+) minutes?, (\d+) seconds?")


class Check(NamedTuple):
    """The result of one check.

    :ivar check: what was checked, such as ``disk``.
    :ivar target: the server, topic or group that was checked.
    :ivar status: ``ok``, ``warn`` or ``fail``.
    :ivar advice: how to fix a problem; empty if there is none.
    """

    check: str
    target: str
    status: str
    detail: str
    advice: str = ""


def name_server(address: str, info: ClusterInfo | None, error: str | None, millis: float) -> Check:
    """Check that a name server answers and has registered brokers.

    :param info: its answer; None if it does not answer.
    :param error: why it does not answer.
    :param millis: how long the answer took, in milliseconds.
    """
    if info is None:
        return Check(
            "nameserver",
            address,
            FAIL,
            error or "",
            "Check that a name server runs there and that no firewall blocks the port",
        )
    brokers = len(info.broker_addr_table)
    if not brokers:
        advice = "Start a broker with this name server in its namesrvAddr"
        return Check("nameserver", address, FAIL, "no broker is registered", advice)
    return Check("nameserver", address, OK, f"{brokers} broker{'s' * (brokers > 1)} registered, {millis:.0f} ms")


def agreement(infos: Mapping[str, ClusterInfo]) -> list[Check]:
    """Check that all name servers have the same brokers; return no check for a single name server.

    :param infos: the answers of name servers, by address.
    """
    tables = {address: info.broker_addr_table for address, info in infos.items()}
    if len(tables) < 2:
        return []
    first, *others = tables.values()
    if all(other == first for other in others):
        return [Check("nameservers", "all", OK, "they agree")]
    known = "; ".join(f"{address}: {', '.join(sorted(table)) or 'none'}" for address, table in tables.items())
    advice = "Set namesrvAddr of every broker to all name servers"
    return [Check("nameservers", "all", WARN, f"they have different brokers ({known})", advice)]


def reachable(name: str, address: str, error: str | None, millis: float) -> Check:
    """Check that the advertised address of a broker can be reached from this machine.

    :param error: why it cannot be reached; None if it can.
    :param millis: how long the answer took, in milliseconds.
    """
    if error is None:
        return Check("broker", name, OK, f"reachable at {address}, {millis:.0f} ms")
    advice = (
        f"{address} is the address that the broker advertises. If the broker runs but this machine cannot reach that "
        f"address, set brokerIP1 in its broker.conf, or use --map {address}=HOST:PORT"
    )
    return Check("broker", name, FAIL, error, advice)


def clock(name: str, state: Mapping[str, str], now_ms: int, took_ms: float = 0.0) -> Check:
    """Check that the broker's clock agrees with the local one, from the start time and uptime that the broker reports.

    :param state: the broker's runtime information.
    :param now_ms: local time when the answer arrived, in milliseconds since the epoch.
    :param took_ms: how long the answer took, in milliseconds; the broker read its clock within that time.
    """
    found = _RUNTIME.search(state.get("runtime", ""))
    if found is None or "bootTimestamp" not in state:
        return Check("clock", name, WARN, "the broker does not report its time")
    days, hours, minutes, seconds = map(int, found.groups())
    ran = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    ahead = int(state["bootTimestamp"]) + ran * 1000 - now_ms
    # The uptime is truncated to seconds, so an accurate clock appears up to one second behind.
    if -1000 - took_ms - CLOCK_TOLERANCE_MS <= ahead <= CLOCK_TOLERANCE_MS:
        return Check("clock", name, OK, "in step, to a second or two")
    which = f"{show_span(abs(ahead))} {'ahead' if ahead > 0 else 'behind'}"
    advice = "Delays, retries and lookups by time use the broker's clock: synchronise both machines with NTP"
    return Check("clock", name, WARN, f"the broker's clock is {which}", advice)


def version(name: str, state: Mapping[str, str], others: Collection[str]) -> Check:
    """Check that all brokers have the same version.

    :param state: the runtime information of the broker ``name``.
    :param others: the versions of all brokers.
    """
    own = state.get("brokerVersionDesc", "unknown")
    if len(set(others)) > 1:
        return Check("version", name, WARN, f"{own}; others differ", "Finish the upgrade, or roll it back")
    return Check("version", name, OK, own)


def disk(name: str, state: Mapping[str, str]) -> Check:
    """Check that a broker's disk is not so full that it deletes messages early (warn) or refuses messages (fail)."""
    text = state.get("commitLogDiskRatio")
    if text is None:
        return Check("disk", name, WARN, "the broker does not report it")
    ratio = float(text)
    detail = f"{ratio:.0%} full"
    if ratio >= DISK_FAIL:
        return Check("disk", name, FAIL, detail, "The broker refuses messages: free space, or shorten fileReservedTime")
    if ratio >= DISK_WARN:
        return Check("disk", name, WARN, detail, "Above this usage the broker deletes old messages early")
    return Check("disk", name, OK, detail)


def broker_permission(name: str, config: Mapping[str, str] | None, error: str | None) -> Check:
    """Check that the broker's permission allows reads and writes.

    :param config: the broker's settings; None if they are unknown.
    :param error: why they are unknown.
    """
    if config is None:
        return Check("permission", name, WARN, f"unknown: {error}")
    perm = int(config.get("brokerPermission", "6"))
    if perm & 6 == 6:
        return Check("permission", name, OK, "read and write")
    allowed = "read only" if perm & 4 else "write only" if perm & 2 else "neither read nor write"
    return Check(
        "permission", name, WARN, f"{allowed} (brokerPermission={perm})", "Set brokerPermission=6 to allow both"
    )


def without_master(name: str, ids: Collection[int]) -> Check | None:
    """Return a failed check if no master of a broker name is registered; otherwise None.

    :param ids: ids of the registered brokers of this name; 0 is the master.
    """
    if MASTER_ID in ids:
        return None
    detail = f"no master is registered, only slaves {', '.join(map(str, sorted(ids)))}: it accepts no messages"
    return Check("master", name, FAIL, detail, "Start the master, or check its log for why it does not register")


def replication(name: str, in_sync: int, registered: int) -> Check:
    """Check that the registered slaves are in sync with their master.

    :param in_sync: number of slaves in sync.
    :param registered: number of registered slaves.
    """
    detail = f"{in_sync} of {registered} slave{'s' * (registered > 1)} in sync"
    if in_sync >= registered:
        return Check("replication", name, OK, detail)
    advice = f"'rocketmq broker replicas {name}' shows the progress of each; the log of a slave contains the cause"
    return Check("replication", name, WARN, detail, advice)


def topic(name: str, route: TopicRoute) -> list[Check]:
    """Check that a topic has readable queues, writable queues, and a master for each of its brokers."""
    checks = []
    for verb, queues in (("read", route.read_queues), ("write", route.write_queues)):
        brokers = sorted({queue.broker_name for queue in queues})
        if queues:
            checks.append(Check(f"topic {verb}", name, OK, f"{len(queues)} queues on {', '.join(brokers)}"))
        else:
            advice = "Check its permission and its brokers with 'rocketmq topic describe'"
            checks.append(Check(f"topic {verb}", name, FAIL, "no queue", advice))
    without = sorted(broker for broker, ids in route.brokers.items() if 0 not in ids)
    if without:
        checks.append(Check("topic master", name, WARN, f"no master of {', '.join(without)}: it cannot be written"))
    return checks


def group(
    name: str, configs: Mapping[str, SubscriptionGroupConfig], members: ConsumerConnection | None, lag: int
) -> list[Check]:
    """Check that a consumer group may consume and has members, and report its lag.

    :param configs: the group's configuration, by broker name.
    :param members: the connected members; None if there are none.
    :param lag: the group's lag in messages.
    """
    off = sorted(broker for broker, config in configs.items() if not config.consume_enable)
    checks = []
    if off:
        advice = "Set consumeEnable of the group to true there"
        checks.append(Check("group", name, FAIL, f"may not consume from {', '.join(off)}", advice))
    if members is None:
        detail, advice = f"no member is connected, {lag} messages wait", "Start a consumer of the group"
        checks.append(Check("group", name, WARN if lag else OK, detail, advice if lag else ""))
    else:
        checks.append(Check("group", name, OK, f"{len(members.connection_set)} connected, {lag} messages wait"))
    return checks
