"""The rows of the table, one module per kind of work. A row is a function from a session to its figures."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.figures import Figure
from benchmarks.loads import WORKS
from benchmarks.rows import (
    batching,
    broker,
    brokers,
    clients,
    consumers,
    delayed,
    distance,
    failover,
    grpc,
    guarded,
    hold,
    replication,
    scraped,
    spark,
    starting,
    storing,
)
from benchmarks.session import Session

Row = Callable[[Session], list[Figure]]

ROWS: dict[str, Row] = {
    "start": starting.start,
    "memory": starting.memory,
    "recovery": storing.recovery,
    "topics": storing.topics,
    **{name: broker.row(name) for name in WORKS},
    "scraped": scraped.scraped,
    **{f"brokers-{number}": brokers.row(number) for number in (1, 2, 4)},
    "replication-async": replication.replication_async,
    "replication-sync": replication.replication_sync,
    "failover-read": failover.failover_read,
    "hold": hold.hold,
    "producer": clients.producer,
    **{f"batching-{mode}": batching.own(mode) for mode in batching.OWN},
    "batching-java": batching.java,
    "batching-kafka": batching.beside_kafka,
    **{
        f"distance-{kind}-{delay}ms": distance.consuming(kind, delay)
        for kind in distance.CONSUMERS
        for delay in distance.ONE_WAY_MS
    },
    **{f"distance-kafka-{delay}ms": distance.beside_kafka(delay) for delay in distance.ONE_WAY_MS},
    **{
        f"distance-spark-{work}{'-kafka' if peer == 'kafka' else ''}": spark.spark_far(work, peer)
        for work in ("read", "write")
        for peer in ("near", "kafka")
    },
    **{f"distance-{kind}-own": distance.own(kind) for kind in distance.CONSUMERS},
    **{f"grpc-send-{inflight}": grpc.sends(inflight) for inflight in (1, 64, 256)},
    "grpc-receive": grpc.receive,
    "delayed": delayed.delayed,
    "tls": guarded.tls,
    "signing": guarded.signing,
    "push": consumers.push,
    "push-32": consumers.push_32,
    "orderly": consumers.orderly,
    "lite-pull": consumers.lite_pull,
    "latency": consumers.latency,
    "first": consumers.first,
    "queues": consumers.queues,
    "rebalance": consumers.rebalance,
    "spark-read": spark.spark_read,
    "spark-read-1k": spark.spark_read_1k,
    "spark-read-java": spark.spark_read_java,
    "spark-read-java-1k": spark.spark_read_java_1k,
    "spark-store-read": spark.spark_store_read,
    "spark-cores": spark.spark_cores,
    "spark-memory": spark.spark_memory,
    **{f"spark-queues-{number}": spark.spark_queues(number) for number in (1_000, 8_000)},
    "spark-trigger": spark.spark_trigger,
    "spark-sink": spark.spark_sink,
    "spark-exactly-once": spark.spark_exactly_once,
}
"""All rows by name, in the order in which they run and are printed."""
