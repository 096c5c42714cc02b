"""RecallMessage."""

from __future__ import annotations

from rocketmq_py.broker.grpc.access import CallAccess
from rocketmq_py.broker.grpc.other_masters import OtherMasters
from rocketmq_py.broker.grpc.replies import status_of, topic_name
from rocketmq_py.broker.grpc.requests import Inner, Requests
from rocketmq_py.broker.metadata.topics import TopicConfigs
from rocketmq_py.core.access.permissions import Action
from rocketmq_py.core.grpc.messages import topic_types
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.grpc.enums import Code, MessageType
from rocketmq_py.protocol.grpc.refusal import CallRefused
from rocketmq_py.protocol.grpc.service import RecallMessageRequest, RecallMessageResponse
from rocketmq_py.protocol.headers.send import RecallMessage
from rocketmq_py.protocol.names import MESSAGE_TYPE
from rocketmq_py.protocol.recall_handle import RecallHandle
from rocketmq_py.server.grpc.call import Call
from rocketmq_py.server.reply import Reply


class Recalls:
    """Cancels delayed messages, at this broker or at the one that the handle names.

    Clients ask their endpoint, whichever broker has stored the message.

    :param name: the name of this broker.
    """

    def __init__(
        self, requests: Requests, access: CallAccess, topics: TopicConfigs, name: str, others: OtherMasters
    ) -> None:
        self._requests = requests
        self._access = access
        self._topics = topics
        self._name = name
        self._others = others

    def recall(self, call: Call, request: RecallMessageRequest) -> None:
        """Cancel a delayed message."""
        topic = topic_name(request.topic)
        self._access.check(call, RequestCode.RECALL_MESSAGE, (Action.PUB,), topic=topic)
        header = RecallMessage(producer_group=topic, topic=topic, recall_handle=request.recall_handle)
        broker = _broker_of(request.recall_handle)
        if broker not in (None, self._name) and self._others.exist:
            self._others.forward(
                broker, topic, RequestCode.RECALL_MESSAGE, header,
                lambda reply, ext: _answer(call, reply, ext.get("msgId", "")),
            )  # fmt: skip
            return
        config = self._topics.get(topic)
        types = topic_types(config.attributes.get(MESSAGE_TYPE)) if config is not None else ()
        if MessageType.DELAY not in types:
            text = f"only delayed messages are recalled, and topic {topic} takes none"
            raise CallRefused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)

        def answer(reply: Reply) -> None:
            _answer(call, reply, reply.header.msg_id if reply.header is not None else "")  # type: ignore[attr-defined]

        self._requests.run(call, Inner(RequestCode.RECALL_MESSAGE, header), answer)


def _answer(call: Call, reply: Reply, message_id: str) -> None:
    call.answer(RecallMessageResponse(status=status_of(reply), message_id=message_id).encode())


def _broker_of(recall_handle: str) -> str | None:
    """Return the broker that a handle names; None if it cannot be read."""
    try:
        return RecallHandle.decode(recall_handle).broker_name
    except ConfigError:
        return None
