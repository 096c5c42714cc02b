"""Decoding of requests: the header class of each request code, and a decoder for them.

The hot path decodes a JSON header in one pass in C: the common fields and the typed ``extFields`` together. Headers
that it refuses (ROCKETMQ headers, fastjson's dialect) are decoded by the slow path, through
:mod:`rocketmq_py.wire.command`. The result does not depend on the path: the slow path accepts every header that the hot
path accepts, with the same code, flags and fields, because in both msgspec skips unknown members; and what the hot path
refuses, the slow path decides alone.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers import access, pop
from rocketmq_py.protocol.headers.admin import (
    BrokerConsumeStats,
    ListHeldRequests,
    QueryConsumeQueue,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    ViewBrokerStats,
)
from rocketmq_py.protocol.headers.base import Header, NoHeader
from rocketmq_py.protocol.headers.cluster import (
    AllGroups,
    AllTopics,
    ExchangeHaInfo,
    NotifyMinBrokerIdChange,
    ResetMasterFlushOffset,
)
from rocketmq_py.protocol.headers.group import (
    ConsumeMessageDirectly,
    ConsumerStatus,
    DeleteGroup,
    GetConsumerRunningInfo,
    GetConsumeStats,
    GroupAndTopic,
    GroupForbidden,
    GroupHeader,
    GroupName,
    ProducerGroupHeader,
    UnregisterClient,
)
from rocketmq_py.protocol.headers.namesrv import (
    BrokerHeartbeat,
    BrokerMemberGroup,
    BrokerNameHeader,
    ClusterName,
    KvConfigKey,
    KvNamespace,
    PutKvConfig,
    QueryDataVersion,
    RegisterBroker,
    UnregisterBroker,
)
from rocketmq_py.protocol.headers.offset import (
    CloneGroupOffset,
    GetMaxOffset,
    QueryConsumerOffset,
    QueueHeader,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from rocketmq_py.protocol.headers.pull import PullMessage, QueryMessage, ViewMessage
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack, RecallMessage, SendMessage, SendMessageV2
from rocketmq_py.protocol.headers.topic import CreateTopic, DeleteTopicInNamesrv, GetRouteInfo, TopicName
from rocketmq_py.protocol.headers.transaction import (
    CheckTransactionState,
    EndTransaction,
    EndTransactions,
    ResumeCheckHalfMessage,
)
from rocketmq_py.wire.command import Command, decode_command
from rocketmq_py.wire.frame import Frame
from rocketmq_py.wire.integers import Int32

REQUEST_HEADERS: dict[Code, type[Header]] = {
    Code.SEND_MESSAGE: SendMessage,
    Code.SEND_MESSAGE_V2: SendMessageV2,
    Code.SEND_BATCH_MESSAGE: SendMessageV2,
    Code.SEND_REPLY_MESSAGE: SendMessage,
    Code.SEND_REPLY_MESSAGE_V2: SendMessageV2,
    Code.CONSUMER_SEND_MSG_BACK: ConsumerSendMsgBack,
    Code.SEND_HALF_MESSAGES: SendMessageV2,
    Code.END_TRANSACTION: EndTransaction,
    Code.END_TRANSACTIONS: EndTransactions,
    Code.CHECK_TRANSACTION_STATE: CheckTransactionState,
    Code.RESUME_CHECK_HALF_MESSAGE: ResumeCheckHalfMessage,
    Code.PULL_MESSAGE: PullMessage,
    Code.LITE_PULL_MESSAGE: PullMessage,
    Code.QUERY_CONSUMER_OFFSET: QueryConsumerOffset,
    Code.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffset,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffset,
    Code.GET_MAX_OFFSET: GetMaxOffset,
    Code.GET_MIN_OFFSET: QueueHeader,
    Code.GET_EARLIEST_MSG_STORETIME: QueueHeader,
    Code.VIEW_MESSAGE_BY_ID: ViewMessage,
    Code.QUERY_MESSAGE: QueryMessage,
    Code.UNREGISTER_CLIENT: UnregisterClient,
    Code.GET_CONSUMER_LIST_BY_GROUP: GroupHeader,
    Code.NOTIFY_CONSUMER_IDS_CHANGED: GroupHeader,
    Code.GET_CONSUMER_CONNECTION_LIST: GroupHeader,
    Code.GET_PRODUCER_CONNECTION_LIST: ProducerGroupHeader,
    Code.GET_CONSUMER_RUNNING_INFO: GetConsumerRunningInfo,
    Code.CONSUME_MESSAGE_DIRECTLY: ConsumeMessageDirectly,
    Code.RESET_CONSUMER_CLIENT_OFFSET: ResetOffset,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffset,
    Code.GET_CONSUMER_STATUS_FROM_CLIENT: ConsumerStatus,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ConsumerStatus,
    Code.UPDATE_AND_CREATE_TOPIC: CreateTopic,
    Code.DELETE_TOPIC_IN_BROKER: TopicName,
    Code.GET_TOPIC_STATS_INFO: TopicName,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: TopicName,
    Code.GET_TOPIC_CONFIG: TopicName,
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: CreateTopic,
    Code.DELETE_SUBSCRIPTIONGROUP: DeleteGroup,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: GroupName,
    Code.QUERY_TOPICS_BY_CONSUMER: GroupName,
    Code.GET_CONSUME_STATS: GetConsumeStats,
    Code.QUERY_CONSUME_TIME_SPAN: QueryConsumeTimeSpan,
    Code.QUERY_CORRECTION_OFFSET: QueryCorrectionOffset,
    Code.VIEW_BROKER_STATS_DATA: ViewBrokerStats,
    Code.GET_BROKER_CONSUME_STATS: BrokerConsumeStats,
    Code.QUERY_CONSUME_QUEUE: QueryConsumeQueue,
    Code.RESET_MASTER_FLUSH_OFFSET: ResetMasterFlushOffset,
    Code.CLONE_GROUP_OFFSET: CloneGroupOffset,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: GroupAndTopic,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: GroupForbidden,
    Code.GET_ROUTEINFO_BY_TOPIC: GetRouteInfo,
    Code.REGISTER_BROKER: RegisterBroker,
    Code.UNREGISTER_BROKER: UnregisterBroker,
    Code.BROKER_HEARTBEAT: BrokerHeartbeat,
    Code.QUERY_DATA_VERSION: QueryDataVersion,
    Code.GET_BROKER_MEMBER_GROUP: BrokerMemberGroup,
    Code.PUT_KV_CONFIG: PutKvConfig,
    Code.GET_KV_CONFIG: KvConfigKey,
    Code.DELETE_KV_CONFIG: KvConfigKey,
    Code.GET_KVLIST_BY_NAMESPACE: KvNamespace,
    Code.GET_TOPICS_BY_CLUSTER: ClusterName,
    Code.WIPE_WRITE_PERM_OF_BROKER: BrokerNameHeader,
    Code.ADD_WRITE_PERM_OF_BROKER: BrokerNameHeader,
    Code.DELETE_TOPIC_IN_NAMESRV: DeleteTopicInNamesrv,
    Code.REGISTER_TOPIC_IN_NAMESRV: TopicName,
    Code.GET_ALL_TOPIC_CONFIG: AllTopics,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: AllGroups,
    Code.NOTIFY_MIN_BROKER_ID_CHANGE: NotifyMinBrokerIdChange,
    Code.EXCHANGE_BROKER_HA_INFO: ExchangeHaInfo,
    Code.RECALL_MESSAGE: RecallMessage,
    Code.AUTH_CREATE_USER: access.UserHeader,
    Code.AUTH_UPDATE_USER: access.UserHeader,
    Code.AUTH_DELETE_USER: access.UserHeader,
    Code.AUTH_GET_USER: access.UserHeader,
    Code.AUTH_LIST_USER: access.ListUsers,
    Code.AUTH_CREATE_ACL: access.SubjectHeader,
    Code.AUTH_UPDATE_ACL: access.SubjectHeader,
    Code.AUTH_DELETE_ACL: access.DeleteAcl,
    Code.AUTH_GET_ACL: access.SubjectHeader,
    Code.AUTH_LIST_ACL: access.ListAcls,
    Code.POP_MESSAGE: pop.PopMessage,
    Code.ACK_MESSAGE: pop.AckMessage,
    Code.CHANGE_MESSAGE_INVISIBLETIME: pop.ChangeInvisibleTime,
    Code.PEEK_MESSAGE: pop.PeekMessage,
    Code.NOTIFICATION: pop.Notification,
    Code.POLLING_INFO: pop.PollingInfo,
    Code.LIST_HELD_REQUESTS: ListHeldRequests,
}
"""The header class of each request code with header fields; requests of other codes have none."""


_SHORT = 1024
"""Length in bytes below which a JSON header cannot be nested too deeply for the decoder, as each level takes two bytes.
"""

_BRACKETS = _SHORT // 2
"""Number of opening brackets up to which the hot path decodes longer headers; all decoders allow that many levels."""


class BadRequest(BadHeader):
    """A request whose header fields are not valid for its code; ``command`` is the request."""

    def __init__(self, command: Command, why: str) -> None:
        super().__init__(why)
        self.command = command


class Request(msgspec.Struct, kw_only=True, gc=False):
    """A decoded request. ``header`` is an instance of the class in :data:`REQUEST_HEADERS` for its code.

    ``header`` is None if the decoder was not made for the code.
    """

    code: int = 0
    opaque: int = 0
    flag: int = 0
    version: int = 0
    language: str | int | None = "JAVA"
    remark: str | None = None
    header: Any = None

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & 2)


class RequestDecoder:
    """Decodes request frames. The header fields of codes that the server does not handle are not decoded.

    :param codes: the request codes that the server handles.
    """

    def __init__(self, codes: Iterable[int]) -> None:
        self._headers, fast = _decoder_of(tuple(map(int, codes)))
        self.decode = _two_ways(fast, self.convert)
        """Decode a frame to a request.

        :raises BadRequest: a required header field is missing or of the wrong type.
        :raises CorruptFrame: the header is malformed.
        """

    def convert(self, command: Command) -> Request:
        """Convert a decoded command to a request.

        :raises BadRequest: a required field is missing or of the wrong type.
        """
        cls = self._headers.get(command.code)
        try:
            header = cls.from_ext(command.ext) if cls else None
        except BadHeader as e:
            raise BadRequest(command, str(e)) from e
        return Request(
            code=command.code,
            opaque=command.opaque,
            flag=command.flag,
            version=command.version,
            language=command.language,
            remark=command.remark,
            header=header,
        )


def _two_ways(fast: Callable[[bytes], Any], convert: Callable[[Command], Request]) -> Callable[[Frame], Request]:
    """Return a function that decodes a frame to a request, with ``fast`` if possible, else with ``convert``.

    It is a closure, because each attribute look-up of a method would add one percent to its time.

    :param fast: the hot path: decodes a common JSON header to a request.
    :param convert: the slow path: converts the decoded command of any frame to a request.
    """
    refusals = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
    short = _SHORT

    def decode(frame: Frame) -> Request:
        header = frame.header
        if not frame.serialize_type and (len(header) < short or _is_flat(header)):  # JSON is 0
            try:
                return fast(header)  # type: ignore[no-any-return]
            except refusals:
                pass  # the slow path decodes or refuses it
        return convert(decode_command(frame))

    return decode


def _is_flat(header: bytes) -> bool:
    return header.count(b"[") + header.count(b"{") < _BRACKETS


def _refuse(header: bytes) -> Any:
    """Raise DecodeError for every header: the hot path of a decoder that handles no request codes."""
    raise msgspec.DecodeError(f"no request is known that a header of {len(header)} bytes could be of")


@functools.cache
def _shape(code: int, header: type[Header]) -> type[Any]:
    """Return a request class for one code, whose ``extFields`` are of the code's header class.

    Its tag is the code, so that msgspec picks the class from a union of them by the code in the JSON header. Cached,
    because making a class takes a quarter of a millisecond, and a server has a hundred of them.
    """
    required = any(field.required for field in msgspec.structs.fields(header))
    ext = ("header", header) if required else ("header", header, msgspec.field(default_factory=header))
    return msgspec.defstruct(
        f"Request{code}",
        [("opaque", Int32, 0), ("flag", Int32, 0), ("version", Int32, 0), ("language", str | int | None, "JAVA"),
         ("remark", str | None, None), ext],
        namespace={"is_oneway": Request.is_oneway, "code": code},
        rename={"header": "extFields"},
        tag_field="code", tag=code, gc=False, kw_only=True,
    )  # fmt: skip


@functools.cache
def _decoder_of(codes: tuple[int, ...]) -> tuple[dict[int, type[Header]], Callable[[bytes], Any]]:
    """Return the header classes of request codes, and a function that decodes their JSON headers.

    Cached, because every server with the same handlers uses the same.
    """
    headers = {code: REQUEST_HEADERS.get(Code(code), NoHeader) for code in codes}
    if not headers:
        return headers, _refuse
    union: Any = functools.reduce(operator.or_, (_shape(code, header) for code, header in headers.items()))
    return headers, msgspec.json.Decoder(union, strict=False).decode
