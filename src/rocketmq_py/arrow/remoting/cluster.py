"""A blocking client for routes, queue offsets and committed offsets of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from rocketmq_py.arrow.options.offsets import Bounds, Offsets
from rocketmq_py.arrow.options.security import OPEN, Security
from rocketmq_py.arrow.options.selection import Assigned, Matching, Selection
from rocketmq_py.arrow.remoting.connection import BlockingConnections
from rocketmq_py.arrow.remoting.parallel import at_once
from rocketmq_py.arrow.remoting.queues import (
    Addresses,
    QueueRoutes,
    brokers_of,
    of_route,
    readable_number,
    writable_number,
)
from rocketmq_py.arrow.remoting.retry import new_retry
from rocketmq_py.core.consumer.offset_table import first_of_each_table
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError, NotLeader, RocketMQError, TopicNotExist
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import ClusterInfo, QueueData, TopicList, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.base import NoHeader
from rocketmq_py.protocol.headers.offset import (
    GetMaxOffset,
    MaxOffsetResponse,
    OffsetResponse,
    QueryConsumerOffset,
    QueueHeader,
    SearchOffset,
    UpdateConsumerOffset,
)
from rocketmq_py.protocol.headers.topic import CreateTopic, GetRouteInfo
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC, retry_topic
from rocketmq_py.protocol.sys_flag import PERM_READ, PERM_WRITE

AUTO_CREATE_QUEUES = 4
"""Number of queues of a topic that is created by its first message, as with Java's producer."""

_AVOIDED_SECONDS = 5.0
"""Time after a failed request during which other brokers of the same name are tried first."""
_AT_ONCE = 256
"""Limit for the requests in flight on one connection: a server stops reading if its responses are not read."""

Fields = dict[str, str]
"""Encoded header fields of a request, by their names on the wire."""
Request = tuple[RequestCode, Fields, bytes]
"""A request: code, header fields and body."""


class QueueEnds(NamedTuple):
    """Latest offsets by queue.

    :ivar from_slaves: queues whose master did not respond: their offsets come from a slave, which may lag.
    """

    offsets: Offsets
    from_slaves: frozenset[MessageQueue]


