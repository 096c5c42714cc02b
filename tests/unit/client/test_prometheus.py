"""Metrics of clients in a registry of prometheus-client."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rocketmq_py.client.consumer.running_info import Health, QueueHealth
from rocketmq_py.client.hooks.times import BOUNDS, LABELS, PROCESS
from rocketmq_py.client.prometheus import CachedMessages, PrometheusTimes
from rocketmq_py.model import MessageQueue


def samples(registry: CollectorRegistry) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            values = tuple(sample.labels.get(name, "") for name in ("le", "topic", "client_id", "consumer_group"))
            found.setdefault(sample.name, {})[values] = sample.value
    return found


def test_times_are_histograms_with_apache_s_buckets() -> None:
    registry = CollectorRegistry()
    times = PrometheusTimes(registry)
    labels = dict.fromkeys(LABELS[PROCESS], "x")
    times.observe(PROCESS, 50.0, labels)
    found = samples(registry)
    bounds = {key[0]: value for key, value in found[f"{PROCESS}_bucket"].items()}
    assert bounds == {f"{float(bound)}": float(bound >= 50) for bound in BOUNDS[PROCESS]} | {"+Inf": 1.0}
    assert found[f"{PROCESS}_sum"] == {("", "x", "x", "x"): 50.0}


def health(client: str, *held: tuple[str, int, int]) -> Health:
    queues = [QueueHealth(MessageQueue(topic, "b", number), count, size, 0, 0, 0.0, 0.0)
              for number, (topic, count, size) in enumerate(held)]  # fmt: skip
    return Health("running", False, client, "g", queues, {}, [], [], 0)


def test_held_messages_are_shown_by_topic() -> None:
    asked = []

    def of_one() -> Health:
        asked.append(1)
        return health("c1", ("t", 3, 30), ("t", 4, 40), ("u", 1, 5))

    registry = CollectorRegistry()
    CachedMessages([of_one, lambda: health("c2", ("t", 2, 20))], registry)
    assert asked == []
    found = samples(registry)
    assert found["rocketmq_consumer_cached_messages"] == {
        ("", "t", "c1", "g"): 7.0, ("", "u", "c1", "g"): 1.0, ("", "t", "c2", "g"): 2.0,
    }  # fmt: skip
    assert found["rocketmq_consumer_cached_bytes"] == {
        ("", "t", "c1", "g"): 70.0, ("", "u", "c1", "g"): 5.0, ("", "t", "c2", "g"): 20.0,
    }  # fmt: skip
