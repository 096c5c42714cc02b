"""Plain sends: those of one read that need no special treatment are stored together, as those of remoting are.

The accelerator reads requests, and encodes records and answers. This module decides, once for each kind of messages and
by the rules of :mod:`rocketmq_py.grpc.sending`, what they become. Others are stored one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from rocketmq_py.accelerator import Accelerator, CallSends, CallTarget
from rocketmq_py.broker.grpc.calls_of_read import CallsOfRead, Waiting
from rocketmq_py.broker.grpc.local_requests import LocalRequests
from rocketmq_py.core.grpc.messages import (
    BORN_HOST,
    BORN_TIMESTAMP,
    MAX_PROPERTIES_BYTES,
    check_message,
    is_zlib,
    stored_properties,
    type_of,
)
from rocketmq_py.core.grpc.queues import queue_of_group
from rocketmq_py.errors import CorruptBody
from rocketmq_py.grpc.replies import status_of, topic_name
from rocketmq_py.grpc.sending import STORED, Sending
from rocketmq_py.properties import Property, encode_properties
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.grpc.definition import SystemProperties
from rocketmq_py.protocol.grpc.enums import MessageType
from rocketmq_py.protocol.grpc.refusal import OK, CallRefused
from rocketmq_py.protocol.grpc.service import SendMessageRequest, SendMessageResponse, SendResultEntry, StatusResponse
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.reply import Reply, RunReply
from rocketmq_py.wire.record import COMPRESSED

_CACHED, _SHORT = 4096, 1024
"""So many kinds are remembered at most, of those with so many bytes."""
_OK = StatusResponse(status=OK).encode()
_TYPES = (MessageType.NORMAL, MessageType.FIFO)


class _Kind(NamedTuple):
    """What the messages of a kind have in common.

    ``parts`` are encoded properties: before keys and unique key, between these and the time of birth, and after it.
    ``names_host``: the born host is among them.
    """

    topic: str
    message_type: MessageType
    message_group: str | None
    sys_flag: int
    parts: tuple[bytes, bytes, bytes]
    names_host: bool


class PlainSends(CallsOfRead):
    """Collects the sends of a read, and stores them when it ends.

    :param sending: the rules.
    :param alone: handles one request.
    """

    def __init__(
        self, requests: LocalRequests, sending: Sending, alone: Callable[[Call, bytes], None], accelerator: Accelerator
    ) -> None:
        super().__init__(alone, "sends")
        self._requests = requests
        self._sending = sending
        self._accelerator = accelerator
        self._kinds: dict[bytes, _Kind | None] = {}
        self._turn = 0

    def _handle(self, waiting: list[Waiting]) -> None:
        sends = self._accelerator.call_sends([data for _, data in waiting], MAX_PROPERTIES_BYTES)
        kinds, targets, topics = sends.kinds(), list[CallTarget | None](), list[str]()
        numbers: list[int] = []
        store = partial(self._store_run, waiting, sends, targets)
        for number, place in enumerate(sends.kinds_of()):
            call, data = waiting[number]
            if place is not None and place == len(targets):  # the first request of its kind
                kind = self._kind(kinds[place], data)
                targets.append(None if kind is None else self._target(kind, call.peer))
                topics.append("" if kind is None else kind.topic)
            if place is None or targets[place] is None:
                store(numbers)
                numbers = []
                self._alone(call, data)
            elif self._is_admitted(call, topics[place]):
                numbers.append(number)
        store(numbers)

    def _store_run(
        self, waiting: list[Waiting], sends: CallSends, targets: list[CallTarget | None], numbers: list[int]
    ) -> None:
        if not numbers:
            return
        chosen = [waiting[number] for number in numbers]
        run = sends.run(numbers, targets, self._turn)
        self._turn += len(numbers)
        begin, end, alone = 0, len(chosen), 1
        peer = chosen[0][0].peer
        while begin < end:
            found = self._requests.run_sends(peer, run, begin, _later(chosen, begin))
            if found is None:  # then one is stored alone, then two, and so on: as of Dispatcher
                stop = min(begin + alone, end)
                for call, data in chosen[begin:stop]:
                    self._alone(call, data)
                begin, alone = stop, 2 * alone
                continue
            if found.held is None:
                _answer(chosen[begin : found.stop], found, Reply())
            begin, alone = found.stop, 1

    def _is_admitted(self, call: Call, topic: str) -> bool:
        try:
            self._sending.check_access(call, topic)
        except CallRefused as e:
            call.answer(StatusResponse(status=e.status()).encode())
            return False
        return True

    # -- kinds

    def _kind(self, name: bytes, data: bytes) -> _Kind | None:
        """Return the kind of a request; None if its messages need special treatment.

        :param name: stands for the kind.
        """
        if name in self._kinds:
            return self._kinds[name]
        try:
            kind = self._kind_of(data)
        except (CallRefused, CorruptBody):  # the same happens to each message, and its client is told
            kind = None
        if len(name) <= _SHORT:
            if len(self._kinds) >= _CACHED:
                self._kinds.clear()
            self._kinds[name] = kind
        return kind

    def _kind_of(self, data: bytes) -> _Kind | None:
        [message] = SendMessageRequest.decode(data).messages
        system = message.system_properties
        if system is None or not _is_usual(system):
            return None
        check_message(message, len(message.body), 0)
        topic = topic_name(message.topic)
        properties = stored_properties(message, topic, "")
        message_type = type_of(properties)
        if message_type not in _TYPES:
            return None
        parts: list[dict[str, str]] = [{}, {}, {}]
        place = 0
        for name, value in properties.items():
            if name in (Property.KEYS, Property.UNIQUE_KEY):
                place = 1
            elif name == BORN_TIMESTAMP:
                place = 2
            elif name != BORN_HOST or value:
                parts[place][name] = value
        before, middle, after = map(encode_properties, parts)
        flag = COMPRESSED if is_zlib(system.body_encoding) else 0
        group = system.message_group
        return _Kind(topic, message_type, group, flag, (before, middle, after), bool(system.born_host))

    def _target(self, kind: _Kind, peer: Peer) -> CallTarget | None:
        """Return what messages of a kind become now; None if they need special treatment."""
        queues = self._sending.usual_queues(kind.topic, kind.message_type)
        if not queues:
            return None
        before, middle, after = kind.parts
        if not kind.names_host:
            after += encode_properties({BORN_HOST: peer.address})
        group = kind.message_group
        queue_id, queues = (queue_of_group(group, queues), 0) if group else (-1, queues)
        return kind.topic.encode(), kind.sys_flag, (before, middle, after), queue_id, queues


def _is_usual(system: SystemProperties) -> bool:
    """Return whether a message has nothing whose check depends on the time, and nothing that only single sends know."""
    return not system.delivery_attempt and system.delivery_timestamp is None


def _later(chosen: list[Waiting], begin: int) -> Callable[[RunReply, Reply], None]:
    return lambda found, reply: _answer(chosen[begin : found.stop], found, reply)


def _answer(chosen: list[Waiting], found: RunReply, reply: Reply) -> None:
    """Answer the calls whose messages were stored together."""
    if reply.code in STORED:
        status = _OK if reply.code == ResponseCode.SUCCESS else StatusResponse(status=status_of(reply)).encode()
        assert found.messages is not None
        for (call, _), message in zip(chosen, found.messages(status), strict=True):
            call.answer(message)
        return
    status_alone = status_of(reply)
    refusal = SendMessageResponse(status=status_alone, entries=[SendResultEntry(status=status_alone)]).encode()
    for call, _ in chosen:
        call.answer(refusal)
