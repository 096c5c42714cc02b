"""Requests for statistics: counters, consume time spans, progress of all groups."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from functools import cache

from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.handlers.long_answers import assemble, items, load_store_times, members
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.stats import Stats
from rocketmq_py.core.broker.stats import DAY, HOUR, MINUTE
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.admin import BrokerConsumeStats, QueryConsumeTimeSpan, ViewBrokerStats
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import MessageStore
from rocketmq_py.wire.fastjson import dumps_java

Queue = tuple[tuple[str, object], ...]
"""A message queue as a key of a JSON object."""


class StatisticsHandlers:
    """Handlers of the request codes 303, 315 and 317.

    :param address: this broker's address for clients.
    """

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicConfigs, groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        clients: Clients, stats: Stats, address: str, *,
        slices: SlicedWork,
    ) -> None:  # fmt: skip
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._stats = stats
        self._address = address
        self._slices = slices

    @handles(Code.VIEW_BROKER_STATS_DATA)
    def counter(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return one counter over the last minute, hour and day."""
        del peer, body
        header: ViewBrokerStats = request.header
        item = self._stats.find(header.stats_name, header.stats_key)
        if item is None:
            remark = f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, remark)
        windows = {"statsMinute": MINUTE, "statsHour": HOUR, "statsDay": DAY}
        return Reply(body=dumps_java({name: item.snapshot(span)._asdict() for name, span in sorted(windows.items())}))

    @handles(Code.QUERY_CONSUME_TIME_SPAN)
    async def time_span(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the store times of the oldest, the newest and the last consumed message of each queue."""
        del peer, body
        header: QueryConsumeTimeSpan = request.header
        topic = self._topics.get(header.topic)
        if topic is None:
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        await load_store_times(self._store, self._span_places(header.group, topic))
        local = cache(_local)  # queues without messages have the same times
        spans = items(self._span(header.group, header.topic, queue, local) for queue in range(topic.write_queue_nums))
        return Reply(body=await assemble(self._slices, b'{"consumeTimeSpanSet":[', spans, b"]}"))

    def _span_places(self, group: str, topic: TopicConfig) -> Iterator[tuple[str, int, int]]:
        """Iterate over the messages whose store times :meth:`_span` reads: topic, queue id and offset."""
        name = topic.topic_name
        for queue in range(topic.write_queue_nums):
            first, end = self._store.queue_range(name, queue)
            consumed = self._offsets.query(group, name, queue)
            yield from ((name, queue, offset) for offset in (first, consumed - 1, consumed, end - 1))

    def _span(self, group: str, topic: str, queue_id: int, local: Callable[[int], str]) -> dict[str, object]:
        store = self._store
        oldest = store.earliest_store_time(topic, queue_id)
        _, end = store.queue_range(topic, queue_id)
        consumed = self._offsets.query(group, topic, queue_id)
        waiting_since = store.store_time(topic, queue_id, consumed) if consumed < end else 0
        times = {
            "consumeTimeStamp": store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else oldest,
            "maxTimeStamp": store.store_time(topic, queue_id, end - 1),
            "minTimeStamp": oldest,
        }
        return {
            "delayTime": self._store.now() - waiting_since if consumed < end else 0,
            "messageQueue": dict(self._queue(topic, queue_id)),
            **times,
            **{f"{name}Str": local(time) for name, time in times.items()},
        }

    @handles(Code.GET_BROKER_CONSUME_STATS)
    async def all_progress(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the progress of every group in every topic that it has offsets for and still subscribes to."""
        del peer, body
        header: BrokerConsumeStats = request.header
        await load_store_times(self._store, self._consumed(header.is_order))
        totals = {"totalDiff": 0, "totalInflightDiff": 0}
        head = b'{"brokerAddr":' + dumps_java(self._address) + b',"consumeStatsList":['
        body = await assemble(self._slices, head, self._groups_progress(header.is_order, totals), b"],")
        return Reply(body=body + dumps_java(totals)[1:])

    def _consumed(self, is_order: bool) -> Iterator[tuple[str, int, int]]:
        """Iterate over the last consumed messages of all groups: topic, queue id and offset."""
        for group in sorted(self._groups.table):
            for topic in self._topics_of(group, is_order):
                for queue in range(topic.write_queue_nums):
                    yield topic.topic_name, queue, self._offsets.query(group, topic.topic_name, queue) - 1

    def _groups_progress(self, is_order: bool, totals: dict[str, int]) -> Iterator[bytes]:
        """Encode the items of ``consumeStatsList``, in pieces to be joined; add the lags of all queues to ``totals``.

        :param is_order: True to include order topics only.
        """
        for number, group in enumerate(sorted(self._groups.table)):
            yield (b"," if number else b"") + b"{" + dumps_java(group) + b":["
            for index, topic in enumerate(self._topics_of(group, is_order)):
                rate = dumps_java(self._stats.group_rate(group, topic.topic_name))
                yield (b"," if index else b"") + b'{"consumeTps":' + rate + b',"offsetTable":{'
                yield from members(self._rows(group, topic, totals))
                yield b"}}"
            yield b"]}"

    def _topics_of(self, group: str, is_order: bool) -> list[TopicConfig]:
        names = [name for name in self._offsets.topics_of(group) if self._clients.consumers.may_consume(group, name)]
        topics = [topic for topic in map(self._topics.get, names) if topic is not None]
        return [topic for topic in topics if topic.order or not is_order]

    def _rows(self, group: str, topic: TopicConfig, totals: dict[str, int]) -> Iterator[tuple[Queue, dict[str, int]]]:
        for queue in range(topic.write_queue_nums):
            row = self._row(group, topic.topic_name, queue)
            totals["totalDiff"] += row["brokerOffset"] - row["consumerOffset"]
            totals["totalInflightDiff"] += row["pullOffset"] - row["consumerOffset"]
            yield self._queue(topic.topic_name, queue), row

    def _row(self, group: str, topic: str, queue_id: int) -> dict[str, int]:
        consumed = max(0, self._offsets.query(group, topic, queue_id))
        last = self._store.store_time(topic, queue_id, consumed - 1) if consumed else 0
        end = self._store.queue_range(topic, queue_id)[1]
        return {"brokerOffset": end, "consumerOffset": consumed, "lastTimestamp": max(last, 0), "pullOffset": 0}

    def _queue(self, topic: str, queue_id: int) -> Queue:
        return (("brokerName", self._config.broker_name), ("queueId", queue_id), ("topic", topic))


def _local(time_ms: int) -> str:
    """Format a time in milliseconds as local time, in the format of Java's tools."""
    local = datetime.datetime.fromtimestamp(time_ms // 1000).astimezone()
    return f"{local:%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03}"
