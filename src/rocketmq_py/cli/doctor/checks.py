"""What a doctor concludes from what it has seen. Pure: nothing is asked here."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from rocketmq_py.cli.output.times import show_span
from rocketmq_py.core.route import MASTER_ID

if TYPE_CHECKING:
    from rocketmq_py.core.route import TopicRoute
    from rocketmq_py.protocol.bodies.client import ConsumerConnection
    from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
    from rocketmq_py.protocol.bodies.route import ClusterInfo

OK, WARN, FAIL = "ok", "warn", "fail"

CLOCK_TOLERANCE_MS = 2000
"""Brokers tell the time to the second only."""
DISK_WARN, DISK_FAIL = 0.75, 0.90
"""Where brokers begin to delete early (diskMaxUsedSpaceRatio), and where they refuse messages."""

_RUNTIME = re.compile(r"(\d+) days?, (\d+) hours?, (\d+) minutes?, (\d+) seconds?")


class Check(NamedTuple):
    """One finding. ``advice`` says what to try."""

    check: str
    target: str
    status: str
    detail: str
    advice: str = ""


def name_server(address: str, info: ClusterInfo | None, error: str | None, millis: float) -> Check:
    """Whether a name server answers, and knows brokers."""
    if info is None:
        return Check("nameserver", address, FAIL, error or "", "Does one run there? Is a firewall in between?")
    brokers = len(info.broker_addr_table)
    if not brokers:
        advice = "Start a broker with this name server in its namesrvAddr"
        return Check("nameserver", address, FAIL, "no broker is registered", advice)
    return Check("nameserver", address, OK, f"{brokers} broker{'s' * (brokers > 1)} registered, {millis:.0f} ms")


def agreement(infos: Mapping[str, ClusterInfo]) -> list[Check]:
    """Whether name servers tell the same; nothing to say of a single one."""
    tables = {address: info.broker_addr_table for address, info in infos.items()}
    if len(tables) < 2:
        return []
    first, *others = tables.values()
    if all(other == first for other in others):
        return [Check("nameservers", "all", OK, "they agree")]
    told = "; ".join(f"{address}: {', '.join(sorted(table)) or 'none'}" for address, table in tables.items())
    advice = "Every broker must name all of them in namesrvAddr"
    return [Check("nameservers", "all", WARN, f"they know different brokers ({told})", advice)]


def reachable(name: str, address: str, error: str | None, millis: float) -> Check:
    """Whether the address a broker advertises can be reached from here."""
    if error is None:
        return Check("broker", name, OK, f"reachable at {address}, {millis:.0f} ms")
    advice = (
        f"{address} is what the broker advertises. If it runs and only the address is wrong for here, set brokerIP1 in "
        f"its broker.conf, or give --map {address}=HOST:PORT"
    )
    return Check("broker", name, FAIL, error, advice)


def clock(name: str, state: Mapping[str, str], now_ms: int, took_ms: float = 0.0) -> Check:
    """Whether the broker's clock and ours agree. It tells when it started and for how many seconds it has run.

    :param now_ms: our time when its answer had come.
    :param took_ms: how long that took; somewhere within, the broker has looked at its clock.
    """
    found = _RUNTIME.search(state.get("runtime", ""))
    if found is None or "bootTimestamp" not in state:
        return Check("clock", name, WARN, "the broker does not tell its time")
    days, hours, minutes, seconds = map(int, found.groups())
    ran = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    ahead = int(state["bootTimestamp"]) + ran * 1000 - now_ms
    # The seconds are cut off: a broker in step seems to be up to one behind.
    if -1000 - took_ms - CLOCK_TOLERANCE_MS <= ahead <= CLOCK_TOLERANCE_MS:
        return Check("clock", name, OK, "in step, to a second or two")
    which = f"{show_span(abs(ahead))} {'ahead' if ahead > 0 else 'behind'}"
    advice = "Delays, retries and reading by time follow the broker's clock: let both machines keep time by NTP"
    return Check("clock", name, WARN, f"the broker's clock is {which}", advice)


def version(name: str, state: Mapping[str, str], others: Collection[str]) -> Check:
    """The broker's version, and whether all brokers have the same.

    :param others: the versions of all brokers.
    """
    told = state.get("brokerVersionDesc", "unknown")
    if len(set(others)) > 1:
        return Check("version", name, WARN, f"{told}; others differ", "Finish the upgrade, or roll it back")
    return Check("version", name, OK, told)


def disk(name: str, state: Mapping[str, str]) -> Check:
    """How full the broker's disk is."""
    text = state.get("commitLogDiskRatio")
    if text is None:
        return Check("disk", name, WARN, "the broker does not tell")
    ratio = float(text)
    detail = f"{ratio:.0%} full"
    if ratio >= DISK_FAIL:
        return Check("disk", name, FAIL, detail, "The broker refuses messages: free space, or shorten fileReservedTime")
    if ratio >= DISK_WARN:
        return Check("disk", name, WARN, detail, "The broker deletes old messages early from here on")
    return Check("disk", name, OK, detail)


