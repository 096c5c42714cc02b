"""Health and metrics of a name server: when its endpoint is there, and what it shows."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

from rocketmq_py.core.metrics.counters import RpcLatency
from rocketmq_py.core.metrics.exposition import COUNTER, GAUGE, Family, labels
from rocketmq_py.errors import ClosedError
from rocketmq_py.namesrv.config import NamesrvConfig
from rocketmq_py.namesrv.registry import Registry
from rocketmq_py.server import Server
from rocketmq_py.server.monitoring.exposition import Exposition, chunks, target_info
from rocketmq_py.server.monitoring.monitor import ServerMonitor
from rocketmq_py.server.monitoring.settings import extra_labels
from rocketmq_py.server.sliced_work import SlicedWork

SLICE_SECONDS = 0.005
SERVICE = "rocketmq-namesrv"
MOST_SERIES = 50_000

BROKERS = Family("rocketmq_py_namesrv_brokers", GAUGE, "Registered brokers, masters and slaves, of a cluster.")
SILENT = Family(
    "rocketmq_py_namesrv_broker_silent_seconds", GAUGE, "Time since the last registration or heartbeat of a broker."
)
LOST = Family("rocketmq_py_namesrv_lost_brokers_total", COUNTER, "Brokers removed without having unregistered.")
TOPICS = Family("rocketmq_py_namesrv_topics", GAUGE, "Topics with a route.")
CONNECTIONS = Family("rocketmq_py_namesrv_connections", GAUGE, "Open connections of clients and brokers.")
SLOW_TURNS = Family("rocketmq_py_namesrv_slow_turns_total", COUNTER, "Turns of the event loop of more than 50 ms.")
START_TIME = Family("rocketmq_py_namesrv_start_time_seconds", GAUGE, "When it started, in seconds since the epoch.")


class NamesrvMonitor(ServerMonitor):
    """Serves health and metrics of a name server, if its configuration asks for them.

    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(self, config: NamesrvConfig, registry: Registry, server: Server, clock: Callable[[], int]) -> None:
        self._registry, self._server, self._clock = registry, server, clock
        self._started_ms = 0
        self._latency: RpcLatency | None = None
        target = target_info(SERVICE, f"{socket.gethostname()}:{config.listen_port}")
        super().__init__(config, config.metrics_exporter_type, config.bind_address, target)
        base = labels({"node_type": "nameserver", **extra_labels(config.metrics_label)})
        self._exposition = Exposition(base, MOST_SERIES)

    async def start(self) -> None:
        """Serve health, and count for the metrics from now on.

        :raises ConfigError: a port cannot be listened on.
        """
        self._started_ms = self._clock()
        if self._serves_metrics:
            self._latency = self._server.dispatcher.latency = RpcLatency()
        await super().start()

    async def _collect(self, wanted: frozenset[str]) -> list[bytes]:
        if self._latency is None:
            raise ClosedError("the name server does not collect metrics")
        self._exposition.begin(wanted)
        slices = SlicedWork(asyncio.get_running_loop().call_soon, SLICE_SECONDS)
        return await slices.run(chunks(self._lines(self._latency)))

    def _lines(self, latency: RpcLatency) -> Iterator[str]:
        text, registry = self._exposition, self._registry
        yield from text.rpc(latency)
        members = registry.live_brokers()
        clusters: dict[str, int] = {}
        for member in members:
            clusters[member.cluster] = clusters.get(member.cluster, 0) + 1
        yield from text.family(
            BROKERS, ((text.labels(("cluster", cluster)), count) for cluster, count in clusters.items())
        )
        now = self._clock()
        yield from text.family(SILENT, (
            (text.labels(("cluster", member.cluster), ("node_id", member.broker_name),
                         ("broker_id", str(member.broker_id)), ("address", member.address)),
             max(0, now - member.seen_ms) / 1000)
            for member in members
        ))  # fmt: skip
        yield from text.gauges(
            (LOST, registry.lost_brokers), (TOPICS, registry.topic_count),
            (CONNECTIONS, len(self._server.connections)), (SLOW_TURNS, self._server.dispatcher.slow_turns.count),
            (START_TIME, self._started_ms / 1000),
        )  # fmt: skip
