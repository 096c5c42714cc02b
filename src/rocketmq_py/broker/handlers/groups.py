"""Requests that create, change, delete and list consumer groups, and return their progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rocketmq_py.broker.body_limits import checked
from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.handlers.long_answers import assemble, load_store_times, members
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.broker.metadata.name_validator import group_fault
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.table_file import check_written
from rocketmq_py.broker.metadata.table_pages import page
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.broker.stats import Stats
from rocketmq_py.core.queue_limits import retry_queues_fault
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.group import GroupList, SubscriptionGroupConfig, SubscriptionGroupList
from rocketmq_py.protocol.bodies.route import TopicList
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.group import GetConsumeStats, GroupAndTopic, GroupForbidden
from rocketmq_py.protocol.headers.offset import CloneGroupOffset
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.server.sliced_work import SlicedWork
from rocketmq_py.store import MessageStore
from rocketmq_py.wire.fastjson import dumps_java


class GroupHandlers:
    """Handlers of the request codes 200, 201, 207, 208, 225, 300, 314, 343, 345, 352 and 353.

    :param address: this broker's address for clients.
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        config: BrokerConfig,
        groups: SubscriptionGroups,
        topics: TopicConfigs,
        store: MessageStore,
        offsets: ConsumerOffsets,
        clients: Clients,
        stats: Stats,
        address: str,
        *,
        slices: SlicedWork,
        is_static: Callable[[str], bool],
    ) -> None:
        self._config = config
        self._is_static = is_static
        self._slices = slices
        self._address = address
        self._groups = groups
        self._topics = topics
        self._store = store
        self._offsets = offsets
        self._clients = clients
        self._stats = stats

    @handles(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
    def create(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Create or change a consumer group."""
        del peer
        self._put([SubscriptionGroupConfig.decode(checked(request.code, body))])
        return Reply()

    @handles(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST)
    def create_many(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Create or change several consumer groups."""
        del peer
        self._put(SubscriptionGroupList.decode(checked(request.code, body)).group_config_list)
        return Reply()

    def _put(self, wanted: list[SubscriptionGroupConfig]) -> None:
        with self._stats.timed(lambda counts, took, succeeded: counts.created_group(took, succeeded=succeeded)):
            for group in wanted:
                fault = group_fault(group.group_name) or retry_queues_fault(group.group_name, group.retry_queue_nums)
                if fault is not None:
                    raise BrokerError.of(ResponseCode.INVALID_PARAMETER, fault)
            if wanted:
                self._groups.put(wanted)
                check_written(self._groups.write_fault, "consumer groups")

    @handles(Code.DELETE_SUBSCRIPTIONGROUP)
    def delete(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Delete a group, and its offsets if requested."""
        del peer, body
        self._groups.delete(request.header.group_name)
        if request.header.clean_offset:
            self._offsets.remove_group(request.header.group_name)
        self._stats.remove_group(request.header.group_name)
        return Reply()

    @handles(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    async def list_all(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return all groups or a page of them, for slaves."""
        del peer, body
        groups, header = self._groups, request.header
        asked = header.group_seq, header.max_group_num, header.data_version
        table = dict(page(groups.table, groups.version, self._config, *asked))
        head = dumps_java({
            "dataVersion": bean(groups.version),
            "forbiddenTable": {name: topics for name, topics in groups.forbidden.items() if name in table},
        })  # fmt: skip
        ext = {"totalGroupNum": str(len(groups.table))}
        groups_part = members((name, bean(group)) for name, group in table.items())
        body = await assemble(self._slices, head[:-1], b',"subscriptionGroupTable":{', groups_part, b"}}")
        return Reply(ext=ext, body=body)

    @handles(Code.GET_SUBSCRIPTIONGROUP_CONFIG)
    def get(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the configuration of one group."""
        del peer, body
        group = self._groups.find(request.header.group)
        if group is None:
            raise BrokerError.of(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
        return Reply(body=group.encode())

    @handles(Code.GET_CONSUME_STATS)
    async def consume_stats(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the progress of a group in each queue of its topics."""
        del peer, body
        header: GetConsumeStats = request.header
        group = header.consumer_group
        topics = [topic for topic in map(self._topics.get, self._wanted_topics(header)) if topic is not None]
        rate = sum((self._stats.group_rate(group, topic.topic_name) for topic in topics), 0.0)
        await load_store_times(self._store, self._consumed(group, topics))
        table = members(
            ((("brokerName", self._config.broker_name), ("queueId", queue), ("topic", topic.topic_name)),
             self._progress(group, topic.topic_name, queue))
            for topic in topics
            for queue in range(topic.read_queue_nums)
        )  # fmt: skip
        return Reply(
            body=await assemble(self._slices, b'{"consumeTps":', dumps_java(rate), b',"offsetTable":{', table, b"}}")
        )

    def _consumed(self, group: str, topics: list[TopicConfig]) -> Iterator[tuple[str, int, int]]:
        """Iterate over the last consumed messages of a group: topic, queue id and offset."""
        for topic in topics:
            for queue in range(topic.read_queue_nums):
                yield topic.topic_name, queue, self._offsets.query(group, topic.topic_name, queue) - 1

    def _wanted_topics(self, header: GetConsumeStats) -> list[str]:
        listed = list(dict.fromkeys(filter(None, (header.topic_list or "").split(";"))))
        if listed:
            return listed
        group = header.consumer_group
        asked = [header.topic] if header.topic else self._offsets.topics_of(group)
        return [topic for topic in asked if self._clients.consumers.may_consume(group, topic)]

    def _progress(self, group: str, topic: str, queue_id: int) -> dict[str, int]:
        """Return a group's progress in a queue: end of the queue, committed offset, pulled offset, and the store time
        (ms) of the last consumed message.

        Without a committed offset ``consumerOffset`` is 0, but -1 in a queue of a static topic: tools use the latest
        physical queue that has an offset.
        """
        _, end = self._store.queue_range(topic, queue_id)
        consumed = self._offsets.query(group, topic, queue_id)
        if not self._is_static(topic):
            consumed = max(0, consumed)
        pulled = max(consumed, self._offsets.query_pulled(group, topic, queue_id))
        last = self._store.store_time(topic, queue_id, consumed - 1) if consumed > 0 else 0
        return {"brokerOffset": end, "consumerOffset": consumed, "lastTimestamp": max(last, 0), "pullOffset": pulled}

    @handles(Code.CLONE_GROUP_OFFSET)
    def clone_offsets(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Copy the offsets of one group to another, for one topic or for all."""
        del peer, body
        header: CloneGroupOffset = request.header
        topics = [header.topic] if header.topic else self._offsets.topics_of(header.src_group)
        for topic in topics:
            subscribed = header.offline or self._clients.consumers.may_consume(header.src_group, topic)
            if subscribed and self._topics.get(topic) is not None:
                self._offsets.clone(header.src_group, header.dest_group, topic)
        return Reply()

    @handles(Code.UPDATE_AND_GET_GROUP_FORBIDDEN)
    def forbid(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Forbid or allow a group to read a topic, if the header has ``readable``; return whether it may read."""
        del peer, body
        header: GroupForbidden = request.header
        if header.readable is not None:
            self._groups.set_read_forbidden(header.group, header.topic, not header.readable)
        readable = not self._groups.is_read_forbidden(header.group, header.topic)
        answer = {"group": header.group, "readable": readable, "topic": header.topic}
        return Reply(remark="", body=dumps_java(answer))

    @handles(Code.QUERY_SUBSCRIPTION_BY_CONSUMER)
    def subscription(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the subscription of a group to a topic; null if it has none."""
        del peer, body
        header: GroupAndTopic = request.header
        found = self._clients.consumers.subscription(header.group, header.topic)
        answer = {"group": header.group, "subscriptionData": bean(found) if found else None, "topic": header.topic}
        return Reply(body=dumps_java(answer))

    @handles(Code.QUERY_TOPIC_CONSUME_BY_WHO)
    def groups_of_topic(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """List the groups that consume a topic now or have consumed it."""
        del peer, body
        topic = request.header.topic
        found = {*self._clients.consumers.groups_of(topic), *self._offsets.groups_of(topic)}
        return Reply(body=GroupList(group_list=sorted(found)).encode())

    @handles(Code.QUERY_TOPICS_BY_CONSUMER)
    def topics_of_group(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """List the topics that a group has committed offsets for."""
        del peer, body
        topics = sorted(self._offsets.topics_of(request.header.group))
        return Reply(body=TopicList(topic_list=topics, broker_addr=self._address).encode())
