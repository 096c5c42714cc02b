"""Administration for programs without an event loop: the same methods as asyncio's, calls that wait.

Generated from ``rocketmq_py.client.admin.admin``
by ``tools/make_blocking.py``: change that and run it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rocketmq_py.client.admin.admin import Admin as AioSource
from rocketmq_py.client.admin.messages import FOREVER, Pulled
from rocketmq_py.client.blocking_instance import ClientInstance, aio_instance
from rocketmq_py.client.facade import BlockingFacade
from rocketmq_py.core.route import TopicRoute
from rocketmq_py.errors import NetworkError
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.bodies.access import AclInfo, UserInfo
from rocketmq_py.protocol.bodies.admin import HaStatus, OffsetWrapper, TopicOffset
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.route import ClusterInfo
from rocketmq_py.protocol.bodies.statistics import (
    ConsumerRunningInfo,
    ConsumeTimes,
    CounterValues,
    HeldRequests,
    ProducerInfo,
    QueueEntries,
)
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.sys_flag import PERM_RW
from rocketmq_py.tls import Tls
from rocketmq_py.wire.signing import Credentials


class Admin(BlockingFacade[AioSource]):
    """Manages and inspects a cluster: ``with Admin("127.0.0.1:9876") as admin``.

    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param timeout: seconds to wait for each answer.
    :param instance: share this client's connections; its owner starts and stops it.
    :param address_map: connect elsewhere than brokers advertise: ``{"172.18.0.4:10911": "localhost:10911"}``.
    :param tls: True, TlsOptions or an ssl.SSLContext: use TLS with every server.
    :param credentials: sign requests with these, for servers with access control.
    :param skip_silent: skip brokers that do not answer, in calls that ask several brokers: their results lack these
        brokers, which later calls do not ask again; see :attr:`silent`. By default such a call raises NetworkError.

    Every method may raise NetworkError (no answer) and BrokerError (the server refused).

    Every call can be interrupted (Ctrl-C).
    In a forked child every call raises ForkedError; make an object of its own there.
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        timeout: float = 5.0,
        instance: ClientInstance | None = None,
        address_map: Mapping[str, str] | None = None,
        tls: Tls = None,
        credentials: Credentials | None = None,
        skip_silent: bool = False,
    ) -> None:
        self._wrap(
            AioSource(
                namesrv,
                timeout=timeout,
                instance=aio_instance(instance),
                address_map=address_map,
                tls=tls,
                credentials=credentials,
                skip_silent=skip_silent,
            )
        )

    @property
    def silent(self) -> dict[str, NetworkError]:
        """The brokers that ``skip_silent`` skips because they did not answer: by broker name, with the error."""
        return self._aio.silent

    def cluster(self) -> ClusterInfo:
        """Ask a name server for all registered brokers: their addresses by broker name, and their names by cluster."""
        return self._run(self._aio.cluster())

    def broker_state(self, address: str) -> dict[str, str]:
        """The runtime state of a broker, by Java's keys: version, message rates, disk usage, boot time and more."""
        return self._run(self._aio.broker_state(address))

    def broker_config(self, address: str) -> dict[str, str]:
        """The configuration of a broker: values as text, by the keys of broker.conf."""
        return self._run(self._aio.broker_config(address))

    def update_broker_config(self, address: str, changes: Mapping[str, str]) -> str:
        """Change the configuration of a running broker, which also writes it to its configuration file.

        A broker of this project refuses all of ``changes`` if one key is unknown or one value illegal; a broker of
        Apache RocketMQ silently ignores such a key.

        :param changes: new values, by the keys of broker.conf.
        :returns: the remark in the broker's answer, or an empty text. A broker of this project lists there the keys
            that take effect only after a restart.
        :raises MessageRefused: an unknown key or an illegal value.
        :raises PermissionDenied: a key that may not be changed remotely.
        """
        return self._run(self._aio.update_broker_config(address, changes))

    def replication(self, address: str) -> HaStatus:
        """The replication (HA) state of a broker: of a master with all its slaves, or of a slave."""
        return self._run(self._aio.replication(address))

    def topics(self) -> list[str]:
        """The names of all topics, sorted, system topics included."""
        return self._run(self._aio.topics())

    def system_topics(self) -> list[str]:
        """The names of the brokers' internal topics, sorted."""
        return self._run(self._aio.system_topics())

    def topic_configs(self, cluster: str | None = None) -> dict[str, dict[str, TopicConfig]]:
        """The configurations of all topics: by topic, then by broker name.

        :param cluster: only on brokers of this cluster.
        """
        return self._run(self._aio.topic_configs(cluster))

    def topic_config(self, topic: str) -> dict[str, TopicConfig]:
        """The configurations of a topic by broker name, which may differ between brokers.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.topic_config(topic))

    def topic_stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """The min offset, max offset and last store time of each queue of a topic.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.topic_stats(topic))

    def topic_groups(self, topic: str) -> list[str]:
        """The consumer groups that consume a topic or have consumed it, sorted.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.topic_groups(topic))

    def route(self, topic: str) -> TopicRoute:
        """Fetch the route of a topic from a name server: its brokers, their addresses and its queues.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.route(topic))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, by its current route.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.queues(topic))

    def create_topic(
        self,
        topic: str,
        queues: int = 8,
        perm: int = PERM_RW,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        order: bool = False,
        attributes: Mapping[str, str | None] | None = None,
        cluster: str | None = None,
        brokers: Collection[str] | None = None,
    ) -> None:
        """Create a topic, or change it, on every master.

        :param queues: the number of queues on each broker, for reading and writing.
        :param perm: the permission: 4 read, 2 write, 6 both.
        :param read_queues: the number of readable queues, instead of ``queues``.
        :param write_queues: the number of writable queues, instead of ``queues``.
        :param order: the order flag of the topic's configuration.
        :param attributes: attributes to set, for example ``{"message.type": "FIFO"}``; the value None removes one.
        :param cluster: only on masters of this cluster.
        :param brokers: only on the masters of these brokers, by name.
        :raises ConfigError: an illegal name, or no such cluster or broker.
        """
        self._run(
            self._aio.create_topic(
                topic,
                queues,
                perm,
                read_queues=read_queues,
                write_queues=write_queues,
                order=order,
                attributes=attributes,
                cluster=cluster,
                brokers=brokers,
            )
        )

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic from all masters, and its route from all name servers.

        :param cluster: only from masters of this cluster, and only their part of the route.
        """
        self._run(self._aio.delete_topic(topic, cluster=cluster))

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message of a queue."""
        return self._run(self._aio.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message of a queue will get."""
        return self._run(self._aio.max_offset(queue))

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message of a queue stored at or after a time; without one, the queue's max offset.

        :param timestamp_ms: milliseconds since the epoch.
        """
        return self._run(self._aio.offset_at(queue, timestamp_ms))

    def groups(self, cluster: str | None = None) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        """The configurations of all consumer groups: by group, then by broker name.

        :param cluster: only on brokers of this cluster.
        """
        return self._run(self._aio.groups(cluster))

    def create_group(
        self, group: str | SubscriptionGroupConfig, *, retry_max_times: int = 16, cluster: str | None = None
    ) -> None:
        """Create a consumer group, or change it, on every master.

        :param group: the name of the group, or its configuration; ``retry_max_times`` is ignored with the latter.
        :param retry_max_times: redeliveries of a failed message before it goes to the dead-letter topic.
        :param cluster: only on masters of this cluster.
        :raises ConfigError: an illegal name, or no such cluster.
        """
        self._run(self._aio.create_group(group, retry_max_times=retry_max_times, cluster=cluster))

    def delete_group(self, group: str, *, clean_offsets: bool = False, cluster: str | None = None) -> None:
        """Delete a consumer group from every master.

        :param clean_offsets: also delete its committed offsets.
        :param cluster: only from masters of this cluster.
        """
        self._run(self._aio.delete_group(group, clean_offsets=clean_offsets, cluster=cluster))

    def set_request_mode(
        self, group: str, topic: str, mode: str, *, share: int = 0, cluster: str | None = None
    ) -> None:
        """Set whether the members of a group pull or pop a topic.

        It applies to members whose queues brokers assign (``client_rebalance=False``), within 20 s.

        :param mode: ``"PULL"``: each queue belongs to one member; ``"POP"``: several members pop from each queue.
        :param share: in mode POP, the number of other members whose queues each member also pops; 0: all queues.
        :param cluster: only on masters of this cluster.
        :raises ConfigError: there is no such mode, or no such cluster.
        :raises TopicNotExist: a broker does not have the topic.
        :raises GroupNotExist: a broker does not have the group.
        """
        self._run(self._aio.set_request_mode(group, topic, mode, share=share, cluster=cluster))

    def members(self, group: str) -> ConsumerConnection | None:
        """The connected members of a group and their subscriptions; None if no member is connected."""
        return self._run(self._aio.members(group))

    def group_topics(self, group: str) -> list[str]:
        """The topics for which a group has committed offsets, sorted."""
        return self._run(self._aio.group_topics(group))

    def progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, OffsetWrapper]:
        """The consume progress of a group by queue: max offset, committed offset, time of the last consumed message.

        :param topic: only queues of this topic; None: of all topics for which the group has committed offsets.
        """
        return self._run(self._aio.progress(group, topic))

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The committed offset of a group in a queue: that of the next message to consume; None if there is none."""
        return self._run(self._aio.group_offset(group, queue))

    def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The committed offsets of a group by queue of a topic; queues without a committed offset are left out.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.group_offsets(group, topic))

    def set_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the committed offset of a group in a queue. Running members overwrite it with their own offsets.

        With running members use :meth:`reset_group_offset`.
        """
        self._run(self._aio.set_group_offset(group, queue, offset))

    def reset_group_offset(self, group: str, queue: MessageQueue, offset: int) -> int:
        """Make a group, running members included, consume a queue from ``offset`` on; returns the offset that is set.

        Running members follow immediately; with a Java broker at their next pull, at most 15 s later. Needs a broker
        of version 5.0 or later.

        :raises BrokerError: ``offset`` is outside of the queue, or there is no such group or topic.
        :raises ConfigError: the broker is too old to set a single queue.
        """
        return self._run(self._aio.reset_group_offset(group, queue, offset))

    def lock_queue(self, group: str, queue: MessageQueue) -> bool:
        """Acquire or renew the lock of a queue for a group, as orderly consumers do.

        :returns: True if this client holds the lock now; it expires after 60 seconds. False if another client holds it.
        """
        return self._run(self._aio.lock_queue(group, queue))

    def unlock_queue(self, group: str, queue: MessageQueue) -> None:
        """Release the lock of a queue; does nothing if another client holds it."""
        self._run(self._aio.unlock_queue(group, queue))

    def lags(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The number of messages after a group's committed offset, by queue of a topic.

        A queue without a committed offset counts all its messages. Empty for a retry topic that does not exist yet.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.lags(group, topic))

    def lag(self, group: str, topic: str) -> int:
        """The number of messages of a topic after a group's committed offsets: the sum of :meth:`lags`."""
        return self._run(self._aio.lag(group, topic))

    def message(self, offset_msg_id: str) -> MessageExt:
        """Read the message with an offset message id, which encodes the broker's address and the commit log offset.

        :raises ConfigError: it is not an offset message id, or its broker is not in this cluster.
        :raises BrokerError: the broker has no message at that offset.
        """
        return self._run(self._aio.message(offset_msg_id))

    def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = FOREVER,
        unique: bool = False,
    ) -> list[MessageExt]:
        """Find the messages of a topic with a key, oldest first, in the brokers' index of keys.

        The index lags slightly: messages of the last moment may be missing.

        :param key: one of the message's keys, or its unique key.
        :param max_messages: maximum number of messages per broker; the newest ones if there are more.
        :param begin_ms: only messages stored at or after this time, in milliseconds since the epoch.
        :param end_ms: only messages stored at or before this time, in milliseconds since the epoch.
        :param unique: compare ``key`` only with the unique key, which producers set in every message.
        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(
            self._aio.messages_by_key(
                topic, key, max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms, unique=unique
            )
        )

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_messages: int = 32,
        tags: str = "*",
        sql: str | None = None,
        wait: float = 0.0,
    ) -> Pulled:
        """Pull messages of a queue from ``offset`` on; commits no offset.

        :param max_messages: maximum number of messages; brokers also have a limit (by default 32 messages and 256 KiB).
        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead of tags; brokers need
            ``enablePropertyFilter=true``.
        :param wait: seconds that the broker may hold the pull until a message arrives (long polling).
        :raises ConfigError: an illegal expression.
        :raises NoRouteError: the name servers do not know the queue's broker.
        """
        return self._run(self._aio.pull(queue, offset, max_messages=max_messages, tags=tags, sql=sql, wait=wait))

    def read(
        self,
        queue: MessageQueue,
        start: int | None = None,
        stop: int | None = None,
        *,
        tags: str = "*",
        sql: str | None = None,
    ) -> Iterator[MessageExt]:
        """Iterate over the messages of a queue from ``start`` to before ``stop``, in offset order.

        Other parameters and errors as of :meth:`pull`.

        :param start: the first offset; None, or an offset whose message is deleted, means the oldest message.
        :param stop: the offset after the last one; None means the end of the queue at the time of the call.
        """
        return self._iterate(self._aio.read(queue, start, stop, tags=tags, sql=sql))

    def newest(
        self, topic: str, count: int, *, tags: str = "*", sql: str | None = None
    ) -> tuple[list[MessageExt], dict[MessageQueue, int]]:
        """Read the newest ``count`` messages of a topic that match the filter, oldest first.

        :returns: the messages, and the max offset of each queue at the start of the call.

        Other parameters and errors as of :meth:`pull`.
        """
        return self._run(self._aio.newest(topic, count, tags=tags, sql=sql))

    def open_transactions(self) -> list[MessageExt]:
        """The half messages of transactions that are neither committed nor rolled back, oldest first.

        Their ``properties`` have the original topic (REAL_TOPIC), the producer group (PGROUP) and the number of checks
        (TRANSACTION_CHECK_TIMES). Transactions that ended in the last seconds may still be listed: brokers record
        commits and rollbacks in batches (transactionOpBatchInterval).
        """
        return self._run(self._aio.open_transactions())

    def given_up_transactions(self) -> Iterator[MessageExt]:
        """Iterate over the half messages of transactions that brokers no longer check (TRANS_CHECK_MAX_TIME_TOPIC)."""
        return self._iterate(self._aio.given_up_transactions())

    def resume_transaction(self, offset_msg_id: str) -> None:
        """Make a broker check a transaction again that it no longer checks.

        :param offset_msg_id: the offset message id of its half message, from :meth:`given_up_transactions`.
        :raises ConfigError: it is not an offset message id, or its broker is not in this cluster.
        :raises BrokerError: the broker has no message at that offset.
        """
        self._run(self._aio.resume_transaction(offset_msg_id))

    def users(self, name: str = "", *, cluster: str | None = None) -> list[UserInfo]:
        """Ask one broker for the users whose names contain ``name``.

        :param cluster: ask a broker of this cluster; None: of any.
        """
        return self._run(self._aio.users(name, cluster=cluster))

    def user(self, name: str, *, cluster: str | None = None) -> UserInfo | None:
        """Ask one broker for a user; None if there is no such user.

        :param cluster: ask a broker of this cluster; None: of any.
        """
        return self._run(self._aio.user(name, cluster=cluster))

    def create_user(self, name: str, password: str, *, is_super: bool = False, cluster: str | None = None) -> None:
        """Add a user to every broker.

        :param is_super: make a super user, who may do everything; only a super user can create one.
        :param cluster: only on brokers of this cluster.
        :raises BrokerError: a broker already has a user of this name, or refuses; other brokers may have added it.
        """
        self._run(self._aio.create_user(name, password, is_super=is_super, cluster=cluster))

    def update_user(
        self,
        name: str,
        *,
        password: str | None = None,
        is_super: bool | None = None,
        enabled: bool | None = None,
        cluster: str | None = None,
    ) -> None:
        """Change a user on every broker; parameters that are None leave their setting unchanged.

        :param enabled: False blocks the user.
        :param cluster: only on brokers of this cluster.
        :raises ConfigError: no change is given.
        :raises BrokerError: a broker has no such user, or refuses.
        """
        self._run(self._aio.update_user(name, password=password, is_super=is_super, enabled=enabled, cluster=cluster))

    def delete_user(self, name: str, *, cluster: str | None = None) -> None:
        """Remove a user and its permissions from every broker; does nothing if there is no such user.

        :param cluster: only from brokers of this cluster.
        """
        self._run(self._aio.delete_user(name, cluster=cluster))

    def acls(self, user: str = "", resource: str = "", *, cluster: str | None = None) -> list[AclInfo]:
        """Ask one broker for the permissions of users whose names contain ``user``.

        :param resource: only permissions for resources whose names contain this text.
        :param cluster: ask a broker of this cluster; None: of any.
        """
        return self._run(self._aio.acls(user, resource, cluster=cluster))

    def acl(self, user: str, *, cluster: str | None = None) -> AclInfo | None:
        """Ask one broker for the permissions of a user; None if the user has none.

        :param cluster: ask a broker of this cluster; None: of any.
        """
        return self._run(self._aio.acl(user, cluster=cluster))

    def set_acl(
        self,
        user: str,
        resources: Sequence[str],
        actions: Sequence[str],
        *,
        allow: bool = True,
        source_ips: Sequence[str] = (),
        cluster: str | None = None,
    ) -> None:
        """Allow or deny a user actions on resources, on every broker; replaces its permissions for these resources.

        :param resources: ``Topic:NAME``, ``Group:NAME`` or ``Cluster:NAME``, where NAME may end in ``*`` for a prefix
            or be ``*`` for all; or ``*`` for all resources.
        :param actions: some of Pub, Sub, Create, Update, Delete, Get, List and All.
        :param allow: False denies the actions.
        :param source_ips: client addresses and networks that the permission applies to; empty means all.
        :param cluster: only on brokers of this cluster.
        :raises ConfigError: an illegal resource or action.
        :raises BrokerError: a broker has no such user, or refuses.
        """
        self._run(self._aio.set_acl(user, resources, actions, allow=allow, source_ips=source_ips, cluster=cluster))

    def delete_acl(self, user: str, resource: str | None = None, *, cluster: str | None = None) -> None:
        """Remove permissions of a user from every broker.

        :param resource: only the permission for this resource; None: all permissions of the user.
        :param cluster: only from brokers of this cluster.
        :raises BrokerError: a broker has no such user, or refuses.
        """
        self._run(self._aio.delete_acl(user, resource, cluster=cluster))

    def counter(self, name: str, key: str, *, cluster: str | None = None) -> dict[str, CounterValues]:
        """A counter over the last minute, hour and day, by broker name; brokers that never counted it are left out.

        :param name: one of Java's counters, for example ``TOPIC_PUT_NUMS``, ``TOPIC_PUT_SIZE``, ``GROUP_GET_NUMS``.
        :param key: what is counted: a topic, for counters of groups ``topic@group``, for those of brokers the cluster.
        :param cluster: only brokers of this cluster.
        """
        return self._run(self._aio.counter(name, key, cluster=cluster))

    def consume_times(self, group: str, topic: str) -> dict[MessageQueue, ConsumeTimes]:
        """The store times of the oldest, the newest and the last consumed message of each queue of a topic.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.consume_times(group, topic))

    def all_progress(self, *, cluster: str | None = None) -> dict[str, dict[MessageQueue, OffsetWrapper]]:
        """The consume progress of all groups, by group, then by queue: one request to each broker.

        Topics to which the members of a group no longer subscribe are left out, those of groups without members not.

        :param cluster: only on brokers of this cluster.
        """
        return self._run(self._aio.all_progress(cluster=cluster))

    def timers(self, *, cluster: str | None = None) -> dict[str, dict[str, int]]:
        """The number of timed messages that wait, by topic, then by broker name; brokers without timers are left out.

        :param cluster: only on brokers of this cluster.
        """
        return self._run(self._aio.timers(cluster=cluster))

    def queue_entries(
        self, queue: MessageQueue, offset: int, count: int = 32, *, group: str | None = None
    ) -> QueueEntries:
        """Entries of a consume queue as they are on disk, for diagnosis; none if there is no message at ``offset``.

        :param count: maximum number of entries; a broker may return fewer.
        :param group: the broker evaluates the subscription of this group, too.
        :raises BrokerError: the broker has no such queue.
        """
        return self._run(self._aio.queue_entries(queue, offset, count, group=group))

    def held(self, topic: str = "", group: str = "", *, cluster: str | None = None) -> dict[str, HeldRequests]:
        """What brokers hold until messages arrive, by broker name; only brokers of this project tell it.

        :param topic: only requests for messages of this topic.
        :param group: only requests of this group.
        :param cluster: only of brokers of this cluster.
        """
        return self._run(self._aio.held(topic, group, cluster=cluster))

    def producers(self, *, cluster: str | None = None) -> dict[str, list[ProducerInfo]]:
        """All connected producers by group; one that is connected to several brokers is there once.

        :param cluster: only of brokers of this cluster.
        """
        return self._run(self._aio.producers(cluster=cluster))

    def producer_members(self, group: str) -> list[ConnectionInfo]:
        """The connected members of one producer group, sorted by client id; empty if there are none."""
        return self._run(self._aio.producer_members(group))

    def running_info(self, group: str, client_id: str, *, stack: bool = False) -> ConsumerRunningInfo | None:
        """What a running consumer says about its queues, rates and settings; None if no broker reaches it.

        A broker passes the question on to the consumer.

        :param stack: also ask for the stacks of its threads.
        """
        return self._run(self._aio.running_info(group, client_id, stack=stack))
