"""RecallMessage."""

from __future__ import annotations

from rocketmq_py.core.access.permissions import Action
from rocketmq_py.core.grpc.messages import topic_types
from rocketmq_py.errors import ConfigError
from rocketmq_py.grpc.cluster import Access, Topics
from rocketmq_py.grpc.replies import status_of, topic_name
from rocketmq_py.grpc.requests import Inner, Requests
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.enums import Code, MessageType
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.grpc.service import RecallMessageRequest, RecallMessageResponse
from rocketmq_py.protocol.headers.send import RecallMessage, RecallMessageResponse as RecallMessageReply
from rocketmq_py.protocol.names import MESSAGE_TYPE
from rocketmq_py.protocol.recall_handle import RecallHandle
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.reply import Reply


class Recalls:
    """Cancels delayed messages, at the broker that the handle names if requests reach it.

    Clients ask their endpoint, whichever broker has stored the message.
    """

    def __init__(self, requests: Requests, access: Access, topics: Topics) -> None:
        self._requests = requests
        self._access = access
        self._topics = topics

    def recall(self, call: Call, request: RecallMessageRequest) -> None:
        """Cancel a delayed message."""
        topic = topic_name(request.topic)
        self._access.check(call, RequestCode.RECALL_MESSAGE, (Action.PUB,), topic=topic)
        header = RecallMessage(producer_group=topic, topic=topic, recall_handle=request.recall_handle)
        broker = _broker_of(request.recall_handle)
        if not self._requests.is_elsewhere(broker):
            self._check_type(topic)
            if not self._requests.is_here(broker):
                broker = ""  # whichever is asked says what is wrong with the handle

        def answer(reply: Reply) -> None:
            call.answer(RecallMessageResponse(status=status_of(reply), message_id=_message_id(reply)).encode())

        self._requests.run(call, Inner(RequestCode.RECALL_MESSAGE, header, broker=broker), answer)

    def _check_type(self, topic: str) -> None:
        config = self._topics.get(topic)
        types = topic_types(config.attributes.get(MESSAGE_TYPE)) if config is not None else ()
        if MessageType.DELAY not in types:
            text = f"only delayed messages are recalled, and topic {topic} takes none"
            raise CallRefused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)


def _message_id(reply: Reply) -> str:
    if isinstance(reply.header, RecallMessageReply):
        return reply.header.msg_id
    return (reply.ext or {}).get("msgId", "")


def _broker_of(recall_handle: str) -> str:
    """Return the broker that a handle names; empty if it cannot be read."""
    try:
        return RecallHandle.decode(recall_handle).broker_name
    except ConfigError:
        return ""
