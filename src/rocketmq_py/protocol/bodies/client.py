"""JSON bodies that describe clients: heartbeats, subscriptions, connections and queue locks."""

from __future__ import annotations

import re
from typing import Annotated

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.coercion import java_enum
from rocketmq_py.wire.command import LANGUAGES, language_name
from rocketmq_py.wire.integers import Int32, Int64
from rocketmq_py.wire.java_hash import string_hash

_CLIENT_ID = re.compile(rb"""["']?clientID["']?\s*:\s*(["'])([^"'\\]{1,256})\1""")
_CLIENT_ID_WITHIN = 64 * 1024

ConsumeType = Annotated[str, java_enum("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")]
"""How a consumer gets messages: pull, push or POP."""

MessageModelName = Annotated[str, java_enum("BROADCASTING", "CLUSTERING", "LITE_SELECTIVE")]
"""The message model of a consumer group."""

ConsumeFromWhereName = Annotated[
    str,
    java_enum(
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
    ),
]
"""Where a consumer group starts if it has no offset; Java has deprecated the second to fourth constant."""

LanguageCode = Annotated[str, java_enum(*LANGUAGES)]
"""The programming language of a client."""


class SubscriptionData(Body, kw_only=True):
    """The subscription of a consumer group to one topic. ``sub_version`` is its creation time in milliseconds."""

    topic: str
    sub_string: str = "*"
    tags_set: list[str] = []
    code_set: list[Int32] = []
    sub_version: Int64 = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False

    @staticmethod
    def parse(topic: str, expression: str | None, sub_version: int, expression_type: str = "TAG") -> SubscriptionData:
        """Build the subscription for an expression, in which tags are separated by ``||``
        (FilterAPI.buildSubscriptionData).

        :param expression: None, empty or ``*`` for all messages.
        :param sub_version: creation time in milliseconds.
        :raises BadHeader: the expression consists of separators only.
        """
        text = expression if expression and expression.strip() else "*"
        tags: list[str] = []
        if expression_type == "TAG" and text != "*":
            tags = [tag.strip() for tag in text.split("||") if tag.strip()]
            if not tags:
                raise BadHeader(f"the tag expression {text!r} names no tag; write 'a || b', or '*' for all")
        return SubscriptionData(
            topic=topic, sub_string=text, tags_set=tags, code_set=[string_hash(tag) for tag in tags],
            sub_version=sub_version, expression_type=expression_type,
        )  # fmt: skip


class ConsumerData(Body, kw_only=True):
    group_name: str
    consume_type: ConsumeType = "CONSUME_PASSIVELY"
    message_model: MessageModelName = "CLUSTERING"
    consume_from_where: ConsumeFromWhereName = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class ProducerData(Body, kw_only=True):
    group_name: str


class HeartbeatData(Body, kw_only=True, rename={
    "client_id": "clientID", "producer_data_set": "producerDataSet", "consumer_data_set": "consumerDataSet",
    "heartbeat_fingerprint": "heartbeatFingerprint", "without_sub": "withoutSub",
}):  # fmt: skip
    client_id: str
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: Int32 = 0
    without_sub: bool = False


def describe_client(body: bytes, language: str | int | None) -> str:
    """Return a description of the client that sent a heartbeat, for log lines. The body need not be decodable.

    :param language: language in the request's header.
    """
    found = _CLIENT_ID.search(body[:_CLIENT_ID_WITHIN])
    client_id = repr(found[2].decode("utf-8", "replace")) if found else "of unknown id"
    return f"client {client_id} ({language_name(language)})"


class CheckClientConfig(Body, kw_only=True):
    client_id: str
    group: str
    subscription_data: SubscriptionData
    namespace: str | None = None


class MessageQueueBody(Body, kw_only=True):
    topic: str
    broker_name: str
    queue_id: Int32


class LockBatchRequest(Body, kw_only=True):
    consumer_group: str | None = None
    client_id: str | None = None
    only_this_broker: bool = False
    mq_set: list[MessageQueueBody] = []


class LockBatchResponse(Body, kw_only=True, rename={"lock_ok_mq_set": "lockOKMQSet"}):
    lock_ok_mq_set: list[MessageQueueBody] = []


class ConsumerIdList(Body, kw_only=True):
    consumer_id_list: list[str] = []


class ConnectionInfo(Body, kw_only=True):
    client_id: str
    client_addr: str
    language: LanguageCode = "OTHER"
    version: Int32 = 0


class ConsumerConnection(Body, kw_only=True):
    connection_set: list[ConnectionInfo] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: ConsumeType | None = None
    message_model: MessageModelName | None = None
    consume_from_where: ConsumeFromWhereName | None = None


class ProducerConnection(Body, kw_only=True):
    connection_set: list[ConnectionInfo] = []
