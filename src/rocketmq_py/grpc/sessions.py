"""The clients that speak gRPC: their settings, and their telemetry streams, over which a broker asks them.

To the rest of the broker a client is a connection like any other (:class:`TelemetryPeer`): registered as producer or
consumer, listed by tools, asked about transactions.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable

import msgspec

from rocketmq_py.core.grpc.transaction_ids import HalfPlace, encode_transaction_id
from rocketmq_py.errors import ConnectionLost, CorruptRecord, RequestTimeout
from rocketmq_py.grpc.conversion import message_of
from rocketmq_py.properties import Property
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.grpc.definition import Message, Settings
from rocketmq_py.protocol.grpc.enums import ClientType, Code
from rocketmq_py.protocol.grpc.service import (
    PrintThreadStackTraceCommand,
    RecoverOrphanedTransactionCommand,
    TelemetryCommand,
    VerifyMessageCommand,
)
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.peer import Peer
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.fastjson import dumps_java
from rocketmq_py.wire.record import decode_record, stored_messages

_log = logging.getLogger(__name__)

MAX_SESSIONS = 100_000
WAIT_SECONDS = 3.0
NO_SETTINGS = "the client has sent no settings: open its telemetry stream first"
CONSUMERS = frozenset({
    ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER, ClientType.PULL_CONSUMER, ClientType.LITE_PUSH_CONSUMER,
    ClientType.LITE_SIMPLE_CONSUMER,
})  # fmt: skip


class TelemetryPeer(Peer):
    """A client as the broker sees it: what a broker sends it becomes a command in its telemetry stream.

    :param call: the telemetry stream.
    :param broker: the name of the broker that asks; empty if there are several.
    """

    protocol = "grpc"

    __slots__ = ("_broker", "_nonces", "_results", "telemetry")

    def __init__(self, call: Call, broker: str = "") -> None:
        super().__init__()
        self.address, self.local_address, self.host = call.peer.address, call.peer.local_address, call.peer.host
        self.telemetry = call
        self._broker = broker
        self._nonces = itertools.count()
        self._results: dict[str, asyncio.Future[TelemetryCommand]] = {}

    def send(self, command: Command) -> None:
        """Ask for the outcome of a transaction; other requests of remoting have no meaning to the client."""
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self.check_transaction(command.body, self._broker)

    def check_transaction(self, record: bytes, broker: str) -> None:
        """Ask for the outcome of a transaction, given the stored half message.

        :param broker: the name of the broker that has stored it.
        """
        try:
            message, transaction_id = _converted(record, broker)
        except CorruptRecord as e:
            _log.error("%s cannot be asked about a transaction, its message is damaged: %s", self.address, e)
            return
        self.tell(TelemetryCommand(recover_orphaned_transaction_command=RecoverOrphanedTransactionCommand(
            message=message, transaction_id=transaction_id,
        )))  # fmt: skip

    def tell(self, command: TelemetryCommand) -> None:
        """Send a command."""
        self.telemetry.send(command.encode())

    async def invoke(self, command: Command, timeout: float) -> Command:
        """Have the client consume a message, or tell what its threads do.

        :raises RequestTimeout: no response in time.
        :raises ConnectionLost: the telemetry stream has ended.
        """
        nonce = str(next(self._nonces))
        told = self._command(command, nonce)
        if told is None:
            return _running_info({})
        if self.closed:
            raise ConnectionLost(f"{self.address} has no telemetry stream now")
        answer = self._results[nonce] = asyncio.get_running_loop().create_future()
        self.tell(told)
        try:
            async with asyncio.timeout(timeout):
                return _as_response(command.code, await answer)
        except TimeoutError:
            raise RequestTimeout(f"{self.address} did not answer in {timeout:g} s") from None
        finally:
            del self._results[nonce]

    def _command(self, command: Command, nonce: str) -> TelemetryCommand | None:
        if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            message, _ = _converted(command.body, self._broker)
            verify = VerifyMessageCommand(nonce=nonce, message=message)
            return TelemetryCommand(verify_message_command=verify)
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO and command.ext.get("jstackEnable") == "true":
            return TelemetryCommand(print_thread_stack_trace_command=PrintThreadStackTraceCommand(nonce=nonce))
        return None

    def answered_by(self, nonce: str, command: TelemetryCommand) -> None:
        """Complete the request with this number; what nobody waits for is dropped."""
        waiter = self._results.get(nonce)
        if waiter is not None and not waiter.done():
            waiter.set_result(command)

    def lost(self) -> None:
        """Mark the stream as ended and fail all pending requests."""
        super().lost()
        for waiter in self._results.values():
            if not waiter.done():
                waiter.set_exception(ConnectionLost(f"{self.address} ended its telemetry stream before it answered"))


def _converted(record: bytes, broker: str) -> tuple[Message, str]:
    """Return the message of a stored record, and the id of its transaction if it is a half message.

    :raises CorruptRecord: the record cannot be decoded.
    """
    [stored] = stored_messages(record) or [decode_record(record)]
    key = stored.properties.get(Property.UNIQUE_KEY, "")
    place = HalfPlace(broker, stored.commit_log_offset, stored.queue_offset, key)
    return message_of(stored, stored.topic), encode_transaction_id(place)


_RESULTS = {Code.OK: "CR_SUCCESS", Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER"}


def _as_response(code: int, told: TelemetryCommand) -> Command:
    """Return a client's answer as the response of a remoting client."""
    if code == RequestCode.GET_CONSUMER_RUNNING_INFO:
        trace = told.thread_stack_trace
        return _running_info({"jstack": (trace.thread_stack_trace or "") if trace is not None else ""})
    result = _RESULTS.get(told.status.code if told.status is not None else 0, "CR_THROW_EXCEPTION")  # type: ignore[call-overload]
    body = {
        "order": False, "autoCommit": True, "consumeResult": result, "spentTimeMills": 0,
        "remark": told.status.message if told.status is not None else None,
    }  # fmt: skip
    return Command(ResponseCode.SUCCESS, body=dumps_java(body))


