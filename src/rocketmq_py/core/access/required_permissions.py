"""The permissions that each request code requires (DefaultAuthorizationContextBuilder and Java's header annotations).

A code that is not listed here requires Update on the cluster, so a forgotten code is denied to ordinary users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from rocketmq_py.core.access.permissions import Action, Kind, RequiredPermission, Resource, group, topic
from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.bodies.client import CheckClientConfig, HeartbeatData, LockBatchRequest
from rocketmq_py.protocol.bodies.pop import BatchAckRequest, QueryAssignmentRequest
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.requests import REQUEST_HEADERS
from rocketmq_py.wire import fastjson

Fields = Mapping[str, str]

_PUB, _SUB, _GET, _UPDATE = (Action.PUB,), (Action.SUB,), (Action.GET,), (Action.UPDATE,)
_READ = (Action.SUB, Action.GET)
_COMMIT = (Action.SUB, Action.UPDATE)
_CREATE, _DELETE, _LIST = (Action.CREATE,), (Action.DELETE,), (Action.LIST,)

_BY_FIELDS: dict[int, tuple[tuple[Action, ...], tuple[str, ...], tuple[str, ...]]] = {
    Code.RECALL_MESSAGE: (_PUB, ("topic",), ()),
    Code.END_TRANSACTION: (_PUB, ("topic",), ()),
    Code.END_TRANSACTIONS: (_PUB, ("topic",), ()),
    Code.CONSUMER_SEND_MSG_BACK: (_SUB, (), ("group",)),
    Code.QUERY_MESSAGE: (_READ, ("topic",), ()),
    Code.UNREGISTER_CLIENT: (_SUB, (), ("consumerGroup",)),
    Code.GET_CONSUMER_LIST_BY_GROUP: (_READ, (), ("consumerGroup",)),
    Code.PULL_MESSAGE: (_SUB, ("topic",), ("consumerGroup",)),
    Code.LITE_PULL_MESSAGE: (_SUB, ("topic",), ("consumerGroup",)),
    Code.POP_MESSAGE: (_SUB, ("topic",), ("consumerGroup",)),
    Code.PEEK_MESSAGE: (_SUB, ("topic",), ("consumerGroup",)),
    Code.ACK_MESSAGE: (_SUB, ("topic",), ("consumerGroup",)),
    Code.CHANGE_MESSAGE_INVISIBLETIME: (_SUB, ("topic",), ("consumerGroup",)),
    Code.NOTIFICATION: (_SUB, ("topic",), ("consumerGroup",)),
    Code.POLLING_INFO: (_GET, ("topic",), ("consumerGroup",)),
    Code.QUERY_CONSUMER_OFFSET: (_READ, ("topic",), ("consumerGroup",)),
    Code.UPDATE_CONSUMER_OFFSET: (_COMMIT, ("topic",), ("consumerGroup",)),
    Code.UPDATE_AND_CREATE_TOPIC: (_CREATE, ("topic",), ()),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: (_CREATE, ("topic",), ()),
    Code.DELETE_TOPIC_IN_BROKER: (_DELETE, ("topic",), ()),
    Code.DELETE_SUBSCRIPTIONGROUP: (_DELETE, (), ("groupName",)),
    Code.GET_TOPIC_CONFIG: (_GET, ("topic",), ()),
    Code.GET_TOPIC_STATS_INFO: (_GET, ("topic",), ()),
    Code.GET_MAX_OFFSET: (_READ, ("topic",), ()),
    Code.GET_MIN_OFFSET: (_READ, ("topic",), ()),
    Code.GET_EARLIEST_MSG_STORETIME: (_READ, ("topic",), ()),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: (_READ, ("topic",), ()),
    Code.VIEW_MESSAGE_BY_ID: (_GET, ("topic",), ()),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: (_GET, ("topic",), ()),
    Code.RESUME_CHECK_HALF_MESSAGE: (_UPDATE, ("topic",), ()),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: (_GET, (), ("group",)),
    Code.GET_CONSUMER_CONNECTION_LIST: (_GET, (), ("consumerGroup",)),
    Code.GET_CONSUMER_RUNNING_INFO: (_GET, (), ("consumerGroup",)),
    Code.QUERY_TOPICS_BY_CONSUMER: (_GET, (), ("group",)),
    Code.GET_CONSUME_STATS: (_GET, ("topic", "topicList"), ("consumerGroup",)),
    Code.QUERY_CONSUME_TIME_SPAN: (_GET, ("topic",), ("group",)),
    Code.QUERY_CONSUME_QUEUE: (_GET, ("topic",), ("consumerGroup",)),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: (_GET, ("topic",), ("group",)),
    Code.QUERY_CORRECTION_OFFSET: (_GET, ("topic",), ("compareGroup",)),
    Code.CONSUME_MESSAGE_DIRECTLY: (_SUB, ("topic",), ("consumerGroup",)),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: (_UPDATE, ("topic",), ("group",)),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (_GET, ("topic",), ("group",)),
    Code.CLONE_GROUP_OFFSET: (_UPDATE, ("topic",), ("srcGroup", "destGroup")),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: (_UPDATE, ("topic",), ("group",)),
}
"""By request code: the actions of which one is required, the header fields with topics and those with groups."""

_SEVERAL = {"topicList": ";"}
"""Header fields that contain several names, with the separator."""

_REQUIRED = {
    code: {field.encode_name for field in msgspec.structs.fields(REQUEST_HEADERS[Code(code)]) if field.required}
    for code in _BY_FIELDS
}
"""The required header fields of each code. If one is empty, the permission for the empty name is checked; an optional
field that is empty counts as absent.
"""

_CLUSTER_GET = frozenset({
    Code.GET_ALL_TOPIC_CONFIG, Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO,
    Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_ALL_PRODUCER_INFO, Code.GET_BROKER_CONSUME_STATS,
    Code.VIEW_BROKER_STATS_DATA, Code.GET_BROKER_HA_STATUS, Code.GET_ALL_MESSAGE_REQUEST_MODE, Code.GET_KV_CONFIG,
    Code.GET_KVLIST_BY_NAMESPACE, Code.GET_NAMESRV_CONFIG, Code.QUERY_DATA_VERSION, Code.GET_BROKER_MEMBER_GROUP,
    Code.LIST_HELD_REQUESTS, Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL,
})  # fmt: skip

_TOPIC_LIST = frozenset({
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_TOPICS_BY_CLUSTER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
})  # fmt: skip

_SENDS = {
    Code.SEND_MESSAGE: ("topic", "producerGroup"), Code.SEND_REPLY_MESSAGE: ("topic", "producerGroup"),
    Code.SEND_MESSAGE_V2: ("b", "a"), Code.SEND_BATCH_MESSAGE: ("b", "a"), Code.SEND_REPLY_MESSAGE_V2: ("b", "a"),
    Code.SEND_HALF_MESSAGES: ("b", "a"),
}  # fmt: skip


def required_permissions(code: int, ext: Fields, body: bytes, cluster: str) -> list[RequiredPermission]:
    """Return the permissions that a request requires; all of them must be granted.

    :param ext: header fields of the request.
    :param cluster: name of the server's cluster.
    :raises BadHeader: the body is not valid for the request code.
    """
    if code in _SENDS:
        name = ext.get(_SENDS[Code(code)][0], "")
        return [RequiredPermission(topic(name), _SUB if is_retry_topic(name) else _PUB)]
    if code == Code.GET_ROUTEINFO_BY_TOPIC:
        name = ext.get("topic", "")
        return [RequiredPermission(topic(name), _READ if is_retry_topic(name) else (*_PUB, *_READ))]
    by_body = _BY_BODY.get(code)
    if by_body is not None:
        return list(by_body(body))
    if code in _BY_FIELDS:
        return _of_fields(code, ext)
    return _of_cluster(code, cluster)


def _of_cluster(code: int, cluster: str) -> list[RequiredPermission]:
    if code == Code.GET_BROKER_CLUSTER_INFO:
        return []  # every tool looks up the addresses of the brokers first
    if code in _TOPIC_LIST:
        return [RequiredPermission(Resource(Kind.TOPIC, "*"), _LIST)]
    return [RequiredPermission(Resource(Kind.CLUSTER, cluster), _GET if code in _CLUSTER_GET else _UPDATE)]


def _of_fields(code: int, ext: Fields) -> list[RequiredPermission]:
    actions, topics, groups = _BY_FIELDS[code]
    found = [RequiredPermission(topic(name), actions) for field in topics for name in _named(code, ext, field)]
    found += [RequiredPermission(group(name), actions) for field in groups for name in _named(code, ext, field)]
    return list(dict.fromkeys(found))


def _named(code: int, ext: Fields, field: str) -> list[str]:
    """Return the topic or group names in a header field of a request.

    An absent field gives an empty list. So does an empty one, unless the request code requires the field: then it gives
    one empty name.
    """
    text = ext.get(field)
    if text is None or not (text or field in _REQUIRED[code]):
        return []
    return [name for name in text.split(_SEVERAL[field]) if name] if field in _SEVERAL else [text]


def _heartbeat(body: bytes) -> Iterator[RequiredPermission]:
    for consumer in HeartbeatData.decode(body).consumer_data_set:
        yield RequiredPermission(group(consumer.group_name), _SUB)
        names = (subscription.topic for subscription in consumer.subscription_data_set)
        yield from (RequiredPermission(topic(name), _SUB) for name in names if not is_retry_topic(name))


def _client_config(body: bytes) -> Iterator[RequiredPermission]:
    request = CheckClientConfig.decode(body)
    yield RequiredPermission(group(request.group), _SUB)
    if not is_retry_topic(request.subscription_data.topic):
        yield RequiredPermission(topic(request.subscription_data.topic), _SUB)


def _lock(body: bytes) -> Iterator[RequiredPermission]:
    request = LockBatchRequest.decode(body)
    yield RequiredPermission(group(request.consumer_group or ""), _SUB)
    names = {queue.topic for queue in request.mq_set}
    yield from (RequiredPermission(topic(name), _SUB) for name in sorted(names) if not is_retry_topic(name))


def _assignment(body: bytes) -> Iterator[RequiredPermission]:
    request = QueryAssignmentRequest.decode(body)
    yield from (RequiredPermission(group(request.consumer_group), _SUB), RequiredPermission(topic(request.topic), _SUB))


def _acks(body: bytes) -> Iterator[RequiredPermission]:
    for ack in BatchAckRequest.decode(body).acks:
        yield from (RequiredPermission(group(ack.consumer_group), _SUB), RequiredPermission(topic(ack.topic), _SUB))


def _new(
    kind: Callable[[str], Resource], name: str, several: str | None = None
) -> Callable[[bytes], Iterator[RequiredPermission]]:
    """Return a function that reads the topics or groups from a JSON request body, and yields for each the permission
    to create it.

    :param kind: makes the resource of a name, for example :func:`topic`.
    :param name: JSON member of a configuration that has the name of the topic or group.
    :param several: JSON member with a list of configurations; None if the body is one configuration.
    """

    def of(body: bytes) -> Iterator[RequiredPermission]:
        members = _members(body)
        found = [members] if several is None else members.get(several) or []
        for one in found if isinstance(found, list) else [found]:
            if not isinstance(one, dict):
                raise BadHeader(f"a member of {several} is {type(one).__name__}, no object")
            yield RequiredPermission(kind(str(one.get(name, ""))), _CREATE)

    return of


def _members(body: bytes) -> dict[str, Any]:
    try:
        found = fastjson.loads(body)
    except ValueError as e:
        raise BadHeader(f"the body is not JSON: {e}") from e
    if not isinstance(found, dict):
        raise BadHeader(f"the body is {type(found).__name__}, no object")
    return found


_BY_BODY: dict[int, Callable[[bytes], Iterator[RequiredPermission]]] = {
    Code.HEART_BEAT: _heartbeat,
    Code.CHECK_CLIENT_CONFIG: _client_config,
    Code.LOCK_BATCH_MQ: _lock,
    Code.UNLOCK_BATCH_MQ: _lock,
    Code.QUERY_ASSIGNMENT: _assignment,
    Code.BATCH_ACK_MESSAGE: _acks,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _new(group, "groupName"),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _new(group, "groupName", "groupConfigList"),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _new(topic, "topicName", "topicConfigList"),
}
