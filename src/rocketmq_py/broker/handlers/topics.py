"""Requests that create, change, delete and list topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from rocketmq_py.broker.body_limits import checked
from rocketmq_py.broker.cluster.registration import Registration
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.handlers.long_answers import assemble, load_store_times, members
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.broker.metadata.name_validator import folder_fault, topic_fault
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.table_file import check_written
from rocketmq_py.broker.metadata.table_pages import page
from rocketmq_py.broker.metadata.topic_attributes import alter, parse_changes, refuse_mixed
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.stats import Stats
from rocketmq_py.core.queue_limits import perm_fault, topic_queues_fault
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.route import TopicList
from rocketmq_py.protocol.bodies.topic import TopicConfig, TopicConfigList
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.topic import CreateTopic
from rocketmq_py.protocol.pop_handle import pop_retry_topic
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.server.sliced_work import SlicedWork, in_slices
from rocketmq_py.store import MessageStore
from rocketmq_py.wire.fastjson import dumps_java


class TopicHandlers:
    """Handlers of the request codes 17, 18, 21, 202, 215, 305 and 351."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicConfigs,
        store: MessageStore,
        offsets: ConsumerOffsets,
        stats: Stats,
        registration: Registration,
        slices: SlicedWork,
    ) -> None:
        self._slices = slices
        self._config = config
        self._topics = topics
        self._store = store
        self._offsets = offsets
        self._stats = stats
        self._registration = registration

    @handles(Code.UPDATE_AND_CREATE_TOPIC)
    async def create(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Create or change a topic; answered after the name servers have it."""
        del peer, body
        header: CreateTopic = request.header
        with self._timed(header.topic):
            await self._create(header)
        return Reply()

    async def _create(self, header: CreateTopic) -> None:
        self._check_name(header.topic)
        check_numbers(header.topic, header.read_queue_nums, header.write_queue_nums, header.perm)
        changes = parse_changes(header.attributes)
        refuse_mixed(changes, allowed=self._config.enable_mixed_message_type)
        wanted = TopicConfig(
            topic_name=header.topic, read_queue_nums=header.read_queue_nums, write_queue_nums=header.write_queue_nums,
            perm=header.perm, topic_filter_type=header.topic_filter_type, topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order, attributes=alter(self._attributes(header.topic), changes),
        )  # fmt: skip
        await self._put([wanted])

    def _timed(self, topic: str) -> AbstractContextManager[None]:
        """Count for metrics how long a request takes that creates or changes topics."""
        return self._stats.timed(
            lambda counts, took, succeeded: counts.created_topic(
                took, succeeded=succeeded, is_system=self._topics.is_system(topic)
            )
        )

    @handles(Code.UPDATE_AND_CREATE_TOPIC_LIST)
    async def create_many(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Create or change several topics; attribute names with ``+`` set an attribute, those with ``-`` remove it."""
        del peer
        wanted = TopicConfigList.decode(checked(request.code, body)).topic_config_list
        with self._timed(""):
            await self._create_many(wanted)
        return Reply()

    async def _create_many(self, wanted: list[TopicConfig]) -> None:
        for topic in wanted:
            self._check_name(topic.topic_name)
            check_numbers(topic.topic_name, topic.read_queue_nums, topic.write_queue_nums, topic.perm)
            refuse_mixed(topic.attributes, allowed=self._config.enable_mixed_message_type)
        for topic in wanted:
            topic.attributes = alter(self._attributes(topic.topic_name), topic.attributes)
        await self._put(wanted)

    @handles(Code.DELETE_TOPIC_IN_BROKER)
    async def delete(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Delete a topic, its queues, its consumer offsets and its POP retry topics."""
        del peer, body
        topic: str = request.header.topic
        fault = folder_fault(topic)
        if fault is not None:
            raise BrokerError.of(ResponseCode.INVALID_PARAMETER, fault)
        self._check_system(topic)
        for name in (topic, *self._retry_topics(topic)):
            self._topics.delete(name)
            self._offsets.remove_topic(name)
            self._stats.remove_topic(name)
            await in_slices(await self._store.begin_removal(name))
        await self._registration.flush()
        return Reply()

    @handles(Code.GET_ALL_TOPIC_CONFIG)
    async def list_all(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return all topics or a page of them, for slaves."""
        del peer, body
        return await self._listed(request, DataVersion(timestamp=self._stats.started_ms), iter(()))

    async def _listed(self, request: Request, mapping_version: DataVersion, mappings: Iterator[bytes]) -> Reply:
        """Return topics, and the encoded mappings of static ones."""
        topics, header = self._topics, request.header
        asked = header.topic_seq, header.max_topic_num, header.data_version
        table = dict(page(topics.table, topics.version, self._config, *asked))
        head = dumps_java({
            "dataVersion": bean(self._topics.version),
            "mappingDataVersion": bean(mapping_version),
        })  # fmt: skip
        ext = {"totalTopicNum": str(len(topics.table))}
        listed = members((name, bean(topic)) for name, topic in table.items())
        parts = head[:-1], b',"topicConfigTable":{', listed, b'},"topicQueueMappingDetailMap":{', mappings, b"}}"
        return Reply(ext=ext, body=await assemble(self._slices, *parts))

    @handles(Code.GET_TOPIC_CONFIG)
    def get(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the configuration of one topic."""
        del peer, body
        topic = self._topics.get(request.header.topic)
        if topic is None:
            remark = f"No topic in this broker. topic: {request.header.topic}"
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, remark)
        return Reply(body=topic.encode())

    @handles(Code.GET_TOPIC_STATS_INFO)
    async def stats(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the offset range of each queue of a topic and its last store time."""
        del peer, body
        topic = self._topics.get(request.header.topic)
        if topic is None:
            raise BrokerError.of(ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.header.topic}] not exist")
        queues = range(max(topic.write_queue_nums, topic.read_queue_nums))
        name = topic.topic_name
        ends = ((name, queue, self._store.queue_range(name, queue)[1] - 1) for queue in queues)
        await load_store_times(self._store, ends)
        table = members((self._queue(name, queue), self._range(name, queue)) for queue in queues)
        rate = dumps_java(self._stats.topic_rate(name))
        return Reply(body=await assemble(self._slices, b'{"offsetTable":{', table, b'},"topicPutTps":', rate, b"}"))

    @handles(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    def system_topics(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """List the system topics."""
        del peer, request, body
        return Reply(body=TopicList(topic_list=sorted(self._topics.reserved | names.SYSTEM_TOPICS)).encode())

    def _retry_topics(self, topic: str) -> list[str]:
        if not self._config.clear_retry_topic_when_delete_topic:
            return []
        groups = self._offsets.groups_of(topic)
        named = [pop_retry_topic(topic, group, v2=v2) for group in groups for v2 in (True, False)]
        return [name for name in named if self._topics.get(name) is not None]

    def _check_name(self, topic: str) -> None:
        fault = topic_fault(topic)
        if fault is not None:
            raise BrokerError.of(ResponseCode.INVALID_PARAMETER, fault)
        self._check_system(topic)

    def _check_system(self, topic: str) -> None:
        if self._config.validate_system_topic_when_update_topic and self._topics.is_system(topic):
            remark = f"The topic[{topic}] is conflict with system topic."
            raise BrokerError.of(ResponseCode.INVALID_PARAMETER, remark)

    def _attributes(self, topic: str) -> dict[str, str] | None:
        found = self._topics.get(topic)
        return None if found is None else found.attributes

    async def _put(self, wanted: list[TopicConfig]) -> None:
        changed = [topic for topic in wanted if self._topics.get(topic.topic_name) != topic]
        if changed:
            self._topics.put(changed)
            await self._registration.flush()
            check_written(self._topics.write_fault, "topics")

    def _range(self, topic: str, queue_id: int) -> dict[str, int]:
        first, end = self._store.queue_range(topic, queue_id)
        updated = self._store.store_time(topic, queue_id, end - 1) if end else 0
        return {"lastUpdateTimestamp": updated, "maxOffset": end, "minOffset": first}

    def _queue(self, topic: str, queue_id: int) -> tuple[tuple[str, object], ...]:
        return (("brokerName", self._config.broker_name), ("queueId", queue_id), ("topic", topic))


def check_numbers(topic: str, read: int, write: int, perm: int) -> None:
    """Check the numbers of queues and the permission of a topic.

    :raises BrokerError: INVALID_PARAMETER, one of them is out of range.
    """
    fault = topic_queues_fault(topic, read, write) or perm_fault(topic, perm)
    if fault is not None:
        raise BrokerError.of(ResponseCode.INVALID_PARAMETER, fault)