def _running_info(more: dict[str, str]) -> Command:
    body = {"properties": {}, "subscriptionSet": [], "mqTable": {}, "mqPopTable": {}, "statusTable": {}, **more}
    return Command(ResponseCode.SUCCESS, body=dumps_java(body))


class Session(msgspec.Struct):
    """A client and what it told of itself.

    :ivar peer: the client with its latest telemetry stream, which may have ended.
    :ivar group: its consumer group; empty for a producer.
    """

    client_id: str
    settings: Settings
    peer: TelemetryPeer
    language: str
    seen_ms: int
    group: str = ""
    topics: tuple[str, ...] = ()

    @property
    def is_consumer(self) -> bool:
        """True for consumers of all kinds."""
        return self.settings.client_type in CONSUMERS

    @property
    def is_connected(self) -> bool:
        """True while its telemetry stream is open."""
        return not self.peer.closed


class Sessions:
    """The sessions by client id."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._awaited: dict[str, list[Callable[[], None]]] = {}

    def find(self, client_id: str) -> Session | None:
        """Return the session of a client; None if it has sent no settings."""
        return self._sessions.get(client_id)

    def wait(self, client_id: str, then: Callable[[], None]) -> None:
        """Call ``then`` once: when a client has sent its settings, or after a few seconds.

        Clients may send their first calls before their settings have arrived.
        """
        waiting = self._awaited.setdefault(client_id, [])

        def once() -> None:
            if then_once in waiting:
                waiting.remove(then_once)
                if not waiting:
                    self._awaited.pop(client_id, None)
                timer.cancel()
                then()

        then_once = once
        waiting.append(then_once)
        timer = asyncio.get_running_loop().call_later(WAIT_SECONDS, once)

    def put(self, session: Session) -> None:
        """Add or replace a session."""
        for waiting in tuple(self._awaited.get(session.client_id, ())):
            asyncio.get_running_loop().call_soon(waiting)
        self._sessions.pop(session.client_id, None)
        self._sessions[session.client_id] = session
        if len(self._sessions) > MAX_SESSIONS:
            for gone in [old for old in self._sessions.values() if not old.is_connected][:1000]:
                del self._sessions[gone.client_id]

    def remove(self, client_id: str) -> None:
        """Forget a client."""
        self._sessions.pop(client_id, None)

    def expire(self, before_ms: int) -> Iterable[Session]:
        """Remove clients without a telemetry stream that were not heard of since ``before_ms``; return them."""
        late = [one for one in self._sessions.values() if not one.is_connected and one.seen_ms < before_ms]
        for session in late:
            del self._sessions[session.client_id]
        return late
