"""SendMessage and EndTransaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketmq_py.core.access.permissions import Action
from rocketmq_py.core.grpc.messages import check_message, is_zlib, stored_properties, topic_types, type_of
from rocketmq_py.core.grpc.transaction_ids import HalfPlace, decode_transaction_id, encode_transaction_id
from rocketmq_py.grpc.cluster import Access, Topics
from rocketmq_py.grpc.replies import status_of, topic_name
from rocketmq_py.grpc.requests import Inner, Requests
from rocketmq_py.properties import Property, encode_properties, properties_text
from rocketmq_py.protocol import names
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.grpc.definition import Message
from rocketmq_py.protocol.grpc.enums import Code, MessageType, TransactionResolution, TransactionSource
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.grpc.service import (
    EndTransactionRequest,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    StatusResponse,
)
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.protocol.names import MESSAGE_TYPE
from rocketmq_py.protocol.sys_flag import PERM_WRITE, TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.reply import Reply
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.record import COMPRESSED

_SEND, _PUB = RequestCode.SEND_MESSAGE_V2, (Action.PUB,)
_RESOLUTIONS = {TransactionResolution.COMMIT: TRANSACTION_COMMIT, TransactionResolution.ROLLBACK: TRANSACTION_ROLLBACK}
STORED = (
    ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)  # fmt: skip
"""Response codes of messages that are stored, safely or not."""


class Sending:
    """Stores the messages of calls.

    :param max_body: returns the limit of a message body, in bytes.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self, requests: Requests, access: Access, topics: Topics, max_body: Callable[[], int], clock: Callable[[], int]
    ) -> None:
        self._requests = requests
        self._access = access
        self._topics = topics
        self._max_body = max_body
        self._clock = clock

    # -- sends

    def send(self, call: Call, request: SendMessageRequest) -> None:
        """Store one message, or several as a batch."""
        messages = request.messages
        if not messages:
            raise CallRefused(Code.MESSAGE_CORRUPTED, "no message to send")
        topic = topic_name(messages[0].topic)
        if len(messages) > 1 and any(topic_name(message.topic) != topic for message in messages):
            raise CallRefused(Code.MESSAGE_CORRUPTED, "different message topic")
        self.check_access(call, topic)
        config = self._topics.get(topic)
        all_properties = [self._checked(message, topic, config, call) for message in messages]
        inner = self._inner(messages, topic, config, all_properties)

        def answer(reply: Reply) -> None:
            call.answer(self._sent(reply, inner.broker, messages, all_properties[0]).encode())

        self._requests.run(call, inner, answer)

    def check_access(self, call: Call, topic: str) -> None:
        """Check that the user of a call may send to a topic.

        :raises CallRefused: UNAUTHORIZED.
        """
        self._access.check(call, _SEND, _PUB, topic=topic)

    def usual_queues(self, topic: str, kind: MessageType) -> int:
        """Return the number of queues that take messages of a type; 0 if some rule makes the topic a special one."""
        config = self._topics.get(topic)
        if config is None or not config.perm & PERM_WRITE:
            return 0
        try:
            self._check_type(topic, config, kind)
        except CallRefused:
            return 0
        return max(0, config.write_queue_nums)

    def _checked(self, message: Message, topic: str, config: TopicConfig | None, call: Call) -> dict[str, str]:
        check_message(message, self._max_body(), self._clock())
        properties = stored_properties(message, topic, call.peer.address)
        self._check_type(topic, config, type_of(properties))
        return properties

    def _check_type(self, topic: str, config: TopicConfig | None, kind: MessageType) -> None:
        if topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)):
            return
        types = topic_types(config.attributes.get(MESSAGE_TYPE)) if config is not None else self._types_of_new()
        if kind not in types:
            wanted = " or ".join(one.name for one in types)
            text = f"TopicMessageType validate failed, the expected type is {wanted}, but actual type is {kind.name}"
            raise CallRefused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)

    def _types_of_new(self) -> tuple[MessageType, ...]:
        return (MessageType.NORMAL,) if self._topics.creates else (MessageType.UNSPECIFIED,)

    def _inner(
        self, messages: list[Message], topic: str, config: TopicConfig | None, all_properties: list[dict[str, str]]
    ) -> Inner:
        first = messages[0].system_properties
        assert first is not None  # without them, the message has no id and was refused
        is_batch = len(messages) > 1
        sys_flag = COMPRESSED if is_zlib(first.body_encoding) else 0
        if Property.TRANSACTION_PREPARED in all_properties[0] and not is_batch:
            sys_flag |= TRANSACTION_PREPARED
        broker, queue_id = self._topics.queue_for(topic, config, None if is_batch else first.message_group)
        born = first.born_timestamp.ms if first.born_timestamp is not None else self._clock()
        header = SendMessageV2(
            producer_group=topic, topic=topic, default_topic=names.AUTO_CREATE_TOPIC, default_topic_queue_nums=_QUEUES,
            queue_id=queue_id, sys_flag=sys_flag,
            born_timestamp=born, flag=0, properties=properties_text(all_properties[0]),
            reconsume_times=first.delivery_attempt or 0, batch=is_batch,
        )  # fmt: skip
        if not is_batch:
            return Inner(_SEND, header, messages[0].body, broker)
        pairs = zip(messages, all_properties, strict=True)
        body = encode_batch((0, one.body, encode_properties(properties)) for one, properties in pairs)
        return Inner(RequestCode.SEND_BATCH_MESSAGE, header, body, broker)

    # -- transactions

    def end_transaction(self, call: Call, request: EndTransactionRequest) -> None:
        """Commit or roll back a transaction, here or at the broker that has it; an unknown outcome leaves it open.

        Some clients ask their endpoint, whichever broker has stored the half message.
        """
        topic = topic_name(request.topic)
        self._access.check(call, RequestCode.END_TRANSACTION, (Action.PUB,), topic=topic)
        place = decode_transaction_id(request.transaction_id)
        header = EndTransaction(
            producer_group=topic, topic=topic, tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.physical_offset, msg_id=place.unique_key, transaction_id=place.unique_key,
            commit_or_rollback=_RESOLUTIONS.get(request.resolution, 0),  # type: ignore[call-overload]
            from_transaction_check=request.source == TransactionSource.SERVER_CHECK,
        )  # fmt: skip
        inner = Inner(RequestCode.END_TRANSACTION, header, broker=place.broker_name)

        def answer(reply: Reply) -> None:
            call.answer(StatusResponse(status=status_of(reply)).encode())

        if self._requests.is_here(inner.broker):
            self._access.check_record(call, inner, lambda: self._requests.run(call, inner, answer))
        elif self._requests.is_elsewhere(inner.broker):
            self._requests.run(call, inner, answer)
        else:
            text = f"the transaction is one of broker {inner.broker}, {self._requests.here}"
            raise CallRefused(Code.INVALID_TRANSACTION_ID, text)

    def _sent(
        self, reply: Reply, broker: str, messages: list[Message], properties: Mapping[str, str]
    ) -> SendMessageResponse:
        status = status_of(reply)
        entry = SendResultEntry(status=status)
        ext = reply.ext or {}
        if reply.code in STORED:
            system = messages[0].system_properties
            assert system is not None
            entry.message_id = system.message_id
            entry.offset = int(ext.get("queueOffset", "0"))
            entry.recall_handle = ext.get("recallHandle", "")
            if Property.TRANSACTION_PREPARED in properties and len(messages) == 1:
                physical = int(ext.get("msgId", "0")[-16:], 16)
                entry.transaction_id = encode_transaction_id(
                    HalfPlace(broker, physical, entry.offset, system.message_id)
                )
        return SendMessageResponse(status=status, entries=[entry])


_QUEUES = 8
"""The number of queues that a new topic gets; the broker may give it less."""
