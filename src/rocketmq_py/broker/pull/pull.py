"""The pull path: from a pull request to its messages, or to a hold.

Checks, remarks and response codes are Java's (PullMessageProcessor, DefaultPullMessageResultHandler).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from rocketmq_py.broker import remarks
from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.filters import ConsumerFilters, compile_filter
from rocketmq_py.broker.metadata.groups import SubscriptionGroups
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.metadata.topics import TopicConfigs, is_readable
from rocketmq_py.broker.stats import Stats
from rocketmq_py.core.broker.hold_table import Held, QueueKey
from rocketmq_py.core.consumer.subscription import (
    RecordFilter,
    TagsCodeFilter,
    is_tag_type,
    parse_subscription,
    sql_filter,
    tag_filter,
)
from rocketmq_py.core.sql92 import SqlFilter
from rocketmq_py.errors import BadHeader, ConfigError, QueueRebuilding
from rocketmq_py.properties import Property
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode, ResponseCode as Code
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.remarks import FAQ
from rocketmq_py.protocol.requests import Request
from rocketmq_py.protocol.sys_flag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from rocketmq_py.server import Hold, Peer, Reply
from rocketmq_py.store import GetResult, GetStatus, MessageStore
from rocketmq_py.store.fs.residency import Loadable, NotInMemory, Residency

_FOUND = GetStatus.FOUND.name
_CODES = {
    GetStatus.NO_MATCHED_MESSAGE: Code.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: Code.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: Code.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: Code.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: Code.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: Code.PULL_OFFSET_MOVED,
    GetStatus.REBUILDING: Code.PULL_NOT_FOUND,
}
_NO_QUEUE = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)
_RESET = "OFFSET_RESET"

BROKER_FORBIDDEN, GROUP_FORBIDDEN, TOPIC_FORBIDDEN, BROADCASTING_FORBIDDEN, SUBSCRIPTION_FORBIDDEN = "12345"
"""Values of the field ``forbiddenType`` of refused pulls (ForbiddenType)."""


class Refused(Exception):
    """Raised when a check refuses a pull; ``reply`` is the answer."""

    def __init__(self, code: int, remark: str, forbidden: str | None = None) -> None:
        super().__init__(remark)
        self.reply = Reply(code, remark, ext={"forbiddenType": forbidden} if forbidden else None)


class Admitted(NamedTuple):
    """Group, topic and filters of a pull that passed all checks; without filters it gets all messages."""

    group: SubscriptionGroupConfig
    topic: TopicConfig
    tags_filter: TagsCodeFilter | None
    record_filter: RecordFilter | None


class HeldPull(NamedTuple):
    """The arguments to run a held pull again."""

    peer: Peer
    request: Request


COLD = "cold-pull"
"""The key of holds of pulls that wait for the disk."""


class ColdPull(NamedTuple):
    """A pull that waits for the disk because its messages are not in main memory.

    :ivar parts: the parts of files to load before the pull runs again.
    :ivar residency: to be passed to :meth:`PullService.pull` when the pull runs again.
    """

    peer: Peer
    request: Request
    residency: Residency
    parts: Sequence[Loadable]


class PullService:
    """Answers pulls.

    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicConfigs,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        clients: Clients,
        filters: ConsumerFilters,
        stats: Stats,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._filters = filters
        self._stats = stats
        self._clock = clock

    def pull(
        self, peer: Peer, request: Request, *, may_hold: bool = True, residency: Residency | None = None
    ) -> Reply | Hold:
        """Answer a pull, or return a hold: until a message arrives, or until messages are loaded from disk.

        A pull waits for a message only if the client allows it (PULL_SUSPEND).

        :param may_hold: False: answer in any case, and block on the disk if necessary.
        :param residency: that of the :class:`ColdPull` if this pull runs again after a load from disk, otherwise None.
        :raises QueueRebuilding: the queue cannot be read yet, and the client does not allow to wait.
        """
        header: PullMessage = request.header
        try:
            admitted = self._admit(peer, request.code, header)
        except Refused as refused:
            return refused.reply
        reset = self._offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
        if reset is not None and self._config.use_server_side_reset_offset:
            return self._reset_reply(header, admitted, reset)
        if residency is None and may_hold:
            residency = Residency()
        try:
            found = self._store.get(
                header.topic, header.queue_id, header.queue_offset, header.max_msg_nums,
                accepts=admitted.tags_filter, message_filter=admitted.record_filter, allow_view=True,
                bulk=header.bulk is True, residency=residency,
            )  # fmt: skip
        except NotInMemory as missing:
            assert residency is not None
            return Hold(COLD, 0, ColdPull(peer, request, residency, missing.parts))
        if found.status is GetStatus.REBUILDING and not header.sys_flag & PULL_SUSPEND:
            raise QueueRebuilding.of(header.topic, header.queue_id)
        reply = self._reply(header, admitted, found)
        self._note_offsets(peer, header, found.next_offset, may_hold)
        if found.count:
            self._stats.pulled(header.consumer_group, header.topic, found.count, len(found.body))
        elif reply.code == Code.PULL_NOT_FOUND and may_hold and header.sys_flag & PULL_SUSPEND:
            return self._hold(peer, request, admitted)
        else:
            self._stats.missed()
        return reply

    # -- checks

    def _admit(self, peer: Peer, code: int, header: PullMessage) -> Admitted:
        """Check a pull, in Java's order.

        :raises Refused: a check failed.
        """
        config = self._config
        if not is_readable(config.broker_permission):
            remark = f"the broker[{config.broker_ip1}] pulling message is forbidden"
            raise Refused(Code.NO_PERMISSION, remark, BROKER_FORBIDDEN)
        if code == RequestCode.LITE_PULL_MESSAGE and not config.lite_pull_message_enable:
            remark = f"the broker[{config.broker_ip1}] for lite pull consumer is forbidden"
            raise Refused(Code.NO_PERMISSION, remark, BROKER_FORBIDDEN)
        group = self._check_group(header.consumer_group)
        topic = self._check_topic(peer, header)
        subscription = self._subscription(header, group)
        by_tag = is_tag_type(subscription.expression_type)
        record_filter = None if by_tag else self._expression(header, subscription)
        return Admitted(group, topic, tag_filter(subscription), record_filter)

    def _check_group(self, name: str) -> SubscriptionGroupConfig:
        group = self._groups.find(name)
        if group is None:
            remark = f"subscription group [{name}] does not exist, {FAQ}"
            raise Refused(Code.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not group.consume_enable:
            raise Refused(Code.NO_PERMISSION, f"subscription group no permission, {name}", GROUP_FORBIDDEN)
        return group

    def _check_topic(self, peer: Peer, header: PullMessage) -> TopicConfig:
        topic = self._topics.get(header.topic)
        if topic is None:
            raise Refused(Code.TOPIC_NOT_EXIST, remarks.no_topic(header.topic))
        if not is_readable(topic.perm):
            remark = f"the topic[{header.topic}] pulling message is forbidden"
            raise Refused(Code.NO_PERMISSION, remark, TOPIC_FORBIDDEN)
        if not 0 <= header.queue_id < topic.read_queue_nums:
            remark = (
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{peer.address}]"
            )
            raise Refused(Code.INVALID_PARAMETER, remark)
        return topic

    def _subscription(self, header: PullMessage, group: SubscriptionGroupConfig) -> SubscriptionData:
        if header.sys_flag & PULL_SUBSCRIPTION:
            try:
                return parse_subscription(header.topic, header.subscription, header.expression_type)
            except BadHeader:
                raise Refused(Code.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed") from None
        return self._registered(header, group)

    def _registered(self, header: PullMessage, group: SubscriptionGroupConfig) -> SubscriptionData:
        """Return the subscription that the group's heartbeats registered.

        :raises Refused: there is none, it is outdated, or the group may not read the topic.
        """
        name = header.consumer_group
        members = self._clients.consumers.groups.get(name)
        if members is None:
            raise Refused(Code.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}")
        if members.is_broadcasting and not group.consume_broadcast_enable:
            remark = f"the consumer group[{name}] can not consume by broadcast way"
            raise Refused(Code.NO_PERMISSION, remark, BROADCASTING_FORBIDDEN)
        if self._groups.is_read_forbidden(name, header.topic):
            remark = f"the consumer group[{name}] is forbidden for topic[{header.topic}]"
            raise Refused(Code.NO_PERMISSION, remark, SUBSCRIPTION_FORBIDDEN)
        subscription = members.subscriptions.get(header.topic)
        if subscription is None:
            raise Refused(Code.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ}")
        if subscription.sub_version < header.sub_version:
            raise Refused(Code.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return subscription

    def _expression(self, header: PullMessage, subscription: SubscriptionData) -> RecordFilter | None:
        """Return the SQL filter of a subscription; None in class filter mode, which returns all messages.

        :raises Refused: the broker has no filter of this group, or an older one, or filters are off.
        """
        kind, expression = subscription.expression_type, subscription.sub_string
        if not header.sys_flag & PULL_SUBSCRIPTION:
            known = self._filters.get(header.topic, header.consumer_group)
            if known is None:
                raise Refused(Code.FILTER_DATA_NOT_EXIST, remarks.NO_FILTER_DATA)
            if known.client_version < header.sub_version:
                raise Refused(Code.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest")
            kind = known.expression_type
        if not self._config.enable_property_filter:
            raise Refused(Code.SYSTEM_ERROR, remarks.no_filter(kind))
        compiled = self._compiled(header, expression, kind)
        if subscription.class_filter_mode:
            return None
        if self._config.filter_support_retry and names.is_retry_topic(header.topic):
            group = header.consumer_group
            return sql_filter(partial(self._of_first_topic, group), self._filters.highest_cost(group))
        return sql_filter(lambda _: compiled, compiled.cost)

    def _compiled(self, header: PullMessage, expression: str, kind: str) -> SqlFilter:
        """Compile the pull's own expression, or return the compiled one that its group registered.

        :param kind: the type of the expression, such as ``SQL92``.
        :raises Refused: the expression is invalid, or the group has registered none.
        """
        if header.sys_flag & PULL_SUBSCRIPTION:
            try:
                return compile_filter(kind, expression)
            except ConfigError as e:
                remark = f"parse the consumer's subscription failed: {e}"
                raise Refused(Code.SUBSCRIPTION_PARSE_FAILED, remark) from None
        compiled = self._filters.compiled(header.topic, header.consumer_group)
        if compiled is None:
            raise Refused(Code.FILTER_DATA_NOT_EXIST, remarks.NO_FILTER_DATA)
        return compiled

    def _of_first_topic(self, group: str, properties: Mapping[str, str]) -> SqlFilter | None:
        """Return a group's filter for the original topic of a retried message; None if it has none."""
        return self._filters.compiled(properties.get(Property.RETRY_TOPIC, ""), group)

    # -- answers

    def _reply(self, header: PullMessage, admitted: Admitted, found: GetResult) -> Reply:
        status = found.status
        if status is GetStatus.FOUND:  # without look-ups of enum members, which are Python code
            code, remark = Code.SUCCESS, _FOUND
        elif status in _NO_QUEUE:
            code = Code.PULL_OFFSET_MOVED if header.queue_offset else Code.PULL_NOT_FOUND
            remark = status.name
        else:
            code, remark = _CODES[status], status.name
        suggested = self._suggested_broker(admitted.group, found.suggest_slave)
        first = found.min_offset
        if not found.max_offset:
            first = self._store.min_offset_for_clients(header.topic, header.queue_id)
        ext = answer_fields(suggested, found.next_offset, first, found.max_offset, admitted, found.damaged)
        return Reply(code, remark, ext=ext, body=found.body)

    def _reset_reply(self, header: PullMessage, admitted: Admitted, offset: int) -> Reply:
        _, end = self._store.queue_range(header.topic, header.queue_id)
        first = self._store.min_offset_for_clients(header.topic, header.queue_id)
        return Reply(
            Code.PULL_OFFSET_MOVED, _RESET,
            ext=answer_fields(self._suggested_broker(admitted.group, False), offset, first, end, admitted),
        )  # fmt: skip

    def _suggested_broker(self, group: SubscriptionGroupConfig, slow: bool) -> int:
        if not self._config.slave_read_enable:
            return 0
        return group.which_broker_when_consume_slowly if slow else group.broker_id

    def _note_offsets(self, peer: Peer, header: PullMessage, next_offset: int, may_hold: bool) -> None:
        offsets, group = self._offsets, header.consumer_group
        offsets.pulled(group, header.topic, header.queue_id, next_offset)
        if may_hold and header.sys_flag & PULL_COMMIT_OFFSET:
            offsets.commit(group, header.topic, header.queue_id, header.commit_offset, peer.address)

    def _hold(self, peer: Peer, request: Request, admitted: Admitted) -> Hold:
        header: PullMessage = request.header
        config = self._config
        wait_ms = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_mills
        deadline = self._clock() + wait_ms
        held = Held(
            header.queue_offset, deadline, admitted.tags_filter, HeldPull(peer, request), admitted.record_filter
        )
        return Hold(QueueKey(header.topic, header.queue_id), deadline, held)


def answer_fields(
    suggested: int, next_offset: int, first: int, end: int, admitted: Admitted, damaged: Sequence[int] = ()
) -> dict[str, str]:
    """Return the header fields of the answer to a pull.

    :param suggested: id of the broker that the consumer should pull from next.
    :param first: minimum offset of the queue.
    :param end: maximum offset of the queue, which is the offset of its next message.
    :param damaged: offsets of the damaged messages.
    """
    fields = {
        "suggestWhichBrokerId": str(suggested),
        "nextBeginOffset": str(next_offset),
        "minOffset": str(first),
        "maxOffset": str(end),
        "topicSysFlag": str(admitted.topic.topic_sys_flag),
        "groupSysFlag": str(admitted.group.group_sys_flag),
    }
    if damaged:
        fields["damaged"] = ",".join(map(str, damaged))
    return fields