class Cluster:
    """A blocking client of name servers and brokers. Not thread-safe, except :meth:`exchange`; close it when done.

    :param namesrv: name servers, ``host:port`` each; tried in this order until one responds.
    :param timeout: seconds to wait for a response.
    :param retries: attempts after the first one.
    :param security: TLS and credentials for name servers and brokers.
    """

    def __init__(self, namesrv: tuple[str, ...], timeout: float, retries: int, security: Security = OPEN) -> None:
        self._namesrv = namesrv
        self._retries = retries
        self._connections = BlockingConnections(timeout, security)
        self._failed_at: dict[str, float] = {}
        self._committed_to: dict[str, set[tuple[str, str]]] = {}
        """Broker address and topic of the offsets that brokers have confirmed, by group."""

    # -- topics and queues

    def readable(self, topics: Iterable[str]) -> QueueRoutes:
        """Look up the readable queues of ``topics``.

        :raises NoRouteError: a topic does not exist, or has no readable queue.
        :raises NetworkError: no name server responds.
        """
        return self._queues(topics, readable_number)

    def selected(self, selection: Selection, *, missing: bool = False) -> QueueRoutes:
        """Look up the readable queues that a read selects.

        :param missing: leave out selected topics and queues that do not exist, instead of failing.
        :raises NoRouteError: a selected topic or queue does not exist, and ``missing`` is false.
        :raises NetworkError: no name server responds.
        """
        # a topic that matched a pattern may have just been deleted
        skip_missing = missing or isinstance(selection, Matching)
        found = self._queues(selection.topics(self.topics), readable_number, skip_missing=skip_missing).addresses
        chosen = QueueRoutes({queue: at for queue, at in found.items() if selection.wants(queue)})
        if isinstance(selection, Assigned) and not missing and (absent := selection.queues - chosen.addresses.keys()):
            raise _NoTopic(f"{min(absent)} does not exist or cannot be read; {selection}")
        return chosen

    def topics(self) -> list[str]:
        """Look up the names of all topics.

        :raises NetworkError: no name server responds.
        """
        request = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, NoHeader().to_ext(), b""
        (answer,) = self._ask_namesrv("listing topics", [request])
        return TopicList.decode(answer.body).topic_list

    def brokers(self) -> set[str]:
        """Look up the names of the brokers that are registered now.

        :raises NetworkError: no name server responds.
        """
        request = RequestCode.GET_BROKER_CLUSTER_INFO, NoHeader().to_ext(), b""
        (answer,) = self._ask_namesrv("listing brokers", [request])
        return set(ClusterInfo.decode(answer.body).broker_addr_table)

    def writable(self, topic: str) -> QueueRoutes:
        """Look up the writable queues of ``topic``.

        If the topic does not exist and brokers create topics automatically, returns the queues that the first message
        will create.

        :raises NoRouteError: the topic does not exist and is not created automatically, or has no writable queue.
        :raises NetworkError: no name server responds.
        """
        try:
            return self._queues([topic], writable_number)
        except _NoTopic:
            template = self._template()
            if template is None:
                raise
        # The name server may have just started, and the broker may have registered between the two requests.
        with suppress(_NoTopic):
            return self._queues([topic], writable_number)
        number: Callable[[QueueData], int] = lambda data: min(writable_number(data), AUTO_CREATE_QUEUES)  # noqa: E731
        return QueueRoutes(dict(of_route(topic, template, number)))

    def masters(self, topic: str) -> dict[str, str]:
        """Look up the addresses of the masters that have ``topic``, by broker name.

        :raises NoRouteError: the topic does not exist.
        :raises NetworkError: no name server responds.
        """
        brokers = brokers_of(self._route(topic))
        return {name: addresses.master for name, addresses in brokers.items() if addresses.master}

    def _template(self) -> TopicRouteData | None:
        """Look up the route of TBW102, which new topics get; None if brokers do not create topics automatically."""
        try:
            return self._route(AUTO_CREATE_TOPIC)
        except _NoTopic:
            return None

    def _queues(
        self, topics: Iterable[str], number: Callable[[QueueData], int], *, skip_missing: bool = False
    ) -> QueueRoutes:
        addresses: dict[MessageQueue, Addresses] = {}
        for topic, route in self._routes(list(topics)).items():
            found = {} if route is None else of_route(topic, route, number)
            addresses.update(found)
            if found or skip_missing:
                continue
            if route is None:
                raise _unknown(topic)
            raise NoRouteError(f"topic {topic!r} has no queue to serve this: check its permission and its brokers")
        return QueueRoutes(addresses)

    def _route(self, topic: str) -> TopicRouteData:
        route = self._routes([topic])[topic]
        if route is None:
            raise _unknown(topic)
        return route

    def _routes(self, topics: Collection[str]) -> dict[str, TopicRouteData | None]:
        """Look up the route of each topic; None for a topic that does not exist.

        :raises NetworkError: no name server responds.
        """
        requests: list[Request] = [
            (
                RequestCode.GET_ROUTEINFO_BY_TOPIC,
                GetRouteInfo(topic=topic, accept_standard_json_only=True).to_ext(),
                b"",
            )
            for topic in topics
        ]
        what = f"looking up topic {next(iter(topics))}" if len(topics) == 1 else f"looking up {len(topics)} topics"
        return {
            topic: None if answer.code == ResponseCode.TOPIC_NOT_EXIST else TopicRouteData.decode(answer.body)
            for topic, answer in zip(topics, self._ask_namesrv(what, requests), strict=True)
        }

    def _ask_namesrv(self, what: str, requests: Sequence[Request]) -> list[Reply]:
        """Send requests to the first name server that answers all with SUCCESS or TOPIC_NOT_EXIST; retry if none does.

        :param what: the purpose of the requests, for the log and errors.
        :raises NetworkError: no name server answers all.
        """
        return new_retry(self._retries, what).call(lambda: self._ask_namesrv_once(requests)) if requests else []

    def _ask_namesrv_once(self, requests: Sequence[Request]) -> list[Reply]:
        failures: list[RocketMQError] = []
        for address in self._namesrv:
            try:
                answers = self.exchange(address, requests)
                for answer in answers:
                    if answer.code != ResponseCode.TOPIC_NOT_EXIST:
                        _check(answer, address)
            except (NetworkError, BrokerError) as e:
                self._connections.drop(address)
                failures.append(e)
            else:
                return answers
        raise NetworkError("no name server answers; check option namesrv: " + "; ".join(map(str, failures)))

    # -- offsets of queues

    def bounds(self, queues: QueueRoutes) -> dict[MessageQueue, Bounds]:
        """Ask brokers for the earliest and latest offset of each queue.

        :raises RocketMQError: a broker does not respond after all retries.
        """
        earliest: Offsets = {}
        latest: Offsets = {}
        for queue, (answer, address) in self._each(queues, RequestCode.GET_MAX_OFFSET, _bounds).items():
            _check(answer, address)
            found = answer.header(MaxOffsetResponse)
            latest[queue] = found.offset
            if found.min_offset is not None:
                earliest[queue] = max(found.min_offset, 0)
        # Other brokers and logical queues. Messages may have been removed since the answer.
        earliest |= self.earliest(queues.only(queue for queue in latest if queue not in earliest))
        return {queue: Bounds(min(earliest[queue], latest[queue]), latest[queue]) for queue in queues.addresses}

    def earliest(self, queues: QueueRoutes) -> Offsets:
        """Ask brokers for the offset of the oldest message of each queue.

        :raises RocketMQError: a broker does not respond after all retries.
        """
        answers = self._offsets(queues, RequestCode.GET_MIN_OFFSET, _min_offset)
        return {queue: max(offset, 0) for queue, offset in answers.items()}  # -1: a batch queue without messages

    def latest(self, queues: QueueRoutes) -> Offsets:
        """Ask brokers for the offset that the next message of each queue will get.

        :raises RocketMQError: a broker does not respond after all retries.
        """
        return self.ends(queues).offsets

    def ends(self, queues: QueueRoutes) -> QueueEnds:
        """Ask brokers for the latest offsets as :meth:`latest`, and note queues whose offset comes from a slave."""
        offsets: Offsets = {}
        from_slaves: set[MessageQueue] = set()
        for queue, (answer, address) in self._each(queues, RequestCode.GET_MAX_OFFSET, _max_offset).items():
            offsets[queue] = _offset_of(answer, address)
            if address != queues.addresses[queue].master:
                from_slaves.add(queue)
        return QueueEnds(offsets, frozenset(from_slaves))

    def since(self, queues: QueueRoutes, times: Mapping[MessageQueue, int]) -> Offsets:
        """Ask brokers for the offset of the first message of each queue that was stored at or after a time.

        A queue without such a message gets its latest offset.

        :param times: ms since 1970, by queue.
        """
        return self._offsets(queues, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, lambda queue: _search(queue, times[queue]))

    # -- consumer groups

    def committed(self, group: str, queues: QueueRoutes) -> Offsets:
        """Ask brokers for the offsets that a group has committed; queues without one are left out."""
        answers = self._each(queues, RequestCode.QUERY_CONSUMER_OFFSET, lambda queue: _query_offset(group, queue))
        return {
            queue: _offset_of(answer, address)
            for queue, (answer, address) in answers.items()
            if answer.code != ResponseCode.QUERY_NOT_FOUND
        }

    def commit(self, group: str, offsets: Offsets, queues: QueueRoutes) -> None:
        """Commit ``offsets`` for a consumer group.

        :param queues: the addresses of the queues' brokers; offsets of queues without an address are not committed.
        :raises RocketMQError: a broker refuses an offset or does not respond.
        """
        chosen = queues.only(offsets)
        known = self._committed_to.setdefault(group, set())
        first = first_of_each_table(chosen.addresses, lambda queue: chosen.addresses[queue].master or "", known)
        for part in (first, chosen.addresses.keys() - first):
            for queue, address in self._commit(group, {queue: offsets[queue] for queue in part}, chosen):
                known.add((address, queue.topic))

    def _commit(self, group: str, offsets: Offsets, queues: QueueRoutes) -> Iterator[tuple[MessageQueue, str]]:
        """Commit offsets at the same time; yield each queue with the address of the broker that has its offset."""
        code, chosen = RequestCode.UPDATE_CONSUMER_OFFSET, queues.only(offsets)
        answers = self._each(chosen, code, lambda queue: _update_offset(group, queue, offsets[queue]))
        for queue, (answer, address) in answers.items():
            _check(answer, address)
            yield queue, address

    def show(self, group: str, queues: QueueRoutes) -> None:
        """Create the retry topic of a group if it does not exist, so that tools find the group.

        Consumers create it when they join, but a group that only Spark uses has no consumers.

        :param queues: queues of the query; the topic is created on their masters.
        :raises RocketMQError: a broker refuses.
        """
        topic = retry_topic(group)
        try:
            self._route(topic)
        except _NoTopic:
            header = CreateTopic(
                topic=topic, default_topic=AUTO_CREATE_TOPIC, read_queue_nums=1, write_queue_nums=1,
                perm=PERM_READ | PERM_WRITE, topic_filter_type="SINGLE_TAG", order=False,
            )  # fmt: skip
            request = RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_ext(), b""
            for master in {at.master for at in queues.by_address() if at.master}:
                _check(self._ask(master, [request])[0], master)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    # -- asking brokers

    def _offsets(self, queues: QueueRoutes, code: RequestCode, header: Callable[[MessageQueue], Fields]) -> Offsets:
        answers = self._each(queues, code, header)
        return {queue: _offset_of(answer, address) for queue, (answer, address) in answers.items()}

    def _each(
        self, queues: QueueRoutes, code: RequestCode, header: Callable[[MessageQueue], Fields]
    ) -> dict[MessageQueue, tuple[Reply, str]]:
        """Send a request for each queue to its broker; return the responses with the addresses they came from.

        If a logical queue has moved to another broker, sends its request there and changes its address in ``queues``.
        """
        answers = self._each_broker(queues, code, header)
        moved = [queue for queue, (answer, _) in answers.items() if answer.code == ResponseCode.NOT_LEADER_FOR_QUEUE]
        if moved:
            for topic in {queue.topic for queue in moved}:
                current = of_route(topic, self._route(topic), readable_number)
                queues.addresses.update((queue, current[queue]) for queue in moved if queue in current)
            answers.update(self._each_broker(queues.only(moved), code, header))
        return answers

    def _each_broker(
        self, queues: QueueRoutes, code: RequestCode, header: Callable[[MessageQueue], Fields]
    ) -> dict[MessageQueue, tuple[Reply, str]]:
        """Send a request for each queue to its broker, to all brokers at the same time.

        Returns the response for each queue, with the address it came from.
        """

        def ask(members: tuple[Addresses, list[MessageQueue]]) -> tuple[list[Reply], str]:
            at, asked = members
            return self._ask_one_of(at, [(code, header(queue), b"") for queue in asked])

        grouped = queues.by_address()
        return {
            queue: (answer, address)
            for (given, address), members in zip(at_once(ask, list(grouped.items())), grouped.values(), strict=True)
            for queue, answer in zip(members, given, strict=True)
        }

    def _ask_one_of(self, addresses: Addresses, requests: Sequence[Request]) -> tuple[list[Reply], str]:
        """Send requests to a master, or to its slaves if it fails; return the responses and the address used.

        :raises RocketMQError: all attempts failed.
        """
        now = time.monotonic()
        order = sorted(addresses.all, key=lambda a: now - self._failed_at.get(a, float("-inf")) < _AVOIDED_SECONDS)
        retry = new_retry(self._retries + len(order) - 1, f"asking {', '.join(order)}")
        while True:
            try:
                is_slave = order[0] != addresses.master
                return self._ask(order[0], requests, is_slave=is_slave), order[0]
            except RocketMQError as e:
                self._failed_at[order[0]] = time.monotonic()
                retry.failed(e)
                order = [*order[1:], order[0]]

    def _ask(self, address: str, requests: Sequence[Request], *, is_slave: bool = False) -> list[Reply]:
        """Send requests to one broker; return its responses.

        :param is_slave: the broker is a slave, which may not have a topic yet: TOPIC_NOT_EXIST is worth a retry.
        :raises RocketMQError: a response has an error that is worth a retry, here or at another broker.
        """
        answers = self.exchange(address, requests)
        for answer in answers:
            if answer.code == ResponseCode.SUCCESS:
                continue
            error = BrokerError.of(answer.code, answer.remark, address)
            is_final = isinstance(error, NotLeader) or (isinstance(error, TopicNotExist) and not is_slave)
            if error.retryable and not is_final:
                raise error
        return answers

    def exchange(self, address: str, requests: Sequence[Request]) -> list[Reply]:
        """Send requests to a server, many in flight at a time, and return its responses in the same order. Thread-safe.

        :raises NetworkError: the server cannot be reached, or does not respond to all.
        """
        answers: dict[int, Reply] = {}
        order: list[int] = []
        with self._connections.lock(address):
            try:
                connection = self._connections.to(address)
                while len(answers) < len(requests):
                    if (free := _AT_ONCE - (len(order) - len(answers))) * 2 >= _AT_ONCE and len(order) < len(requests):
                        order += connection.send(requests[len(order) : len(order) + free])
                    answer = connection.receive()
                    answers[answer.opaque] = answer
            except NetworkError:
                self._connections.drop(address)
                raise
        return [answers[opaque] for opaque in order]


