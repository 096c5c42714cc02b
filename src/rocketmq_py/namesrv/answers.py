"""Encode the name server's JSON bodies: as strict JSON, or with unquoted integer keys in some maps as Java does."""

from __future__ import annotations

from typing import Any

import msgspec

from rocketmq_py.protocol.bodies.base import Body, without_nulls
from rocketmq_py.protocol.bodies.route import BrokerMemberGroupData, ClusterInfo, TopicRouteData
from rocketmq_py.wire import fastjson


def encode_route(route: TopicRouteData, *, strict: bool) -> bytes:
    """Encode a route as strict JSON, or with the unquoted broker ids (``{0:"ip:port"}``) that clients before 4.9.4
    expect.
    """
    return route.encode() if strict else _with_bare_ids(route)


def encode_cluster_info(info: ClusterInfo) -> bytes:
    """Encode the list of all brokers, always with unquoted broker ids as Java does."""
    return _with_bare_ids(info)


def encode_members(members: BrokerMemberGroupData) -> bytes:
    """Encode the addresses of the brokers of one name, with unquoted broker ids."""
    return b'{"brokerMemberGroup":' + _with_bare_ids(members) + b"}"


def _with_bare_ids(body: Body) -> bytes:
    return fastjson.dumps_java(_bare(without_nulls(msgspec.to_builtins(body, str_keys=True))))


def _bare(value: Any) -> Any:
    """Copy a JSON value with all members sorted and the keys of every ``brokerAddrs`` unquoted."""
    if isinstance(value, dict):
        return {key: _bare_keys(member) if key == "brokerAddrs" else _bare(member)
                for key, member in sorted(value.items())}  # fmt: skip
    if isinstance(value, list):
        return [_bare(item) for item in value]
    return value


def _bare_keys(addresses: dict[str, str]) -> dict[fastjson.BareKey, str]:
    return {fastjson.BareKey(number): addresses[number] for number in sorted(addresses, key=int)}
