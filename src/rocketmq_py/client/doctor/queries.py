"""The queries of ``rocketmq doctor`` to name servers and brokers; :mod:`.checks` evaluates the answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rocketmq_py.client.admin.admin import Admin
from rocketmq_py.client.doctor import checks
from rocketmq_py.client.doctor.checks import FAIL, WARN, Check
from rocketmq_py.client.name_servers import name_servers
from rocketmq_py.client.times import now_ms
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import NoRouteError, RocketMQError
from rocketmq_py.protocol.bodies.route import ClusterInfo

OpenAdmin = Callable[[str], Admin]
"""Returns a new administration client, not started, of the cluster of the given name servers."""


class _BrokerAnswers(NamedTuple):
    """The answers of one broker.

    :ivar state: its runtime information; empty if it does not answer.
    :ivar config: its settings; None if it does not report them.
    :ivar error: why it does not answer; None if it does.
    :ivar millis: how long the first answer took, in milliseconds.
    :ivar answered_at: when the first answer arrived, in milliseconds since the epoch.
    """

    name: str
    address: str
    state: dict[str, str]
    config: dict[str, str] | None
    error: str | None
    millis: float
    answered_at: int


async def examine(
    open_admin: OpenAdmin, namesrv: str, topic: str | None = None, group: str | None = None
) -> list[Check]:
    """Query a cluster and return all checks: name servers first, then brokers, topic and group.

    If no name server answers, there are only the checks of name servers.

    :param namesrv: addresses of the name servers.
    :param topic: also check this topic.
    :param group: also check this consumer group.
    """
    servers = name_servers(namesrv)
    answers = await asyncio.gather(*(_name_server(open_admin, server) for server in servers))
    found = [check for check, _ in answers]
    infos = {server: info for server, (_, info) in zip(servers, answers, strict=True) if info is not None}
    found += checks.agreement(infos)
    if not infos:
        return found
    async with open_admin(";".join(infos)) as admin:
        found += await _brokers(admin, next(iter(infos.values())))
        if topic is not None:
            found += await _topic(admin, topic)
        if group is not None:
            found += await _group(admin, group)
    return found


async def _name_server(open_admin: OpenAdmin, server: str) -> tuple[Check, ClusterInfo | None]:
    began, info, error = time.monotonic(), None, None
    async with open_admin(server) as admin:
        try:
            info = await admin.cluster()
        except RocketMQError as e:
            error = str(e)
    return checks.name_server(server, info, error, _millis(began)), info


async def _brokers(admin: Admin, info: ClusterInfo) -> list[Check]:
    addresses = [
        (f"{name}:{broker_id}", address)
        for name, data in sorted(info.broker_addr_table.items())
        for broker_id, address in sorted(data.broker_addrs.items())
    ]
    brokers = await asyncio.gather(*(_broker(admin, name, address) for name, address in addresses))
    versions = [broker.state["brokerVersionDesc"] for broker in brokers if "brokerVersionDesc" in broker.state]
    found = [check for broker in brokers for check in _broker_checks(broker, versions)]
    names = sorted(info.broker_addr_table.items())
    found += [check for name, data in names if (check := checks.without_master(name, data.broker_addrs))]
    pairs = [(name, data.broker_addrs) for name, data in sorted(info.broker_addr_table.items())
             if MASTER_ID in data.broker_addrs and len(data.broker_addrs) > 1]  # fmt: skip
    return found + await asyncio.gather(*(_replication(admin, name, ids) for name, ids in pairs))


async def _replication(admin: Admin, name: str, ids: Mapping[int, str]) -> Check:
    """Check that the slaves of a master are in sync.

    :param ids: addresses of the brokers of this name, by broker id.
    """
    try:
        status = await admin.replication(ids[MASTER_ID])
    except RocketMQError as e:
        return Check("replication", name, WARN, f"unknown: {e}")
    return checks.replication(name, status.in_sync_slave_nums, len(ids) - 1)


def _broker_checks(broker: _BrokerAnswers, versions: list[str]) -> list[Check]:
    first = checks.reachable(broker.name, broker.address, broker.error, broker.millis)
    if broker.error is not None and not broker.state:
        return [first]
    return [
        first,
        checks.version(broker.name, broker.state, versions),
        checks.clock(broker.name, broker.state, broker.answered_at, broker.millis),
        checks.disk(broker.name, broker.state),
        checks.broker_permission(broker.name, broker.config, "the broker does not report its settings"),
    ]


async def _broker(admin: Admin, name: str, address: str) -> _BrokerAnswers:
    began = time.monotonic()
    state: dict[str, str] = {}
    try:
        state = await admin.broker_state(address)
    except RocketMQError as e:
        return _BrokerAnswers(name, address, state, None, str(e), _millis(began), now_ms())
    millis, answered_at = _millis(began), now_ms()
    try:
        config = await admin.broker_config(address)
    except RocketMQError:
        config = None  # broker_permission() reports this as a warning
    return _BrokerAnswers(name, address, state, config, None, millis, answered_at)


async def _topic(admin: Admin, topic: str) -> list[Check]:
    try:
        return checks.topic(topic, await admin.route(topic))
    except NoRouteError as e:
        return [Check("topic", topic, FAIL, str(e))]


async def _group(admin: Admin, group: str) -> list[Check]:
    configs = (await admin.groups()).get(group)
    if configs is None:
        advice = "Brokers create a group when it first consumes, unless autoCreateSubscriptionGroup is false"
        return [Check("group", group, FAIL, "no broker has it", advice)]
    members, progress = await asyncio.gather(admin.members(group), admin.progress(group))
    return checks.group(group, configs, members, sum(state.lag for state in progress.values()))


def _millis(began: float) -> float:
    return (time.monotonic() - began) * 1000
