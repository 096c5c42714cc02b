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
from rocketmq_py.protocol.bodies.client import ConsumerConnection
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.route import ClusterInfo
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.sys_flag import PERM_RW
from rocketmq_py.tls import Tls
from rocketmq_py.wire.signing import Credentials


class Admin(BlockingFacade[AioSource]):
    """Manages a cluster and looks into it: ``with Admin("127.0.0.1:9876") as admin``.

    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param timeout: seconds to wait for each answer.
    :param instance: share this client's connections; its owner starts and stops it.
    :param address_map: connect elsewhere than brokers advertise.
    :param tls: True, TlsOptions or an ssl.SSLContext: speak TLS with every server.
    :param credentials: sign requests, for servers with access control.
    :param skip_silent: in calls that ask several brokers, leave out brokers that do not answer, in this and later
        calls; see :attr:`silent`. By default such a call fails if one broker does not answer.

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
        """Brokers that were left out because they do not answer: the error by broker name."""
        return self._aio.silent

    def cluster(self) -> ClusterInfo:
        """The registered brokers, by name and by cluster."""
        return self._run(self._aio.cluster())

    def broker_state(self, address: str) -> dict[str, str]:
        """The runtime state of a broker under Java's names: version, rates, disk, boot time and more."""
        return self._run(self._aio.broker_state(address))

    def broker_config(self, address: str) -> dict[str, str]:
        """The configuration of a broker, by keys of broker.conf."""
        return self._run(self._aio.broker_config(address))

    def update_broker_config(self, address: str, changes: Mapping[str, str]) -> str:
        """Change the configuration of a running broker, which writes it to its file.

        A broker of this project refuses all of ``changes`` if one key is unknown or one value illegal; an Apache
        RocketMQ broker ignores that one silently.

        :param changes: values by keys of broker.conf.
        :returns: the remark of the broker, empty if there is none: a broker of this project names keys that take effect
            at its next start.
        :raises MessageRefused: an unknown key or an illegal value.
        :raises PermissionDenied: a key that may not be changed remotely.
        """
        return self._run(self._aio.update_broker_config(address, changes))

    def replication(self, address: str) -> HaStatus:
        """The replication state of a master with its slaves, or of a slave."""
        return self._run(self._aio.replication(address))

    def topics(self) -> list[str]:
        """The names of all topics, sorted, system topics included."""
        return self._run(self._aio.topics())

    def system_topics(self) -> list[str]:
        """The names of the topics that brokers use themselves, sorted."""
        return self._run(self._aio.system_topics())

    def topic_configs(self, cluster: str | None = None) -> dict[str, dict[str, TopicConfig]]:
        """The configuration of every topic: by topic, then by broker name.

        :param cluster: only on brokers of this cluster.
        """
        return self._run(self._aio.topic_configs(cluster))

    def topic_config(self, topic: str) -> dict[str, TopicConfig]:
        """The configuration of a topic, by broker name.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.topic_config(topic))

    def topic_stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """The smallest and largest offset of each queue of a topic.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.topic_stats(topic))

    def topic_groups(self, topic: str) -> list[str]:
        """The consumer groups that consume a topic or have consumed it, sorted.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.topic_groups(topic))

    def route(self, topic: str) -> TopicRoute:
        """The current route of a topic: where its queues are.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.route(topic))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic.

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

        :param queues: queues on each broker, unless ``read_queues`` or ``write_queues`` says otherwise.
        :param perm: 4 read, 2 write, 6 both.
        :param attributes: to set, for example ``{"message.type": "FIFO"}``; the value None removes an attribute.
        :param cluster: only on brokers of this cluster.
        :param brokers: only on these brokers.
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
        """Delete a topic from all masters, and its route from all name servers."""
        self._run(self._aio.delete_topic(topic, cluster=cluster))

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message of a queue."""
        return self._run(self._aio.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message of a queue gets."""
        return self._run(self._aio.max_offset(queue))

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at ``timestamp_ms`` or later; the queue's end if there is none."""
        return self._run(self._aio.offset_at(queue, timestamp_ms))

    def groups(self, cluster: str | None = None) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        """The configuration of every consumer group: by group, then by broker name.

        :param cluster: only on brokers of this cluster.
        """
        return self._run(self._aio.groups(cluster))

    def create_group(
        self, group: str | SubscriptionGroupConfig, *, retry_max_times: int = 16, cluster: str | None = None
    ) -> None:
        """Create a consumer group, or change it, on every master.

        :param group: its name, or its whole configuration, which replaces the other parameters.
        :param retry_max_times: deliveries of a failed message after the first, before it goes to the dead-letter topic.
        :raises ConfigError: an illegal name, or no such cluster.
        """
        self._run(self._aio.create_group(group, retry_max_times=retry_max_times, cluster=cluster))

    def delete_group(self, group: str, *, clean_offsets: bool = False, cluster: str | None = None) -> None:
        """Delete a consumer group from every master.

        :param clean_offsets: also delete its offsets.
        """
        self._run(self._aio.delete_group(group, clean_offsets=clean_offsets, cluster=cluster))

    def set_request_mode(
        self, group: str, topic: str, mode: str, *, share: int = 0, cluster: str | None = None
    ) -> None:
        """Set whether the members of a group pull or pop a topic, if brokers assign its queues
        (``client_rebalance=False``). Members follow a change within 20 s.

        :param mode: ``"PULL"``: each queue belongs to one member; ``"POP"``: members pop from shared queues.
        :param share: in mode POP, the number of other members' queues that each member pops from, too; 0: all queues.
        :raises ConfigError: there is no such mode, or no such cluster.
        :raises TopicNotExist: a broker does not have the topic.
        :raises GroupNotExist: a broker does not have the group.
        """
        self._run(self._aio.set_request_mode(group, topic, mode, share=share, cluster=cluster))

    def members(self, group: str) -> ConsumerConnection | None:
        """The connected members of a group and their subscriptions; None if there are none."""
        return self._run(self._aio.members(group))

    def group_topics(self, group: str) -> list[str]:
        """The topics for which a group has committed offsets, sorted."""
        return self._run(self._aio.group_topics(group))

    def progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, OffsetWrapper]:
        """The progress of a group in each queue of a topic, or of all topics for which it has committed offsets."""
        return self._run(self._aio.progress(group, topic))

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The committed offset of a group for a queue: what it consumes next; None if there is none."""
        return self._run(self._aio.group_offset(group, queue))

    def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The committed offsets of a group by queue; queues without one are left out.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.group_offsets(group, topic))

    def set_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set the committed offset of a group for a queue. Running members overwrite it with theirs."""
        self._run(self._aio.set_group_offset(group, queue, offset))

    def reset_group_offset(self, group: str, queue: MessageQueue, offset: int) -> int:
        """Make a group, running members included, consume a queue from ``offset`` on; returns its offset now.

        Members learn of it immediately; with a Java broker at their next pull, at most 15 s later. Needs brokers of
        version 5.0 or later.

        :raises BrokerError: ``offset`` is outside of the queue, or there is no such group or topic.
        :raises ConfigError: the broker is too old to set a single queue.
        """
        return self._run(self._aio.reset_group_offset(group, queue, offset))

    def lock_queue(self, group: str, queue: MessageQueue) -> bool:
        """Take or renew the lock of a queue, as orderly consumers do; True if this client holds it now.

        It expires 60 seconds after the last renewal.
        """
        return self._run(self._aio.lock_queue(group, queue))

    def unlock_queue(self, group: str, queue: MessageQueue) -> None:
        """Release the lock of a queue; does nothing if another client holds it."""
        self._run(self._aio.unlock_queue(group, queue))

    def lags(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The number of messages that a group has not committed yet, by queue; all of them if it has committed none.

        :raises NoRouteError: the name server does not know the topic. A retry topic that does not exist yet has no
            queues.
        """
        return self._run(self._aio.lags(group, topic))

    def lag(self, group: str, topic: str) -> int:
        """The number of messages of a topic that a group has not committed yet. See :meth:`lags`."""
        return self._run(self._aio.lag(group, topic))

    def message(self, offset_msg_id: str) -> MessageExt:
        """The message with an offset message id, which holds the broker's address and the offset in its commit log.

        :raises ConfigError: it is not such an id, or its broker is not in this cluster.
        :raises BrokerError: the broker has no message there.
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
        """Messages of a topic with a key, oldest first. They come from the index, which lags a moment behind.

        :param key: one of the message's keys, or its unique key.
        :param max_messages: limit for each broker; the newest are returned if there are more.
        :param begin_ms: stored at this time or later, in milliseconds since the epoch.
        :param end_ms: stored at this time or earlier.
        :param unique: look for the unique key only, which a producer sets in every message.
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
        """Pull messages of a queue from ``offset`` on; commits nothing.

        :param max_messages: limit; brokers have limits of their own (32 messages, 256 KiB).
        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead; brokers need ``enablePropertyFilter=true``.
        :param wait: seconds that the broker waits for a message if there is none yet.
        :raises ConfigError: an illegal expression.
        :raises NoRouteError: the queue's broker is unknown.
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
        """Iterate over the messages of a queue; parameters and errors as :meth:`pull`.

        :param start: the first offset; the oldest message by default, or if the offset is deleted already.
        :param stop: the offset to end before; the present end of the queue by default.
        """
        return self._iterate(self._aio.read(queue, start, stop, tags=tags, sql=sql))

    def newest(
        self, topic: str, count: int, *, tags: str = "*", sql: str | None = None
    ) -> tuple[list[MessageExt], dict[MessageQueue, int]]:
        """The newest ``count`` messages of a topic that match the filter, oldest first.

        :returns: the messages, and the end of each queue when it was read.
        Parameters and errors as :meth:`pull`.
        """
        return self._run(self._aio.newest(topic, count, tags=tags, sql=sql))

    def open_transactions(self) -> list[MessageExt]:
        """The half messages of transactions that have not ended, oldest first.

        ``properties`` hold the real topic (REAL_TOPIC), the producer group (PGROUP) and the number of checks
        (TRANSACTION_CHECK_TIMES). Transactions that ended in the last seconds may still be listed: brokers record ends
        in batches (transactionOpBatchInterval).
        """
        return self._run(self._aio.open_transactions())

    def given_up_transactions(self) -> Iterator[MessageExt]:
        """The half messages of transactions that brokers have stopped checking (TRANS_CHECK_MAX_TIME_TOPIC)."""
        return self._iterate(self._aio.given_up_transactions())

    def resume_transaction(self, offset_msg_id: str) -> None:
        """Make a broker check a transaction again that it has stopped checking.

        :param offset_msg_id: of its message in TRANS_CHECK_MAX_TIME_TOPIC.
        :raises ConfigError: it is not such an id, or its broker is not in this cluster.
        :raises BrokerError: the broker has no such message there.
        """
        self._run(self._aio.resume_transaction(offset_msg_id))

    def users(self, name: str = "", *, cluster: str | None = None) -> list[UserInfo]:
        """The users whose names contain ``name``, from the first broker of the cluster, or of all."""
        return self._run(self._aio.users(name, cluster=cluster))

    def user(self, name: str, *, cluster: str | None = None) -> UserInfo | None:
        """A user, from the first broker of the cluster, or of all; None if there is none."""
        return self._run(self._aio.user(name, cluster=cluster))

    def create_user(self, name: str, password: str, *, is_super: bool = False, cluster: str | None = None) -> None:
        """Add a user to every broker of a cluster, or of all.

        :param is_super: allowed everything; only a super user can create one.
        :raises BrokerError: a broker has a user of this name, or refuses; other brokers may have added it.
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
        """Change a user; parameters that are None stay as they are.

        :param enabled: False blocks the user.
        :raises ConfigError: all parameters are None. :raises BrokerError: a broker has no such user, or refuses.
        """
        self._run(self._aio.update_user(name, password=password, is_super=is_super, enabled=enabled, cluster=cluster))

    def delete_user(self, name: str, *, cluster: str | None = None) -> None:
        """Remove a user and its permissions; does nothing if there is no such user."""
        self._run(self._aio.delete_user(name, cluster=cluster))

    def acls(self, user: str = "", resource: str = "", *, cluster: str | None = None) -> list[AclInfo]:
        """The permissions of users and for resources whose names contain these texts, from one broker."""
        return self._run(self._aio.acls(user, resource, cluster=cluster))

    def acl(self, user: str, *, cluster: str | None = None) -> AclInfo | None:
        """The permissions of a user, from one broker; None if it has none."""
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
        """Allow or deny a user actions on resources; replaces its permissions for the same resources.

        :param resources: ``Topic:NAME``, ``Group:NAME``, ``Cluster:NAME``, each also as ``NAME*`` or ``*``; or ``*``.
        :param actions: of Pub, Sub, Create, Update, Delete, Get, List and All.
        :param source_ips: addresses and networks that the permission applies to; none means all.
        :raises ConfigError: an illegal resource or action.
        :raises BrokerError: a broker has no such user, or refuses.
        """
        self._run(self._aio.set_acl(user, resources, actions, allow=allow, source_ips=source_ips, cluster=cluster))

    def delete_acl(self, user: str, resource: str | None = None, *, cluster: str | None = None) -> None:
        """Remove the permissions of a user for a resource, or all of them.

        :raises BrokerError: a broker has no such user, or refuses.
        """
        self._run(self._aio.delete_acl(user, resource, cluster=cluster))
