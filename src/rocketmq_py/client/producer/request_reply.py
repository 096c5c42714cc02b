"""Request and reply: makes requests and replies, and passes replies to the requests that wait for them.

Properties and requests as in Java's MessageUtil, DefaultMQProducerImpl.request and ClientRemotingProcessor.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.routes import Routes
from rocketmq_py.core.producer.request_futures import RequestFutures
from rocketmq_py.errors import ClosedError, ConfigError, MessageIllegal, NoRouteError, RequestTimeout
from rocketmq_py.model import Message, MessageExt, RecordHead, SendResult
from rocketmq_py.properties import Property
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.send import PushReplyMessage
from rocketmq_py.protocol.sys_flag import COMPRESSED
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.compression import decompress
from rocketmq_py.wire.record import pack_host

_log = logging.getLogger(__name__)

_NEEDED = (Property.CLUSTER, Property.REPLY_TO_CLIENT, Property.CORRELATION_ID)


def reply(request: MessageExt, body: bytes | str) -> Message:
    """Make the reply to a consumed request; any producer can send it: ``producer.send(reply(request, "done"))``.

    The broker pushes the reply to the client that sent the request. The send raises BrokerError if that client is no
    longer connected.

    :param request: the message that the listener got.
    :param body: the reply's content; ``str`` is encoded as UTF-8. Brokers refuse an empty one.
    :raises MessageIllegal: ``request`` was sent with ``send()`` instead of ``request()``.
    """
    asked = request.properties
    missing = [name for name in _NEEDED if not asked.get(name)]
    if missing:
        raise MessageIllegal(
            f"{request!r} cannot be replied to: it has no property {', '.join(missing)}; its sender must use request() "
            "instead of send()"
        )
    answer = Message(names.reply_topic(asked[Property.CLUSTER]), body)
    answer.properties |= {
        Property.MESSAGE_TYPE: names.REPLY_MESSAGE_TYPE,
        Property.CORRELATION_ID: asked[Property.CORRELATION_ID],
        Property.REPLY_TO_CLIENT: asked[Property.REPLY_TO_CLIENT],
    }
    if Property.MESSAGE_TTL in asked:
        answer.properties[Property.MESSAGE_TTL] = asked[Property.MESSAGE_TTL]
    return answer


def request_of(message: Message, client_id: str, timeout: float) -> Message:
    """Copy a message and add the properties of a request: correlation id, client to reply to, time to live.

    :param timeout: seconds that the request waits for its reply.
    :raises ConfigError: ``timeout`` is not greater than 0.
    """
    if timeout <= 0:
        raise ConfigError(f"timeout={timeout} leaves no time for a reply; it must be greater than 0 seconds")
    request = Message(message.topic, message.body, flag=message.flag)
    request.properties = {
        **message.properties,
        Property.CORRELATION_ID: str(uuid.uuid4()),
        Property.REPLY_TO_CLIENT: client_id,
        Property.MESSAGE_TTL: str(max(1, round(timeout * 1000))),
    }
    request.properties.pop(Property.UNIQUE_KEY, None)
    return request


def unanswered(request: Message, sent: SendResult | None, timeout: float) -> RequestTimeout:
    """Make the error for a request whose reply did not arrive within ``timeout`` seconds.

    :param sent: the result of sending the request; None if the send itself was not confirmed.
    """
    what = f"no reply to request {request.properties[Property.CORRELATION_ID]} to topic {request.topic!r}"
    if sent is None:
        return RequestTimeout(f"{what} within {timeout:g} s: the request itself was not confirmed as stored")
    return RequestTimeout(
        f"{what} within {timeout:g} s; it is stored as {sent.msg_id} in {sent.queue}. Does a consumer of the topic run,"
        " and send reply(request, ...)?"
    )


async def register_for_replies(instance: ClientInstance, topic: str) -> set[str]:
    """Send heartbeats to all brokers that may receive a reply to a request to ``topic``, whose route must be cached.

    A consumer may send its reply to any broker of the cluster. That broker pushes it only to a client that has sent it
    a heartbeat.

    :returns: the reply topics, one for each cluster that has the topic.
    """
    routes = instance.routes
    route = routes.known(topic)
    clusters = {broker.cluster for broker in route.data.broker_datas} if route is not None else set()
    found = {names.reply_topic(cluster) for cluster in clusters}
    for reply_topic in found:
        if routes.known(reply_topic) is None:
            try:
                await routes.refresh(reply_topic)
            except NoRouteError as e:
                _log.warning("no consumer can reply to requests to topic %s yet: %s", topic, e)
    serve(instance)
    if any(instance.broker_version(master) is None for master in _masters(routes, {topic, *found})):
        await instance.heartbeat_all()
    return found


def _masters(routes: Routes, topics: Iterable[str]) -> Iterator[str]:
    for route in filter(None, map(routes.known, topics)):
        yield from filter(None, map(routes.master, route.brokers))


class PendingRequests:
    """The requests of one producer that wait for replies. Use it in one event loop only.

    :param who: the producer, as error messages name it.
    """

    def __init__(self, who: str) -> None:
        self._who = who
        self._awaited: RequestFutures[asyncio.Future[MessageExt]] = RequestFutures()
        self._closed = False

    def expect(self, request: Message) -> asyncio.Future[MessageExt]:
        """Register a request before it is sent; returns the future of its reply.

        :raises ClosedError: the producer is closed.
        """
        if self._closed:
            raise self._closed_error()
        waiter: asyncio.Future[MessageExt] = asyncio.get_running_loop().create_future()
        waiter.add_done_callback(_retrieve)
        self._awaited.add(request.properties[Property.CORRELATION_ID], request.topic, waiter)
        return waiter

    def end(self, request: Message) -> None:
        """Stop waiting for the reply to a request; a reply that arrives later is logged."""
        self._awaited.end(request.properties[Property.CORRELATION_ID], time.monotonic())

    def came(self, correlation_id: str, message: MessageExt) -> bool:
        """Pass a reply to the request that waits for it, or log it if the request has timed out.

        :returns: False if this producer has sent no request with that correlation id.
        """
        waiter = self._awaited.take(correlation_id)
        if waiter is not None and not waiter.done():
            waiter.set_result(message)
            return True
        ended = self._awaited.ended(correlation_id)
        if ended is None:
            return False
        _log.warning(
            "the reply to request %s to topic %s came from %s %.3f s after the request had timed out; use a longer "
            "timeout if this happens often", correlation_id, ended.topic, message.born_host,
            time.monotonic() - ended.at,
        )  # fmt: skip
        return True

    def close(self) -> None:
        """Make all waiting requests raise ClosedError."""
        self._closed = True
        for waiter in self._awaited.abandon(time.monotonic()):
            if not waiter.done():
                waiter.set_exception(self._closed_error())

    def _closed_error(self) -> ClosedError:
        return ClosedError(f"{self._who} is closed: it can receive no reply")


@runtime_checkable
class Requester(Protocol):
    """A producer that can send requests."""

    @property
    def pending(self) -> PendingRequests: ...


def serve(instance: ClientInstance) -> None:
    """Register the handler of PUSH_REPLY_MESSAGE_TO_CLIENT: it passes a reply to the producer that waits for it."""

    def came(address: str, request: Command) -> Command:
        header = PushReplyMessage.from_ext(request.ext)
        message = _message(header, request.body)
        message.add_properties({Property.REPLY_ARRIVE_TIME: str(time.time_ns() // 1_000_000)})
        correlation_id = message.properties.get(Property.CORRELATION_ID, "")
        takers = (member for member in instance.members if isinstance(member, Requester))
        if not any(taker.pending.came(correlation_id, message) for taker in takers):
            _log.warning(
                "broker %s pushed a reply from %s that no request of this client waits for: correlation id %s, "
                "%d bytes",
                address, header.born_host, correlation_id, len(message.body),
            )  # fmt: skip
        return Command(ResponseCode.SUCCESS)

    instance.connections.on_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, came)


def _retrieve(waiter: asyncio.Future[MessageExt]) -> None:
    """Mark the future's exception as retrieved: asyncio would log it if the send failed before the reply."""
    if not waiter.cancelled():
        waiter.exception()


def _message(header: PushReplyMessage, body: bytes) -> MessageExt:
    """Make a message of a pushed reply; it has queue offset 0 and commit log offset 0, as it is not stored.

    :raises CorruptRecord: the body cannot be decompressed.
    """
    if header.sys_flag & COMPRESSED:
        body = decompress(body, header.sys_flag)
    head = RecordHead(
        0, 0, zlib.crc32(body), header.queue_id, header.flag, 0, 0, header.sys_flag & ~COMPRESSED,
        header.born_timestamp, _host(header.born_host), header.store_timestamp, _host(header.store_host),
        header.reconsume_times or 0, 0, len(body),
    )  # fmt: skip
    return MessageExt(head, header.topic, body, (header.properties or "").encode(), header.bname or "")


def _host(text: str) -> bytes:
    ip, _, port = text.rpartition(":")
    return pack_host(ip, int(port))
