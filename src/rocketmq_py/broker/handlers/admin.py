"""Requests about the broker as a whole, and requests of name servers and of other brokers of the same name."""

from __future__ import annotations

import asyncio
import logging

from rocketmq_py.broker.body_limits import checked
from rocketmq_py.broker.cluster.membership import Membership
from rocketmq_py.broker.cluster.registration import Registration
from rocketmq_py.broker.config.live_settings import LiveSettings
from rocketmq_py.broker.ha.replication import Replication
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.pull.cold_read import answer_when_loaded
from rocketmq_py.broker.runtime_info import RuntimeInfo
from rocketmq_py.broker.timer.delay_levels import DelayService
from rocketmq_py.core.java_config import escape_controls
from rocketmq_py.protocol.bodies.route import KvTable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.admin import VersionResponse
from rocketmq_py.protocol.headers.cluster import ResetMasterFlushOffset
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply, handles
from rocketmq_py.server.sliced_work import in_slices
from rocketmq_py.store import MessageStore
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.wire.fastjson import dumps_java

_log = logging.getLogger(__name__)


class AdminHandlers:
    """Handlers of the request codes 25, 26, 28, 45, 306, 316 and 329."""

    def __init__(
        self,
        settings: LiveSettings,
        runtime: RuntimeInfo,
        delay: DelayService,
        store: MessageStore,
        topics: TopicConfigs,
        registration: Registration,
    ) -> None:
        self._settings = settings
        self._registration = registration
        self._runtime = runtime
        self._delay = delay
        self._store = store
        self._topics = topics
        self._updating = asyncio.Lock()

    @handles(Code.UPDATE_BROKER_CONFIG)
    async def update_config(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Change settings given as ``key=value`` lines; answered after the name servers have the changes they need.

        The remark lists the settings that apply from the next start on.
        """
        del peer
        if not body:
            return Reply()
        async with self._updating:
            found = self._settings.update(checked(request.code, body).decode("utf-8", "replace"))
            await asyncio.sleep(0)  # each writes a file: one in a turn of the event loop
        later = ", ".join(sorted(found))
        await self._registration.flush()
        return Reply(remark=f"in force from the next start on: {later}" if later else None)

    @handles(Code.GET_BROKER_CONFIG)
    def config(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return all settings as ``key=value`` lines."""
        del peer, request, body
        header = VersionResponse(version=self._settings.version.encode().decode())
        table = self._settings.table()
        return Reply(
            header=header,
            body="".join(f"{escape_controls(key)}={escape_controls(table[key])}\n" for key in sorted(table)).encode(),
        )

    @handles(Code.GET_BROKER_RUNTIME_INFO)
    def runtime_info(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return the runtime table, under Java's keys."""
        del peer, request, body

        def read(residency: Residency | None) -> Reply:
            self._store.checks.earliest_message_time(residency)
            return Reply(body=KvTable(table=self._runtime.table()).encode())

        return answer_when_loaded(read, self._store.new_residency())

    @handles(Code.GET_ALL_DELAY_OFFSET)
    def delay_offsets(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the delivery offset of each delay level as JSON, for slaves."""
        del peer, request, body
        return Reply(body=dumps_java(self._delay.tree()))

    @handles(Code.CLEAN_EXPIRED_CONSUMEQUEUE)
    def clean_queues(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Do nothing: the store corrects the minimum offset of every queue whenever it deletes a log file."""
        del request, body
        _log.info("%s requested the cleaning of expired consume queues", peer.address)
        return Reply()

    @handles(Code.DELETE_EXPIRED_COMMITLOG)
    def delete_expired(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Delete expired commit log files with the next runs of the cleaner, at any hour."""
        del request, body
        _log.info("%s requested the deletion of expired commit log files", peer.address)
        self._store.delete_expired()
        return Reply()

    @handles(Code.CLEAN_UNUSED_TOPIC)
    async def clean_unused(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Delete the queues of topics that no longer exist."""
        del request, body
        stored = {topic for topic, _ in self._store.queues()}
        for topic in sorted(stored - self._topics.table.keys()):
            if self._topics.get(topic) is None and not self._topics.is_system(topic):
                _log.info(
                    "deleting the queues of topic %s, which no longer exists, on request of %s", topic, peer.address
                )
                await in_slices(self._store.topic_removal(topic))
                await asyncio.sleep(0)  # one topic in a turn of the event loop at least
        return Reply()


class BrokerHandlers:
    """Handlers of the request codes 905 to 908, which name servers and other brokers send."""

    def __init__(self, replication: Replication, membership: Membership) -> None:
        self._replication = replication
        self._membership = membership

    @handles(Code.NOTIFY_MIN_BROKER_ID_CHANGE)
    def min_broker_id(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Handle a name server's notification that another broker of this name has the smallest id now."""
        del peer, body
        self._membership.notified(request.header)
        return Reply()

    @handles(Code.EXCHANGE_BROKER_HA_INFO)
    def exchange_ha_info(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the HA address of the master, or receive it from a broker of the same name."""
        del peer, body
        return Reply(header=self._replication.exchange(request.header))

    @handles(Code.GET_BROKER_HA_STATUS)
    def ha_status(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the status of replication: of the connected slaves at a master, of this broker at a slave."""
        del peer, request, body
        return Reply(body=dumps_java(self._replication.status()))

    @handles(Code.RESET_MASTER_FLUSH_OFFSET)
    def reset_master_flush_offset(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Receive the flushed offset of the master; ignored by a master."""
        del peer, body
        header: ResetMasterFlushOffset = request.header
        self._replication.master_flushed(header.master_flush_offset)
        return Reply()
