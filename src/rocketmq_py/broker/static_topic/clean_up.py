"""Removes outdated queues from the mappings of static topics (TopicQueueMappingCleanService).

In the hours of ``deleteWhen`` it removes physical queues whose messages have all expired, and logical queues that have
moved from this broker to a second one and from there to a third.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable

from rocketmq_py.broker.metadata.queue_mappings import TopicQueueMappings
from rocketmq_py.broker.static_topic.forward import Forwarder
from rocketmq_py.core.broker.static_topic import earliest_items, led_elsewhere, outdated_queues, without_expired
from rocketmq_py.core.logical_queues import mock_broker_name
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import TopicStatsTable
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, TopicConfigAndMapping
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.topic import TopicName
from rocketmq_py.store import MessageStore
from rocketmq_py.store.settings import StoreConfig
from rocketmq_py.tasks import Background

_log = logging.getLogger(__name__)

Extents = dict[tuple[str, int], tuple[int, int]]


class MappingCleanUp:
    """Cleans up the mappings of a master.

    :param clock: returns the time in milliseconds since the epoch.
    :ivar runs: the number of runs that have begun.
    """

    def __init__(
        self,
        config: StoreConfig,
        broker_name: str,
        mappings: TopicQueueMappings,
        store: MessageStore,
        forwarder: Forwarder,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._broker_name = broker_name
        self._mappings = mappings
        self._store = store
        self._forwarder = forwarder
        self._clock = clock
        self._work = Background()
        self._is_running = False
        self.runs = 0

    def start_if_due(self) -> None:
        """Start to clean up in the background if the hour is one of ``deleteWhen`` and no run is in progress."""
        hour = datetime.datetime.fromtimestamp(self._clock() // 1000).astimezone().hour
        if self._mappings.table and hour in self._config.delete_hours and not self._is_running:
            self._is_running = True
            self.runs += 1
            self._work.start(self._run())

    async def _run(self) -> None:
        try:
            await self.run()
        except Exception:  # noqa: BLE001 - the next run is another try
            _log.exception("cleaning up the mappings of static topics failed")
        finally:
            self._is_running = False

    async def run(self) -> None:
        """Clean up the mappings of all topics; those of a topic whose brokers do not answer stay as they are."""
        for topic in list(self._mappings.table):
            for clean in (self._drop_expired, self._drop_outdated):
                detail = self._mappings.table.get(topic)
                if detail is None:
                    break
                try:
                    await clean(detail)
                except RocketMQError as e:
                    _log.warning("the mapping of static topic %s is not cleaned up: %s", topic, e)

    async def stop(self) -> None:
        """Cancel a run that is in progress."""
        await self._work.stop()

    async def _drop_expired(self, detail: MappingDetail) -> None:
        extents: Extents = {}
        for broker in sorted({item.bname for item in earliest_items(detail).values()}):
            extents |= await self._extents(detail, broker)
        cleaned = without_expired(detail, extents)
        if cleaned is not None and self._mappings.replace(detail, cleaned):
            _log.info("the messages of the first physical queues of static topic %s have expired", detail.topic)

    async def _extents(self, detail: MappingDetail, broker: str) -> Extents:
        """Return minimum and maximum offset of a topic's physical queues at a broker, by broker name and queue id."""
        if broker == self._broker_name:
            own = [item.queue_id for item in earliest_items(detail).values() if item.bname == broker]
            return {(broker, queue_id): self._store.queue_range(detail.topic, queue_id) for queue_id in own}
        header = TopicName(topic=detail.topic, bname=broker, lo=False)
        reply = await self._forwarder.ask_for(broker, detail.topic, RequestCode.GET_TOPIC_STATS_INFO, header)
        extents = TopicStatsTable.read(bytes(reply.body)).queues()
        return {
            (queue.broker_name, queue.queue_id): (extent.min_offset, extent.max_offset)
            for queue, extent in extents.items()
        }

    async def _drop_outdated(self, detail: MappingDetail) -> None:
        numbers = led_elsewhere(detail)
        if not numbers:
            return
        route = await self._forwarder.route(detail.topic, max_age_ms=0)
        name = mock_broker_name(detail.scope)
        leaders = {number: route.broker_of(MessageQueue(detail.topic, name, number)) for number in numbers}
        known = [leader for leader in sorted(set(leaders.values())) if leader in route.brokers]
        others = {leader: other for leader in known if (other := await self._mapping(leader, detail.topic)) is not None}
        outdated = outdated_queues(detail, leaders, others)
        if outdated and self._mappings.drop(detail, outdated):
            _log.info("logical queues %s of static topic %s have moved on", sorted(outdated), detail.topic)

    async def _mapping(self, broker: str, topic: str) -> MappingDetail | None:
        """Query the mapping of a topic at another broker; None if that broker has none."""
        header = TopicName(topic=topic, bname=broker, lo=True)
        reply = await self._forwarder.ask_for(broker, topic, RequestCode.GET_TOPIC_CONFIG, header)
        return TopicConfigAndMapping.decode(bytes(reply.body)).mapping_detail
