"""Makes the exposition of a broker's metrics from what it knows, when somebody asks for it.

It is made in short steps, see :class:`~rocketmq_py.server.sliced_work.SlicedWork`: a broker with many topics and groups
serves its clients in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metrics import families as f
from rocketmq_py.broker.metrics.blocks import Blocks
from rocketmq_py.broker.metrics.group_lines import GroupLines
from rocketmq_py.broker.services import Services
from rocketmq_py.core.metrics.counters import ACK, CHECK_POINT, SIZE_BOUNDS, MessageCounts, PopEntries, RpcLatency
from rocketmq_py.core.metrics.exposition import Labels, labels
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import version_name
from rocketmq_py.server import Peer, Server
from rocketmq_py.server.monitoring.exposition import Exposition, Row, chunks, text_of
from rocketmq_py.server.monitoring.settings import extra_labels
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import FileSystem

SLICE_SECONDS = 0.005
_NO_POPS = (0, 0)

_MODES = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
_LANES = {
    "send": "send", "pull": "pull", "ack": "ack", "query": "query_message", "client": "client_manager",
    "heartbeat": "heartbeat", "transaction": "transaction", "consumer": "consumer_manager", "admin": "admin",
    "reply": "reply",
}  # fmt: skip
"""Java's names of processors by lane."""
_NO_LANES = ("async_put", "lite_pull")
"""Java's processors whose requests never wait here."""
_SPANS = (5, 60, 300, 900, 3600, 14400, 28800, 86400)
"""Seconds by which timed messages are counted."""
_STATUS = {True: "success", False: "failure"}
_PUT_OK = ("put_status", "PUT_OK")
_POPS_AT_ONCE = 20

Sent = tuple[str, str, int, int]
"""Topic, type of message, messages, bytes."""
Received = tuple[str, str, bool, int, int]
"""Group, topic, whether by pops, messages, bytes."""


