"""Metrics of clients for applications that use prometheus-client, under the names of Apache's clients of version 5.

No other module of the clients imports prometheus-client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from rocketmq_py.client.consumer.running_info import Health
from rocketmq_py.client.hooks.times import BOUNDS, LABELS

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Histogram
    from prometheus_client.metrics_core import GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as e:
    raise ImportError("these metrics need the package prometheus-client: pip install 'rocketmq-py[prometheus]'") from e

_CACHED = ("topic", "client_id", "consumer_group")


class PrometheusTimes:
    """Records times as histograms of a registry.

    Use it as ``Producer(group, namesrv, hooks=[SendTimes(PrometheusTimes())])``; one for all clients of a process.

    :param registry: the registry; prometheus-client's own by default.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._histograms = {
            name: Histogram(name, "In milliseconds.", LABELS[name], registry=registry, buckets=bounds)
            for name, bounds in BOUNDS.items()
        }

    def observe(self, name: str, milliseconds: float, labels: Mapping[str, str]) -> None:
        """Record a time."""
        self._histograms[name].labels(**labels).observe(milliseconds)


class CachedMessages(Collector):
    """Shows how many messages consumers hold that are not consumed yet, when somebody asks.

    Use it as ``CachedMessages([consumer.health])``, with blocking consumers: it is called in the thread that serves the
    metrics.

    :param healths: return the health of each consumer.
    :param registry: the registry; prometheus-client's own by default.
    """

    def __init__(self, healths: Iterable[Callable[[], Health]], registry: CollectorRegistry = REGISTRY) -> None:
        self._healths = tuple(healths)
        registry.register(self)

    def describe(self) -> list[Metric]:
        """Return the families without samples: nothing is asked while the registry checks names."""
        return [*self._families()]

    def collect(self) -> Iterator[Metric]:
        """Return the number and size of held messages by topic."""
        messages, sizes = self._families()
        for health in self._healths:
            found = health()
            held: dict[str, tuple[int, int]] = {}
            for queue in found.queues:
                count, size = held.get(queue.queue.topic, (0, 0))
                held[queue.queue.topic] = count + queue.held, size + queue.held_bytes
            for topic, (count, size) in held.items():
                messages.add_metric([topic, found.client_id, found.group], count)
                sizes.add_metric([topic, found.client_id, found.group], size)
        yield messages
        yield sizes

    @staticmethod
    def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily("rocketmq_consumer_cached_messages", "Messages not consumed yet.", labels=_CACHED),
            GaugeMetricFamily("rocketmq_consumer_cached_bytes", "Bytes of their bodies.", labels=_CACHED),
        )