def broker_permission(name: str, config: Mapping[str, str] | None, error: str | None) -> Check:
    """What the broker as a whole lets clients do."""
    if config is None:
        return Check("permission", name, WARN, f"not known: {error}")
    perm = int(config.get("brokerPermission", "6"))
    if perm & 6 == 6:
        return Check("permission", name, OK, "read and write")
    allowed = "read only" if perm & 4 else "write only" if perm & 2 else "neither read nor write"
    return Check("permission", name, WARN, f"{allowed} (brokerPermission={perm})", "Set brokerPermission=6 to end that")


def without_master(name: str, ids: Collection[int]) -> Check | None:
    """That nobody takes messages under a broker's name; None where there is a master."""
    if MASTER_ID in ids:
        return None
    detail = f"no master is registered, slaves {', '.join(map(str, sorted(ids)))} are: no message can be sent there"
    return Check("master", name, FAIL, detail, "Start the master, or see in its log why it does not register")


def replication(name: str, in_sync: int, registered: int) -> Check:
    """Whether the slaves that name servers know follow their master."""
    detail = f"{in_sync} of {registered} slave{'s' * (registered > 1)} in sync"
    if in_sync >= registered:
        return Check("replication", name, OK, detail)
    advice = f"'rocketmq broker replicas {name}' shows how far each is; the log of a slave says why it does not follow"
    return Check("replication", name, WARN, detail, advice)


def topic(name: str, route: TopicRoute) -> list[Check]:
    """Whether a topic can be read and written, and where."""
    checks = []
    for verb, queues in (("read", route.read_queues), ("write", route.write_queues)):
        brokers = sorted({queue.broker_name for queue in queues})
        if queues:
            checks.append(Check(f"topic {verb}", name, OK, f"{len(queues)} queues on {', '.join(brokers)}"))
        else:
            advice = "Look at its permission and its brokers with 'rocketmq topic describe'"
            checks.append(Check(f"topic {verb}", name, FAIL, "no queue", advice))
    without = sorted(broker for broker, ids in route.brokers.items() if 0 not in ids)
    if without:
        checks.append(Check("topic master", name, WARN, f"no master of {', '.join(without)}: it cannot be written"))
    return checks


def group(
    name: str, configs: Mapping[str, SubscriptionGroupConfig], members: ConsumerConnection | None, lag: int
) -> list[Check]:
    """Whether a consumer group may consume, who does, and how much waits."""
    off = sorted(broker for broker, config in configs.items() if not config.consume_enable)
    checks = []
    if off:
        advice = "Its consumeEnable is false there"
        checks.append(Check("group", name, FAIL, f"may not consume from {', '.join(off)}", advice))
    if members is None:
        detail, advice = f"nobody is connected, {lag} messages wait", "Start a consumer of the group"
        checks.append(Check("group", name, WARN if lag else OK, detail, advice if lag else ""))
    else:
        checks.append(Check("group", name, OK, f"{len(members.connection_set)} connected, {lag} messages wait"))
    return checks