class Collector:
    """Collects the metrics of a running broker.

    :param counts: what the broker counts for metrics only.
    :param latency: latency of requests.
    """

    def __init__(
        self, config: BrokerConfig, services: Services, server: Server, counts: MessageCounts, latency: RpcLatency,
        clock: Callable[[], int], call_soon: Callable[[Callable[[], None]], object], fs: FileSystem,
    ) -> None:  # fmt: skip
        self._config, self._services, self._server = config, services, server
        self._counts, self._latency, self._clock, self._fs = counts, latency, clock, fs
        self._slices = SlicedWork(call_soon, SLICE_SECONDS)
        base = labels({
            "cluster": config.broker_cluster_name, "node_type": "broker", "node_id": config.broker_name,
            "otel_scope_name": "broker-meter",  # Java's exporter adds it to every series
            **({"aggregation": "delta"} if config.metrics_in_delta else {}),
            **extra_labels(config.metrics_label),
        })  # fmt: skip
        self._exposition = Exposition(base, config.metrics_otel_cardinality_limit)
        self._sent, self._received = Blocks(self._about_sent), Blocks(self._about_received)
        self._disk = f'{base},storage_type="local",storage_medium="disk"'
        self._groups = GroupLines(
            services, self._exposition, self._slices, clock, queue_level=config.metrics_queue_level
        )

    async def collect(self, wanted: frozenset[str] = frozenset()) -> list[bytes]:
        """Return the exposition in pieces: joining a large one takes longer than a step.

        :param wanted: names of metrics; empty for all.
        """
        self._exposition.begin(wanted)
        about_groups = await self._groups.collect() if self._config.enable_lag_and_dlq_metrics else []
        if self._exposition.is_wanted(f.TIMER_SNAPSHOT) and self._config.enable_message_store_metrics:
            await self._services.store.loader.run(
                lambda residency: self._services.timers.check_spans(self._clock(), _SPANS, residency)
            )
        messages = list[bytes]()
        if self._config.enable_request_metrics:
            await self._slices.run(self._messages(messages))
        return about_groups + messages + await self._slices.run(chunks(self._lines()))

    def _lines(self) -> Iterator[str]:
        config = self._config
        parts: list[tuple[bool, Iterator[str]]] = [
            (config.enable_request_metrics, self._creations()),
            (config.enable_remoting_metrics, self._exposition.rpc(self._latency)),
            (config.enable_stats_metrics, self._state()),
            (config.enable_connection_metrics, self._connections()),
            (config.enable_lag_and_dlq_metrics, self._dead_letters()),
            (config.enable_transaction_metrics, self._transactions()),
            (config.enable_message_store_metrics, self._store()),
            (config.enable_message_store_metrics, self._timers()),
            (config.enable_pop_metrics, self._pop()),
            (True, self._own()),
        ]
        for is_on, part in parts:
            if is_on:
                yield from part

    # -- requests

    def _messages(self, pieces: list[bytes]) -> Iterator[None]:
        """Add the families about messages that were sent and received to a list."""
        sent, received = self._sent, self._received
        yield from sent.fill(self._sent_rows())
        yield from received.fill(self._received_rows())
        for family, blocks, number, lines in (
            (f.MESSAGES_IN, sent, 0, 1), (f.THROUGHPUT_IN, sent, 1, 1), (f.MESSAGE_SIZE, sent, 2, len(SIZE_BOUNDS) + 3),
            (f.MESSAGES_OUT, received, 0, 1), (f.THROUGHPUT_OUT, received, 1, 1),
        ):  # fmt: skip
            pieces.extend(self._exposition.blocks(family, blocks.of(number), blocks.series, lines))
            yield

    def _sent_rows(self) -> Iterator[Sent]:
        for (topic, kind), flow in list(self._counts.received.items()):
            yield topic, kind, flow.messages, flow.size

    def _about_sent(self, rows: list[Sent]) -> tuple[str, str, str]:
        messages, size, sizes = list[str](), list[str](), list[str]()
        for topic, kind, count, total in rows:
            text = self._exposition.labels(("topic", topic), ("message_type", kind), self._system(topic))
            messages.append(f.MESSAGES_IN.sample(text, count))
            size.append(f.THROUGHPUT_IN.sample(text, total))
            sizes.append(f.MESSAGE_SIZE.buckets(text, self._counts.received[topic, kind].sizes))
        return "".join(messages), "".join(size), "".join(sizes)

    def _received_rows(self) -> Iterator[Received]:
        popped = self._services.stats.popped
        for group, topic, messages, size in self._services.stats.got_by():
            by_pop, size_by_pop = popped.get((group, topic), _NO_POPS) if popped else _NO_POPS
            if by_pop:
                yield group, topic, True, by_pop, size_by_pop
            if messages > by_pop:
                yield group, topic, False, messages - by_pop, size - size_by_pop

    def _about_received(self, rows: list[Received]) -> tuple[str, str]:
        messages, size = list[str](), list[str]()
        for group, topic, is_pop, count, total in rows:
            text = self._labels_of_received(group, topic, is_pop=is_pop)
            messages.append(f.MESSAGES_OUT.sample(text, count))
            size.append(f.THROUGHPUT_OUT.sample(text, total))
        return "".join(messages), "".join(size)

    def _labels_of_received(self, group: str, topic: str, *, is_pop: bool) -> Labels:
        common = (("topic", topic), ("consumer_group", group), self._system(topic, group))
        if not is_pop:
            return self._exposition.labels(*common)
        return self._exposition.labels(*common, ("is_retry", text_of(value=names.is_retry_topic(topic))))

    def _creations(self) -> Iterator[str]:
        make, status = self._exposition.labels, "invocation_status"
        yield from self._exposition.histogram(f.TOPIC_CREATION, [
            (make((status, _STATUS[succeeded]), ("is_system", text_of(value=is_system))), found)
            for (succeeded, is_system), found in self._counts.topics_created.items()
        ])  # fmt: skip
        yield from self._exposition.histogram(f.GROUP_CREATION, [
            (make((status, _STATUS[succeeded])), found) for succeeded, found in self._counts.groups_created.items()
        ])  # fmt: skip

    def _system(self, topic: str, group: str = "") -> tuple[str, str]:
        is_system = self._services.topics.is_system(topic) or (group != "" and names.is_system_group(group))
        return "is_system", text_of(value=is_system)

    # -- state

    def _state(self) -> Iterator[str]:
        services, lanes = self._services, self._server.dispatcher.lanes
        waiting = {processor: lanes[lane].running for lane, processor in _LANES.items()} | dict.fromkeys(_NO_LANES, 0)
        waiting["send"] += len(services.waiting_sends)
        rows = ((self._exposition.labels(("processor", processor)), count) for processor, count in waiting.items())
        yield from self._exposition.family(f.WATERMARK, rows)
        yield from self._exposition.family(f.PERMISSION, [(self._exposition.base, self._config.broker_permission)])
        yield from self._exposition.family(f.TOPICS, [(self._exposition.base, len(services.topics.table))])
        yield from self._exposition.family(f.GROUPS, [(self._exposition.base, len(services.groups.table))])

    def _connections(self) -> Iterator[str]:
        producers: dict[tuple[str, str, str], set[object]] = {}
        for members in list(self._services.clients.producers.groups.values()):
            for member in members.values():
                key = member.language, version_name(member.version), _protocol(member.channel)
                producers.setdefault(key, set()).add(member.channel)
            yield ""
        rows = [(self._exposition.labels(("language", language.lower()), ("version", version.lower()),
                              ("protocol_type", protocol)), len(found))
                for (language, version, protocol), found in producers.items()]  # fmt: skip
        yield from self._exposition.family(f.PRODUCERS, rows)
        yield from self._exposition.family(f.CONSUMERS, self._consumers())

    def _consumers(self) -> Iterator[Row]:
        for group in list(self._services.clients.consumers.groups.values()):
            counts: dict[tuple[str, str, str], int] = {}
            for member in group.members.values():
                key = member.language, version_name(member.version), _protocol(member.channel)
                counts[key] = counts.get(key, 0) + 1
            for (language, version, protocol), count in counts.items():
                yield self._exposition.labels(
                    ("consumer_group", group.name), ("language", language.lower()), ("version", version.lower()),
                    ("consume_mode", _MODES.get(group.consume_type, "push")), ("protocol_type", protocol),
                    ("is_system", text_of(value=names.is_system_group(group.name))),
                ), count  # fmt: skip

    # -- groups

    def _dead_letters(self) -> Iterator[str]:
        rows = (
            (self._exposition.labels(("topic", topic), ("consumer_group", group), self._system(topic, group)), count)
            for topic, group, count in self._services.stats.dead_letters()
        )
        yield from self._exposition.family(f.DEAD_LETTERS, rows)

    def _age(self, *places: tuple[str, int, int]) -> int:
        """Return how many milliseconds ago the oldest of these messages was stored; 0 without any."""
        times = [time for place in places if (time := self._services.store.store_time(*place)) > 0]
        return max(0, self._clock() - min(times)) if times else 0

    # -- transactions

    def _transactions(self) -> Iterator[str]:
        counts, by_topic = self._counts, self._by_topic
        yield from self._exposition.family(f.COMMITTED, by_topic(counts.committed))
        yield from self._exposition.family(f.ROLLED_BACK, by_topic(counts.rolled_back))
        yield from self._exposition.family(f.HALF_MESSAGES, by_topic(counts.open_halves))
        spans = [
            (self._exposition.labels(("topic", topic)), found) for topic, found in list(counts.finish_seconds.items())
        ]
        yield from self._exposition.histogram(f.FINISH_LATENCY, spans)
        end = self._services.store.queue_range(names.HALF_TOPIC, 0)[1]
        yield from self._exposition.family(
            f.OPEN_TRANSACTIONS, [(self._exposition.base, self._services.transactions.table.open_count(end))]
        )

    def _by_topic(self, table: dict[str, int], base: str = "") -> list[Row]:
        base = base or self._exposition.base
        return [(f"{base},{labels([('topic', topic)])}", count) for topic, count in list(table.items())]

    # -- store

    def _store(self) -> Iterator[str]:
        store, disk = self._services.store, self._disk
        _, used, _ = self._fs.disk_usage(store.layout.root)
        oldest = store.earliest_message_time()
        behind = max(0, store.max_physical_offset - store.flushed_offset)
        found = self._services.scrubber.counts
        for family, value in (
            (f.STORAGE_SIZE, used), (f.FLUSH_BEHIND, behind), (f.DISPATCH_BEHIND, store.rebuild.bytes_left),
            (f.RESERVE_TIME, max(0, self._clock() - oldest) if oldest > 0 else 0),
            (f.STORE_BYTES, store.max_physical_offset - store.min_physical_offset), (f.WRITABLE, store.is_writable),
            (f.DAMAGES, found.damages), (f.HEALED, found.records_healed), (f.REBUILT, found.entries_rebuilt),
            (f.REBUILD_QUEUES, store.rebuild.queues_left), (f.REBUILD_BYTES, store.rebuild.bytes_left),
        ):  # fmt: skip
            yield from self._exposition.family(family, [(disk, value)])

    def _timers(self) -> Iterator[str]:
        timers, disk = self._services.timers, self._disk
        if not timers.is_enabled:
            return
        for family, value in (
            (f.TIMER_ENQUEUE_LAG, timers.unread), (f.TIMER_ENQUEUE_LATENCY, self._age(*timers.first_unread)),
            (f.TIMER_DEQUEUE_LAG, timers.metrics.total), (f.TIMER_DEQUEUE_LATENCY, timers.behind_ms),
        ):  # fmt: skip
            yield from self._exposition.family(family, [(disk, value)])
        yield from self._exposition.family(f.TIMER_ENQUEUED, self._by_topic(timers.metrics.entered, disk))
        yield from self._exposition.family(f.TIMER_DEQUEUED, self._by_topic(timers.metrics.left, disk))
        yield from self._exposition.family(f.TIMING_MESSAGES, self._by_topic(dict(timers.metrics.waiting()), disk))

        delays = [(f"{disk},{labels([('topic', topic)])}", found) for topic, found in list(self._counts.delays.items())]
        yield from self._exposition.histogram(f.DELAY_LATENCY, delays)
        if self._exposition.is_wanted(f.TIMER_SNAPSHOT):
            ahead: list[int] = []
            for counts in timers.in_spans(self._clock(), _SPANS):
                ahead = counts
                yield ""
            rows = [(f'{disk},timer_bound_s="{span}"', count) for span, count in zip(_SPANS, ahead, strict=True)]
            yield from self._exposition.family(f.TIMER_SNAPSHOT, rows)

    def _pop(self) -> Iterator[str]:
        log = self._services.pop.revive_log
        yield from self._exposition.gauges((f.POP_CHECKPOINTS, len(log.inflight)), (f.POP_OFFSETS, 0))
        if self._counts.pops.scans.count:
            yield from self._exposition.histogram(f.POP_SCAN, [(self._exposition.base, self._counts.pops.scans)])
        yield from self._revived()
        behind, ages = list[Row](), list[Row]()
        for queue in range(self._config.revive_queue_num):
            text = self._exposition.labels(("queue_id", str(queue)))
            first, end = log.inflight.first_offset(queue), self._services.store.queue_range(log.topic, queue)[1]
            behind.append((text, 0 if first is None else max(0, end - first)))
            ages.append((text, 0 if first is None else self._age((log.topic, queue, first))))
            yield ""
        yield from self._exposition.family(f.POP_REVIVE_LAG, behind)
        yield from self._exposition.family(f.POP_REVIVE_LATENCY, ages)

    def _revived(self) -> Iterator[str]:
        """The entries of the revive log. Those that are left are known from those that are not: pops in flight."""
        counts, needed = self._counts.pops, dict[PopEntries, int]()
        for step, one in enumerate(self._services.pop.revive_log.inflight.pops()):
            found = one.check_point
            for kind, count in ((CHECK_POINT, 1), (ACK, one.acks)):
                entries = PopEntries(found.topic, found.group, one.revive_queue, kind)
                needed[entries] = needed.get(entries, 0) + count
            if step % _POPS_AT_ONCE == 0:
                yield ""
        counts.leave(needed)
        sums: dict[tuple[str, str, str], int] = {}
        for entries, count in counts.entered.items():
            key = entries.topic, entries.group, entries.kind
            sums[key] = sums.get(key, 0) + count
        make, kind_of = self._exposition.labels, "revive_message_type"
        yield from self._exposition.family(f.POP_REVIVE_IN, [
            (make(("topic", topic), ("consumer_group", group), (kind_of, kind), _PUT_OK), count)
            for (topic, group, kind), count in sums.items()
        ])  # fmt: skip
        yield from self._exposition.family(f.POP_REVIVE_OUT, [
            (make(("topic", topic), ("consumer_group", group), (kind_of, kind), ("queue_id", str(queue))), count)
            for (topic, group, queue, kind), count in counts.left.items()
        ])  # fmt: skip
        yield from self._exposition.family(f.POP_RETRIES, [
            (make(("topic", topic), ("consumer_group", group), _PUT_OK), count)
            for (topic, group), count in counts.retried.items()
        ])  # fmt: skip

    def _own(self) -> Iterator[str]:
        services, turns = self._services, self._services.slow_turns
        for family, value in (
            (f.HELD_PULLS, len(services.pull_request_hold)), (f.HELD_POPS, len(services.pop.polling.pops.table)),
            (f.CONNECTIONS, len(self._server.connections)), (f.SLOW_TURNS, turns.count),
            (f.SLOWEST_TURN, turns.longest_ms / 1000), (f.START_TIME, services.stats.started_ms / 1000),
        ):  # fmt: skip
            yield from self._exposition.family(family, [(self._exposition.base, value)])
        rows = [(self._exposition.labels(("metric", name)), count) for name, count in self._exposition.left_out.items()]
        yield from self._exposition.family(f.TRUNCATED, rows)


def _protocol(channel: object) -> str:
    """Return what a client speaks."""
    return channel.protocol if isinstance(channel, Peer) else Peer.protocol
