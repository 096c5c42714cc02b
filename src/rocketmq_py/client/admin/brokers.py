"""Administration of brokers: state, configuration, replication."""

from __future__ import annotations

from collections.abc import Mapping

from rocketmq_py.client.admin.base import AdminBase
from rocketmq_py.core.java_config import split_lines, write_properties
from rocketmq_py.protocol.bodies.admin import HaStatus
from rocketmq_py.protocol.bodies.route import KvTable
from rocketmq_py.protocol.codes import RequestCode


class BrokerAdmin(AdminBase):
    """Base of :class:`~rocketmq_py.client.admin.admin.Admin`: its methods for brokers.

    The parameter ``address`` is the ``host:port`` under which the broker is registered, see :meth:`cluster`.
    """

    async def broker_state(self, address: str) -> dict[str, str]:
        """The runtime state of a broker, by Java's keys: version, message rates, disk usage, boot time and more."""
        return KvTable.decode((await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table

    async def broker_config(self, address: str) -> dict[str, str]:
        """The configuration of a broker: values as text, by the keys of broker.conf."""
        answer = await self._ask(address, RequestCode.GET_BROKER_CONFIG)
        lines = split_lines(answer.body.decode("utf-8", "replace"))
        pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
        return {key.strip(): value.strip() for key, _, value in pairs}

    async def update_broker_config(self, address: str, changes: Mapping[str, str]) -> str:
        """Change the configuration of a running broker, which also writes it to its configuration file.

        A broker of this project refuses all of ``changes`` if one key is unknown or one value illegal; a broker of
        Apache RocketMQ silently ignores such a key.

        :param changes: new values, by the keys of broker.conf.
        :returns: the remark in the broker's answer, or an empty text. A broker of this project lists there the keys
            that take effect only after a restart.
        :raises MessageRefused: an unknown key or an illegal value.
        :raises PermissionDenied: a key that may not be changed remotely.
        """
        body = write_properties("", changes).encode()
        return (await self._ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)).remark or ""

    async def replication(self, address: str) -> HaStatus:
        """The replication (HA) state of a broker: of a master with all its slaves, or of a slave."""
        return HaStatus.decode((await self._ask(address, RequestCode.GET_BROKER_HA_STATUS)).body)
