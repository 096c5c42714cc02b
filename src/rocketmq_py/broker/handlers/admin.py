"""Requests about the broker as a whole: its configuration, how it is doing, what a slave copies."""

from __future__ import annotations

from rocketmq_py.broker.config import BrokerConfig, java_lines
from rocketmq_py.broker.delay import DelayService
from rocketmq_py.broker.runtimeinfo import RuntimeInfo
from rocketmq_py.protocol.bodies import DataVersion, KvTable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers import VersionResponse
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.store import StoreConfig
from rocketmq_py.wire.fastjson import dumps_java


class AdminHandlers:
    """26, 28, 45."""

    def __init__(
        self, config: BrokerConfig, store_config: StoreConfig, runtime: RuntimeInfo, delay: DelayService
    ) -> None:
        self._lines = sorted([*java_lines(config), *java_lines(store_config)])
        self._version = DataVersion(timestamp=runtime.started_ms)
        self._runtime = runtime
        self._delay = delay

    @handles(Code.GET_BROKER_CONFIG)
    def config(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Every setting as ``key=value`` lines."""
        del peer, request, body
        header = VersionResponse(version=self._version.encode().decode())
        return Reply(header=header, body="".join(f"{line}\n" for line in self._lines).encode())

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