class _NoTopic(NoRouteError):
    retryable = False


def _check(answer: Reply, address: str) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerError.of(answer.code, answer.remark, address)


def _offset_of(answer: Reply, address: str) -> int:
    _check(answer, address)
    return answer.header(OffsetResponse).offset


def _min_offset(queue: MessageQueue) -> Fields:
    return {**_of_topic(QueueHeader, queue.topic, queue.broker_name), _QUEUE_ID: str(queue.queue_id)}


def _max_offset(queue: MessageQueue) -> Fields:
    return {**_of_topic(GetMaxOffset, queue.topic, queue.broker_name), _QUEUE_ID: str(queue.queue_id)}


def _bounds(queue: MessageQueue) -> Fields:
    return {**_of_topic(GetMaxOffset, queue.topic, queue.broker_name), _QUEUE_ID: str(queue.queue_id), "bounds": "true"}


def _search(queue: MessageQueue, at: int) -> Fields:
    header = SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=at, bname=queue.broker_name)
    return header.to_ext()


def _query_offset(group: str, queue: MessageQueue) -> Fields:
    header = QueryConsumerOffset(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False,
        bname=queue.broker_name,
    )  # fmt: skip
    return header.to_ext()


def _update_offset(group: str, queue: MessageQueue, offset: int) -> Fields:
    header = UpdateConsumerOffset(
        consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset, bname=queue.broker_name
    )
    return header.to_ext()


_QUEUE_ID = "queueId"


@lru_cache(maxsize=64)
def _of_topic(header: type[QueueHeader | GetMaxOffset], topic: str, broker_name: str) -> Fields:
    """Return the encoded fields that requests about all queues of a topic share. Do not change the dictionary.

    To encode a header for each of thousands of queues takes longer than to send it.
    """
    return header(topic=topic, queue_id=0, bname=broker_name).to_ext()


def _unknown(topic: str) -> _NoTopic:
    return _NoTopic(
        f"topic {topic!r} does not exist, say the name servers. Create it first, or check option subscribe or topic"
    )
