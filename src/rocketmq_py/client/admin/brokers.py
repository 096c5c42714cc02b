"""The administration of brokers: how they are doing, how they are set, how far their slaves are."""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_py.client.admin.base import AdminBase
from rocketmq_py.core.java_config import split_lines, write_properties
from rocketmq_py.protocol.bodies.admin import HaStatus
from rocketmq_py.protocol.bodies.route import KvTable
from rocketmq_py.protocol.codes import RequestCode


class BrokerAdmin(AdminBase):
    """The part of :class:`~rocketmq_py.client.admin.admin.Admin` about brokers. An ``address`` is ``host:port`` as
    the broker
    is registered, see :meth:`cluster`.
    """

    async def broker_state(self, address: str) -> dict[str, str]:
        """How a broker is doing, under Java's names: version, rates, disk, boot time and more."""
        return KvTable.decode((await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table

    async def broker_config(self, address: str) -> dict[str, str]:
        """The settings of a broker, under the keys of broker.conf."""
        answer = await self._ask(address, RequestCode.GET_BROKER_CONFIG)
        lines = split_lines(answer.body.decode("utf-8", "replace"))
        pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
        return {key.strip(): value.strip() for key, _, value in pairs}

    async def update_broker_config(self, address: str, changes: Mapping[str, str]) -> str:
        """Change settings of a running broker, which keeps them in its file.

        A broker of this project refuses all of ``changes`` if one is unknown or cannot be; an Apache RocketMQ broker
        ignores such a one and says nothing.

        :param changes: values by the keys of broker.conf.
        :returns: what the broker has to say of it: of this project's which keys wait for its next start. Else empty.
        :raises MessageRefused: a key or a value that cannot be.
        :raises PermissionDenied: a key that may not be changed from afar.
        """
        body = write_properties("", changes).encode()
        return (await self._ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)).remark or ""

    async def replication(self, address: str) -> HaStatus:
        """How far the slaves of a master are, or how a slave is doing."""
        return HaStatus.decode((await self._ask(address, RequestCode.GET_BROKER_HA_STATUS)).body)
