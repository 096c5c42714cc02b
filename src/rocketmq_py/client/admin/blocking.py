"""The blocking administration: the same names as the asyncio one, which does the work in the portal's loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from rocketmq_py.client.admin import admin as aio
from rocketmq_py.client.admin.messages import FOREVER, Pulled
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
from rocketmq_py.remoting.portal import portal
from rocketmq_py.tls import Tls
from rocketmq_py.wire.signing import Credentials


class Admin:
    """Manages a cluster and looks into it, from any number of threads: ``with Admin("127.0.0.1:9876") as admin``.

    :param namesrv: name servers: ``"h:p;h:p"``, a sequence, or None for the environment's NAMESRV_ADDR.
    :param timeout: seconds to wait for each answer.
    :param address_map: other addresses for those brokers advertise.
    :param tls: True, TlsOptions or an ssl.SSLContext reaches every server over TLS.
    :param credentials: what requests are signed with, for servers with access control.
    :param skip_silent: where several brokers are asked, leave out those that do not answer, and ask them no more; see
        :attr:`silent`. By default what is asked of several fails when one of them is silent.

    Every method may raise NetworkError (nobody answers) and BrokerError (the answer is no).
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        timeout: float = 5.0,
        address_map: Mapping[str, str] | None = None,
        tls: Tls = None,
        credentials: Credentials | None = None,
        skip_silent: bool = False,
    ) -> None:
        self._aio = aio.Admin(
            namesrv, timeout=timeout, address_map=address_map, tls=tls, credentials=credentials,
            skip_silent=skip_silent,
        )  # fmt: skip
        self._run = portal().run

    @property
    def silent(self) -> dict[str, NetworkError]:
        """Brokers that were left out because they do not answer, by name, and what became of the question."""
        return self._aio.silent

    def start(self) -> None:
        """Make ready. May be called more than once."""
        self._run(self._aio.start())

    def close(self) -> None:
        """End the connections. May be called more than once."""
        self._run(self._aio.close())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- brokers and topics

    def cluster(self) -> ClusterInfo:
        """Which brokers the name server knows, by name and by cluster."""
        return self._run(self._aio.cluster())

    def broker_state(self, address: str) -> dict[str, str]:
        """How a broker is doing, under Java's names: version, rates, disk, boot time and more.

        :param address: ``host:port`` as it is registered, see :meth:`cluster`.
        """
        return self._run(self._aio.broker_state(address))

    def broker_config(self, address: str) -> dict[str, str]:
        """The settings of a broker, under the keys of broker.conf."""
        return self._run(self._aio.broker_config(address))

    def update_broker_config(self, address: str, changes: Mapping[str, str]) -> str:
        """Change settings of a running broker, which keeps them in its file.

        A broker of this project refuses all of ``changes`` if one is unknown or cannot be; an Apache RocketMQ broker
        ignores such a one and says nothing.

        :param changes: values by the keys of broker.conf.
        :returns: what the broker has to say of it: of this project's which keys wait for its next start. Else empty.
        :raises MessageRefused: a key or a value that cannot be.
        :raises PermissionDenied: a key that may not be changed from afar.
        """
        return self._run(self._aio.update_broker_config(address, changes))

    def replication(self, address: str) -> HaStatus:
        """How far the slaves of a master are, or how a slave is doing."""
        return self._run(self._aio.replication(address))

    def topics(self) -> list[str]:
        """The names of all topics, sorted, system topics included."""
        return self._run(self._aio.topics())

    def system_topics(self) -> list[str]:
        """The names of the topics that brokers have for themselves, sorted."""
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
        """The extent of each queue of a topic.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.topic_stats(topic))

    def topic_groups(self, topic: str) -> list[str]:
        """The consumer groups that consume a topic now or have consumed it, sorted.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.topic_groups(topic))

    def route(self, topic: str) -> TopicRoute:
        """Where the queues of a topic are, as the name server has it now.

        :raises NoRouteError: it does not know the topic.
        """
        return self._run(self._aio.route(topic))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read.

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
        :param attributes: to set, for example ``{"message.type": "FIFO"}``; None as a value takes one away.
        :param cluster: only on brokers of this cluster.
        :param brokers: only on these brokers.
        :raises ConfigError: an illegal name, or no such cluster or broker.
        """
        self._run(
            self._aio.create_topic(
                topic, queues, perm, read_queues=read_queues, write_queues=write_queues, order=order,
                attributes=attributes, cluster=cluster, brokers=brokers,
            )
        )  # fmt: skip

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic from every master, and its route from every name server."""
        self._run(self._aio.delete_topic(topic, cluster=cluster))

    # -- groups

    def groups(self, cluster: str | None = None) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        """The configuration of every consumer group: by group, then by broker name.

        :param cluster: only on brokers of this cluster.
        """
        return self._run(self._aio.groups(cluster))

    def create_group(
        self, group: str | SubscriptionGroupConfig, *, retry_max_times: int = 16, cluster: str | None = None
    ) -> None:
        """Create a consumer group, or change it, on every master.

        :param group: its name, or its whole configuration, which then is all that counts.
        :param retry_max_times: how often a failed message is delivered again before it goes to the dead-letter topic.
        :raises ConfigError: an illegal name, or no such cluster.
        """
        self._run(self._aio.create_group(group, retry_max_times=retry_max_times, cluster=cluster))

    def delete_group(self, group: str, *, clean_offsets: bool = False, cluster: str | None = None) -> None:
        """Delete a consumer group from every master.

        :param clean_offsets: delete its offsets, too.
        """
        self._run(self._aio.delete_group(group, clean_offsets=clean_offsets, cluster=cluster))

    def set_request_mode(
        self, group: str, topic: str, mode: str, *, share: int = 0, cluster: str | None = None
    ) -> None:
        """How the members of a group get the messages of a topic, if they let brokers assign them
        (``client_rebalance=False``); they follow a change within 20 s.

        :param mode: ``"PULL"``: each queue is one member's; ``"POP"``: members pop whatever is next.
        :param share: in mode POP, how many others' queues each member pops from beside its own; 0: all queues.
        :raises ConfigError: there is no such mode, or no such cluster.
        :raises TopicNotExist: a broker does not have the topic.
        :raises GroupNotExist: a broker does not have the group.
        """
        self._run(self._aio.set_request_mode(group, topic, mode, share=share, cluster=cluster))

    def members(self, group: str) -> ConsumerConnection | None:
        """The members of a group that are connected and what they subscribe to; None when nobody is."""
        return self._run(self._aio.members(group))

    def group_topics(self, group: str) -> list[str]:
        """The topics a group has committed offsets of, sorted."""
        return self._run(self._aio.group_topics(group))

    def progress(self, group: str, topic: str | None = None) -> dict[MessageQueue, OffsetWrapper]:
        """How far a group has come in each queue of a topic, or of every topic it has committed offsets of."""
        return self._run(self._aio.progress(group, topic))

    # -- offsets

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the oldest message a queue still holds."""
        return self._run(self._aio.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset the next message of a queue will get."""
        return self._run(self._aio.max_offset(queue))

    def offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at ``timestamp_ms`` or later; the queue's end if there is none."""
        return self._run(self._aio.offset_at(queue, timestamp_ms))

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset a group consumes next of a queue; None where it has committed none."""
        return self._run(self._aio.group_offset(group, queue))

    def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The offset a group consumes next, of every queue where it has committed one.

        :raises NoRouteError: the name server does not know the topic.
        """
        return self._run(self._aio.group_offsets(group, topic))

    def set_group_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Make a group consume a queue from ``offset`` on; members that are running keep to their own count."""
        self._run(self._aio.set_group_offset(group, queue, offset))

    def reset_group_offset(self, group: str, queue: MessageQueue, offset: int) -> int:
        """Make a group consume a queue from ``offset`` on, its running members included; returns where it is now.

        Members hear of it at once; those of a Java broker with their next pull, 15 s later at most. Needs brokers from
        5.0 on.

        :raises BrokerError: the queue does not reach from or to ``offset``, or there is no such group or topic.
        :raises ConfigError: the broker is too old to set a single queue.
        """
        return self._run(self._aio.reset_group_offset(group, queue, offset))

    def lock_queue(self, group: str, queue: MessageQueue) -> bool:
        """Take or renew the lock of a queue, as members of a group that consume in order do; whether it is ours now.

        The broker forgets it 60 seconds after the last time.
        """
        return self._run(self._aio.lock_queue(group, queue))

    def unlock_queue(self, group: str, queue: MessageQueue) -> None:
        """Give the lock of a queue back; nothing happens if it is another's."""
        self._run(self._aio.unlock_queue(group, queue))

    def lags(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """How many messages of each queue a group has not committed yet; all, where it has committed none.

        :raises NoRouteError: the name server does not know the topic. A retry topic nobody needed yet has no queues.
        """
        return self._run(self._aio.lags(group, topic))

    def lag(self, group: str, topic: str) -> int:
        """How many messages of a topic a group has not committed yet. See :meth:`lags`."""
        return self._run(self._aio.lag(group, topic))

    # -- messages

    def message(self, offset_msg_id: str) -> MessageExt:
        """The message with an offset message id, which names its broker and its place in the broker's log.

        :raises ConfigError: it is no such id, or of a broker that this cluster does not have.
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
        """Messages of a topic with a key, the oldest first; from the index, which has them a moment after they came.

        :param key: one of the message's keys, or its unique key.
        :param max_messages: at most this many of each broker; the newest, if there are more.
        :param begin_ms: stored at this time or later, in milliseconds since the epoch.
        :param end_ms: stored at this time or earlier.
        :param unique: look for the unique key only, which producers give every message.
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
        """What a queue holds from ``offset`` on; nothing is committed anywhere.

        :param max_messages: at most this many; brokers have a limit of their own (32, and 256 KiB).
        :param tags: ``"*"`` for all messages, or tags separated by ``||``.
        :param sql: an SQL92 expression over message properties instead; brokers need ``enablePropertyFilter=true``.
        :param wait: seconds the broker may wait for a message when it has none yet.
        :raises ConfigError: an illegal expression.
        :raises NoRouteError: the queue's broker is unknown.
        """
        return self._run(self._aio.pull(queue, offset, max_messages=max_messages, tags=tags, sql=sql, wait=wait))

    def read(
        self, queue: MessageQueue, start: int | None = None, stop: int | None = None, *, tags: str = "*",
        sql: str | None = None,
    ) -> Iterator[MessageExt]:  # fmt: skip
        """The messages of a queue, one after the other; arguments and errors as :meth:`pull`.

        :param start: the first offset; without it, or where it is gone already, the oldest message there is.
        :param stop: the offset to end before; the queue's end as it is now, by default.
        """
        messages = self._aio.read(queue, start, stop, tags=tags, sql=sql)
        while (message := self._run(_next(messages))) is not None:
            yield message

    def newest(
        self, topic: str, count: int, *, tags: str = "*", sql: str | None = None
    ) -> tuple[list[MessageExt], dict[MessageQueue, int]]:
        """The newest ``count`` messages of a topic that the filter wants, the oldest of them first.

        :returns: the messages, and where each queue ended when it was looked at.
        Arguments and errors as :meth:`pull`.
        """
        return self._run(self._aio.newest(topic, count, tags=tags, sql=sql))

    # -- transactions

    def open_transactions(self) -> list[MessageExt]:
        """The half messages of transactions that have not ended, the oldest first.

        ``properties`` tell the real topic (REAL_TOPIC), the producer group (PGROUP) and how often it was asked
        (TRANSACTION_CHECK_TIMES). What has ended in the last seconds may still be listed: brokers write ends down
        together (transactionOpBatchInterval).
        """
        return self._run(self._aio.open_transactions())

    def given_up_transactions(self) -> Iterator[MessageExt]:
        """The half messages of transactions nobody is asked about any more (TRANS_CHECK_MAX_TIME_TOPIC)."""
        messages = self._aio.given_up_transactions()
        while (message := self._run(_next(messages))) is not None:
            yield message

    def resume_transaction(self, offset_msg_id: str) -> None:
        """Have a broker ask again about a transaction it has given up.

        :param offset_msg_id: of its message in TRANS_CHECK_MAX_TIME_TOPIC.
        :raises ConfigError: it is no such id, or of a broker that this cluster does not have.
        :raises BrokerError: the broker has no such message there.
        """
        self._run(self._aio.resume_transaction(offset_msg_id))

    # -- access control

    def users(self, name: str = "", *, cluster: str | None = None) -> list[UserInfo]:
        """The users whose names contain ``name``, as the first broker of the cluster, or of all, knows them."""
        return self._run(self._aio.users(name, cluster=cluster))

    def user(self, name: str, *, cluster: str | None = None) -> UserInfo | None:
        """A user as the first broker of the cluster, or of all, knows it; None when there is none."""
        return self._run(self._aio.user(name, cluster=cluster))

    def create_user(self, name: str, password: str, *, is_super: bool = False, cluster: str | None = None) -> None:
        """Add a user to every broker of a cluster, or of all.

        :param is_super: it may do everything; only a super user can make one.
        :raises BrokerError: a broker has one of this name, or refuses; others may have added it.
        """
        self._run(self._aio.create_user(name, password, is_super=is_super, cluster=cluster))

    def update_user(
        self, name: str, *, password: str | None = None, is_super: bool | None = None, enabled: bool | None = None,
        cluster: str | None = None,
    ) -> None:  # fmt: skip
        """Change what is given of a user.

        :param enabled: whether it may do anything at present.
        :raises ConfigError: nothing is given. :raises BrokerError: a broker has no such user, or refuses.
        """
        change = self._aio.update_user(name, password=password, is_super=is_super, enabled=enabled, cluster=cluster)
        self._run(change)

    def delete_user(self, name: str, *, cluster: str | None = None) -> None:
        """Remove a user with its permissions; none of this name is as good."""
        self._run(self._aio.delete_user(name, cluster=cluster))

    def acls(self, user: str = "", resource: str = "", *, cluster: str | None = None) -> list[AclInfo]:
        """The permissions of users, and about resources, whose names contain these, as one broker knows them."""
        return self._run(self._aio.acls(user, resource, cluster=cluster))

    def acl(self, user: str, *, cluster: str | None = None) -> AclInfo | None:
        """The permissions of a user, as one broker knows them; None when it has none."""
        return self._run(self._aio.acl(user, cluster=cluster))

    def set_acl(
        self, user: str, resources: Sequence[str], actions: Sequence[str], *, allow: bool = True,
        source_ips: Sequence[str] = (), cluster: str | None = None,
    ) -> None:  # fmt: skip
        """Allow a user to do something, or deny it; what was said about the same resources before is replaced.

        :param resources: ``Topic:NAME``, ``Group:NAME``, ``Cluster:NAME``, each also as ``NAME*`` or ``*``; or ``*``.
        :param actions: of Pub, Sub, Create, Update, Delete, Get, List and All.
        :param source_ips: addresses and networks it holds for; none means all.
        :raises ConfigError: a resource or an action is none.
        :raises BrokerError: a broker has no such user, or refuses.
        """
        change = self._aio.set_acl(user, resources, actions, allow=allow, source_ips=source_ips, cluster=cluster)
        self._run(change)

    def delete_acl(self, user: str, resource: str | None = None, *, cluster: str | None = None) -> None:
        """Remove the permissions of a user about a resource, or all it has.

        :raises BrokerError: a broker has no such user, or refuses.
        """
        self._run(self._aio.delete_acl(user, resource, cluster=cluster))

    def __repr__(self) -> str:
        return repr(self._aio)


async def _next(messages: AsyncIterator[MessageExt]) -> MessageExt | None:
    return await anext(messages, None)
