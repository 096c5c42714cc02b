"""Requests for statistics: counters, consume time spans, progress of all groups."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import cache

from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
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
from rocketmq_py.store import MessageStore
from rocketmq_py.wire.fastjson import dumps_java

Queue = tuple[tuple[str, object], ...]
"""A message queue as a key of a JSON object."""


class StatisticsHandlers:
    """Handlers of the codes 303, 315 and 317.

    :param address: this broker's address for clients.
    :param clock: the time in milliseconds.
    """

    def __init__(
        self, config: BrokerConfig, store: MessageStore, topics: TopicConfigs, groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        clients: Clients, stats: Stats, address: str, clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._stats = stats
        self._address = address
        self._clock = clock

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
    def time_span(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the store times of the oldest, the newest and the last consumed message of each queue."""
        del peer, body
        header: QueryConsumeTimeSpan = request.header
        topic = self._topics.get(header.topic)
        if topic is None:
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        local = cache(_local)  # queues without messages have the same times
        spans = [self._span(header.group, header.topic, queue, local) for queue in range(topic.write_queue_nums)]
        return Reply(body=dumps_java({"consumeTimeSpanSet": spans}))

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
            "delayTime": self._clock() - waiting_since if consumed < end else 0,
            "messageQueue": dict(self._queue(topic, queue_id)),
            **times,
            **{f"{name}Str": local(time) for name, time in times.items()},
        }

    @handles(Code.GET_BROKER_CONSUME_STATS)
    def all_progress(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the progress of every group in every topic that it has offsets for and still subscribes to."""
        del peer, body
        header: BrokerConsumeStats = request.header
        listed = [{group: self._group(group, header.is_order)} for group in sorted(self._groups.table)]
        progress = [row for table in listed for topics in table.values() for topic in topics for row in _rows(topic)]
        answer = {
            "brokerAddr": self._address,
            "consumeStatsList": listed,
            "totalDiff": sum(row["brokerOffset"] - row["consumerOffset"] for row in progress),
            "totalInflightDiff": sum(row["pullOffset"] - row["consumerOffset"] for row in progress),
        }
        return Reply(body=dumps_java(answer))

    def _group(self, group: str, is_order: bool) -> list[dict[str, object]]:
        names = [name for name in self._offsets.topics_of(group) if self._clients.consumers.may_consume(group, name)]
        topics = [topic for topic in map(self._topics.get, names) if topic is not None]
        return [self._progress(group, topic) for topic in topics if topic.order or not is_order]

    def _progress(self, group: str, topic: TopicConfig) -> dict[str, object]:
        name = topic.topic_name
        table = {self._queue(name, queue): self._row(group, name, queue) for queue in range(topic.write_queue_nums)}
        return {"consumeTps": self._stats.group_rate(group, name), "offsetTable": table}

    def _row(self, group: str, topic: str, queue_id: int) -> dict[str, int]:
        consumed = max(0, self._offsets.query(group, topic, queue_id))
        last = self._store.store_time(topic, queue_id, consumed - 1) if consumed else 0
        end = self._store.queue_range(topic, queue_id)[1]
        return {"brokerOffset": end, "consumerOffset": consumed, "lastTimestamp": max(last, 0), "pullOffset": 0}

    def _queue(self, topic: str, queue_id: int) -> Queue:
        return (("brokerName", self._config.broker_name), ("queueId", queue_id), ("topic", topic))


def _local(time_ms: int) -> str:
    """A time in the format of Java's tools."""
    local = datetime.datetime.fromtimestamp(time_ms // 1000).astimezone()
    return f"{local:%Y-%m-%d#%H:%M:%S}:{time_ms % 1000:03}"


def _rows(topic: dict[str, object]) -> list[dict[str, int]]:
    table = topic["offsetTable"]
    assert isinstance(table, dict)
    return list(table.values())
