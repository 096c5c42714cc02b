"""Addresses as clients of gRPC get them."""

from __future__ import annotations

import ipaddress

from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.protocol.grpc.definition import Address, Broker, Endpoints
from rocketmq_py.protocol.grpc.enums import AddressScheme


def master_at(name: str, endpoints: Endpoints) -> Broker:
    """Return the master with a name, at an address."""
    return Broker(name=name, id=MASTER_ID, endpoints=endpoints)


def endpoints_of(host: str, port: int) -> Endpoints:
    """Return one address."""
    return Endpoints(scheme=_scheme(host), addresses=[Address(host=host, port=port)])


def _scheme(host: str) -> AddressScheme:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return AddressScheme.DOMAIN_NAME
    return AddressScheme.IPV4 if version == 4 else AddressScheme.IPV6
