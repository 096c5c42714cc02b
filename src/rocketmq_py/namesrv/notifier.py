"""Notify brokers that another broker of their name has the smallest id now (notifyMinBrokerIdChanged).

Notifications go to the addresses that the brokers registered for clients.
"""

from __future__ import annotations

import logging
import ssl

from rocketmq_py.errors import NetworkError
from rocketmq_py.namesrv.registry import MinIdChanged
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.cluster import NotifyMinBrokerIdChange
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.tasks import Background
from rocketmq_py.wire.command import Command

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 3.0


class Notifier:
    """Sends notifications to brokers in the background. Failed ones are logged and not repeated: brokers also detect
    the change themselves, but later.

    :param tls: TLS context of connections to brokers; None connects without TLS.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._outward = RpcClient(tls)
        self._telling = Background()

    def notify(self, change: MinIdChanged) -> None:
        """Send the change to all brokers in ``change.notify``, in the background."""
        log.info("of broker %s, id %d at %s is the smallest now", change.broker_name, change.min_id, change.min_address)
        header = NotifyMinBrokerIdChange(
            min_broker_id=change.min_id, broker_name=change.broker_name, min_broker_addr=change.min_address,
            offline_broker_addr=change.offline_address, ha_broker_addr=change.ha_address,
        )  # fmt: skip
        command = Command(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, ext=header.to_ext())
        for address in change.notify:
            self._telling.start(self._tell(address, command))

    async def _tell(self, address: str, command: Command) -> None:
        try:
            await self._outward.oneway(address, command, _CONNECT_SECONDS)
        except NetworkError as e:
            log.warning("broker at %s could not be notified of the smallest id: %s", address, e)

    async def close(self) -> None:
        """Cancel all notifications."""
        await self._telling.stop()
        self._outward.close()
