"""Request decoding: the header class of each code, and a decoder that builds it in one pass.

The hot path decodes a whole JSON header, common fields and typed ``extFields`` together, in C. Headers it refuses
(ROCKETMQ headers, fastjson's dialect) take the slow path through :mod:`rocketmq_py.wire.command`. Both paths have the
same result: a header accepted by the hot path is accepted by the slow path with the same code, flags and fields,
because both skip unknown members with msgspec's own check; a header refused by the hot path is decided by the slow path
alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers import access, pop
from rocketmq_py.protocol.headers.admin import (
    BrokerConsumeStats,
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
}
"""The header class of each request that has header fields; other codes have none."""


_SHORT = 1024
"""A JSON header shorter than this cannot be nested too deeply for the decoder: every level takes two bytes."""

_BRACKETS = _SHORT // 2
"""The most levels a longer header may have in the hot path; all decoders here support that many."""


class BadRequest(BadHeader):
    """A request whose header does not fit its code; ``command`` is the request."""

    def __init__(self, command: Command, why: str) -> None:
        super().__init__(why)
        self.command = command


class Request(msgspec.Struct, kw_only=True, gc=False):
    """A decoded request. ``header`` is of the class that :data:`REQUEST_HEADERS` has for its code."""

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
    """Decoder of the requests of the given codes; of other codes it decodes all but the header fields.

    :param codes: the codes the server handles.
    """

    def __init__(self, codes: Iterable[int]) -> None:
        self._headers = {int(code): REQUEST_HEADERS.get(Code(code), NoHeader) for code in codes}
        shapes = tuple(_shape(code, header) for code, header in self._headers.items())
        self.decode = _two_ways(_union_decoder(shapes) if shapes else _refuse, self.convert)
        """The request of a frame that is not a response.

        :raises BadRequest: a required field is missing or of the wrong kind.
        :raises CorruptFrame: the header cannot be understood at all.
        """

    def convert(self, command: Command) -> Request:
        """Build the request of an already decoded command.

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
    """Return a function that decodes a frame on the hot path if possible, else on the slow path.

    It is a closure because each attribute look-up of a method would cost a hundredth of its time.
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
    """Decode nothing: the decoder for an empty set of codes."""
    raise msgspec.DecodeError(f"no request is known that a header of {len(header)} bytes could be of")


@functools.cache
def _shape(code: int, header: type[Header]) -> type[Any]:
    """Return a struct for one code with typed ``extFields``, tagged by the code so that a union of them decodes.

    Cached: making one takes a quarter of a millisecond, and a server has a hundred of them.
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
def _union_decoder(shapes: tuple[type[Any], ...]) -> Any:
    union: Any = shapes[0]
    for shape in shapes[1:]:
        union = union | shape
    return msgspec.json.Decoder(union, strict=False).decode
