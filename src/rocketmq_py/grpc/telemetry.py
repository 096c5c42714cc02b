"""Telemetry, Heartbeat and NotifyClientTermination: which clients there are, and what they may rely on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketmq_py.core.access.permissions import Action
from rocketmq_py.core.grpc.settings import merged_settings
from rocketmq_py.core.sql92 import check_length, compile_sql
from rocketmq_py.errors import BadHeader, BrokerError, ConfigError, CorruptBody
from rocketmq_py.grpc.cluster import Access, Clients, Groups, Names, Prepare
from rocketmq_py.grpc.receipts import RenewedReceipts
from rocketmq_py.grpc.replies import group_name, topic_name
from rocketmq_py.grpc.sessions import NO_SETTINGS, Session, Sessions, TelemetryPeer
from rocketmq_py.protocol.bodies.client import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, Version
from rocketmq_py.protocol.grpc.definition import Resource, Settings, Subscription
from rocketmq_py.protocol.grpc.enums import ClientType, Code, FilterType
from rocketmq_py.protocol.grpc.refusal import OK, CallRefused
from rocketmq_py.protocol.grpc.service import (
    HeartbeatRequest,
    NotifyClientTerminationRequest,
    StatusResponse,
    TelemetryCommand,
)
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.wire.command import LANGUAGES
from rocketmq_py.wire.grpc import GrpcStatus

_log = logging.getLogger(__name__)

_CLIENT_ERRORS = range(40_000, 50_000)
_NOT_SERVED = (ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER)
MAX_CLIENT_ID = 1_024


class Telemetry:
    """Keeps the clients that speak gRPC, and registers them among all others.

    :param name: the name of this broker; empty if there are several.
    :param prepare: gets ready what is asked about topics and groups.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self, access: Access, sessions: Sessions, clients: Clients, groups: Groups, receipts: RenewedReceipts,
        name: str, prepare: Prepare, clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._name = name
        self._prepare = prepare
        self._access = access
        self._sessions = sessions
        self._clients = clients
        self._groups = groups
        self._receipts = receipts
        self._clock = clock

    # -- the stream

    def begin(self, call: Call) -> None:
        """Serve a telemetry stream."""
        client_id = call.header(b"x-mq-client-id")
        if not client_id.strip() or len(client_id) > MAX_CLIENT_ID:
            call.end(GrpcStatus.INVALID_ARGUMENT, "client id cannot be empty")
            return
        peer = TelemetryPeer(call, self._name)
        call.on_message = lambda data: self._told(call, client_id, peer, data)
        call.on_end = lambda: self._ended(call, peer)
        call.on_cancel = lambda: self._lost(peer)

    def _ended(self, call: Call, peer: TelemetryPeer) -> None:
        call.end()
        self._lost(peer)

    def _lost(self, peer: TelemetryPeer) -> None:
        if not peer.closed:
            peer.lost()
            self._clients.disconnected(peer)

    def _told(self, call: Call, client_id: str, peer: TelemetryPeer, data: bytes) -> None:
        def refuse(e: CallRefused) -> None:
            status = GrpcStatus.INVALID_ARGUMENT if e.code in _CLIENT_ERRORS else GrpcStatus.INTERNAL
            call.end(status, e.text)
            self._lost(peer)

        try:
            command = TelemetryCommand.decode(data)
            if command.settings is not None:
                settings = command.settings
                self._prepare(call, _names_of(settings), lambda: self._answer(call, client_id, peer, settings), refuse)
            elif command.verify_message_result is not None:
                peer.answered_by(command.verify_message_result.nonce, command)
            elif command.thread_stack_trace is not None:
                peer.answered_by(command.thread_stack_trace.nonce, command)
        except CallRefused as e:
            refuse(e)
        except CorruptBody as e:
            refuse(CallRefused(Code.BAD_REQUEST, str(e)))

    def _answer(self, call: Call, client_id: str, peer: TelemetryPeer, settings: Settings) -> None:
        try:
            answer = self._settings(call, client_id, peer, settings)
        except (BrokerError, BadHeader) as e:
            raise CallRefused(Code.BAD_REQUEST, str(e)) from e
        peer.tell(TelemetryCommand(status=OK, settings=answer))

    def _settings(self, call: Call, client_id: str, peer: TelemetryPeer, settings: Settings) -> Settings:
        if settings.client_type in _NOT_SERVED:
            raise CallRefused(Code.NOT_IMPLEMENTED, "this broker has no lite topics")
        language = call.header(b"x-mq-language")
        session = Session(
            client_id, settings, peer, language if language in LANGUAGES else _OTHER_NAMES.get(language, "OTHER"),
            self._clock(),
        )  # fmt: skip
        if settings.publishing is not None:
            session.topics = tuple(topic_name(topic) for topic in settings.publishing.topics)
            for topic in session.topics:
                self._access.check(call, RequestCode.HEART_BEAT, (Action.PUB,), topic=topic)
        elif settings.subscription is not None:
            self._check_subscription(call, session, settings.subscription)
        else:
            raise CallRefused(Code.ILLEGAL_ACCESS_POINT, "the settings neither publish nor subscribe")
        group = self._groups.find(session.group) if session.group else None
        session.settings = merged_settings(settings, group)
        before = self._sessions.find(client_id)
        self._sessions.put(session)
        if before is not None and before.peer is not peer:
            self._lost(before.peer)  # the client has opened a new stream
        self._register(session)
        return session.settings

    def _check_subscription(self, call: Call, session: Session, subscription: Subscription) -> None:
        session.group = group_name(subscription.group)
        topics = [topic_name(entry.topic) for entry in subscription.subscriptions]
        self._access.check(call, RequestCode.HEART_BEAT, (Action.SUB,), group=session.group, topics=topics)
        if self._groups.find(session.group) is None:
            raise CallRefused(Code.ILLEGAL_CONSUMER_GROUP, f"group {session.group} not found")
        for entry in subscription.subscriptions:
            expression = entry.expression
            if expression is not None and expression.type == FilterType.SQL:
                try:
                    check_length(expression.expression)
                    compile_sql(expression.expression)
                except ConfigError as e:
                    raise CallRefused(Code.ILLEGAL_FILTER_EXPRESSION, str(e)) from None

    # -- registration

    def _register(self, session: Session) -> None:
        """Register a client as if it had sent a heartbeat of remoting.

        :raises BadHeader: a subscription is malformed.
        """
        session.seen_ms = self._clock()
        data = HeartbeatData(client_id=session.client_id)
        if session.group:
            data.consumer_data_set = [self._consumer(session)]
        data.producer_data_set = [ProducerData(group_name=topic) for topic in session.topics]
        request = Request(code=RequestCode.HEART_BEAT, version=Version.V5_5_0, language=session.language)
        self._clients.heartbeat(session.peer, request, data)

    def _consumer(self, session: Session) -> ConsumerData:
        subscription = session.settings.subscription or Subscription()
        entries = []
        for entry in subscription.subscriptions:
            expression = entry.expression
            kind = "SQL92" if expression is not None and expression.type == FilterType.SQL else "TAG"
            text = expression.expression if expression is not None else "*"
            name = entry.topic.name if entry.topic is not None else ""
            entries.append(SubscriptionData.parse(name, text, session.seen_ms, kind))
        is_push = session.settings.client_type == ClientType.PUSH_CONSUMER
        return ConsumerData(
            group_name=session.group, consume_type="CONSUME_PASSIVELY" if is_push else "CONSUME_ACTIVELY",
            subscription_data_set=entries,
        )  # fmt: skip

    def heartbeat(self, call: Call, request: HeartbeatRequest) -> None:
        """Keep a client registered."""
        session = self._session(call)
        if session.group:
            group_name(request.group)
            self._access.check(call, RequestCode.HEART_BEAT, (Action.SUB,), group=session.group)
        self._register(session)
        call.answer(StatusResponse(status=OK).encode())

    def terminate(self, call: Call, request: NotifyClientTerminationRequest) -> None:
        """Forget a client that ends."""
        session = self._session(call)
        if session.group:
            group_name(request.group)
            self._access.check(call, RequestCode.UNREGISTER_CLIENT, (Action.SUB,), group=session.group)
        self._clients.disconnected(session.peer)
        self._sessions.remove(session.client_id)
        self._receipts.left(session)
        call.answer(StatusResponse(status=OK).encode())

    def _session(self, call: Call) -> Session:
        session = self._sessions.find(call.header(b"x-mq-client-id"))
        if session is None:
            raise CallRefused(Code.UNRECOGNIZED_CLIENT_TYPE, NO_SETTINGS)
        return session

    def expire(self, before_ms: int) -> None:
        """Forget clients without a telemetry stream that were not heard of since ``before_ms``."""
        for session in self._sessions.expire(before_ms):
            self._receipts.left(session)


def _names_of(settings: Settings) -> Names:
    """Return what settings name, legal or not."""
    topics: list[Resource | None] = []
    group = ""
    if settings.publishing is not None:
        topics += settings.publishing.topics
    elif settings.subscription is not None:
        topics += [entry.topic for entry in settings.subscription.subscriptions]
        group = settings.subscription.group.name if settings.subscription.group is not None else ""
    return Names(tuple(topic.name for topic in topics if topic is not None), group)


_OTHER_NAMES = {"GOLANG": "GO", "NODEJS": "NODE_JS", "DOT_NET": "DOTNET"}
