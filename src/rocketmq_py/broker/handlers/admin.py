"""Requests about the broker as a whole: its configuration, how it is doing, cleaning up, what a slave asks for."""

from __future__ import annotations

import logging

from rocketmq_py.broker.cluster.registration import Registration
from rocketmq_py.broker.config.live_settings import LiveSettings
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.runtime_info import RuntimeInfo
from rocketmq_py.broker.timer.delay_levels import DelayService
from rocketmq_py.core.java_config import escape_controls
from rocketmq_py.protocol.bodies.route import KvTable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.admin import VersionResponse
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.store import MessageStore
from rocketmq_py.wire.fastjson import dumps_java

_log = logging.getLogger(__name__)


class AdminHandlers:
    """25, 26, 28, 45, 306, 316, 329."""

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

    @handles(Code.UPDATE_BROKER_CONFIG)
    async def update_config(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Change settings, given as ``key=value`` lines; answered when the name servers know what concerns them.

        The remark says which of them wait for the next start.
        """
        del peer, request
        if not body:
            return Reply()
        later = ", ".join(sorted(self._settings.update(body.decode("utf-8", "replace"))))
        await self._registration.flush()
        return Reply(remark=f"in force from the next start on: {later}" if later else None)

    @handles(Code.GET_BROKER_CONFIG)
    def config(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Every setting as ``key=value`` lines."""
        del peer, request, body
        header = VersionResponse(version=self._settings.version.encode().decode())
        table = self._settings.table()
        return Reply(
            header=header,
            body="".join(f"{escape_controls(key)}={escape_controls(table[key])}\n" for key in sorted(table)).encode(),
        )

    @handles(Code.GET_BROKER_RUNTIME_INFO)
    def runtime_info(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """How the broker is doing, under Java's keys."""
        del peer, request, body
        return Reply(body=KvTable(table=self._runtime.table()).encode())

    @handles(Code.GET_ALL_DELAY_OFFSET)
    def delay_offsets(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """How far delayed messages have been delivered, as a slave takes it over."""
        del peer, request, body
        return Reply(body=dumps_java(self._delay.tree()))

    @handles(Code.CLEAN_EXPIRED_CONSUMEQUEUE)
    def clean_queues(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Correct the smallest offset of every queue. The cleaner does that whenever the log loses a file."""
        del request, body
        _log.info("%s asked for expired consume queues to be cleaned", peer.address)
        return Reply()

    @handles(Code.DELETE_EXPIRED_COMMITLOG)
    def delete_expired(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Remove expired files of the log with the next passes of the cleaner, whatever the hour."""
        del request, body
        _log.info("%s asked for expired commit log files to be removed", peer.address)
        self._store.delete_expired()
        return Reply()

    @handles(Code.CLEAN_UNUSED_TOPIC)
    def clean_unused(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Remove the queues of topics that are gone."""
        del request, body
        stored = {topic for topic, _ in self._store.queues()}
        for topic in sorted(stored - self._topics.table.keys()):
            if not self._topics.is_system(topic):
                _log.info("the queues of %s, a topic that is gone, are removed: %s asked for it", topic, peer.address)
                self._store.delete_topic(topic)
        return Reply()
