"""The Java classes that our header and body declarations correspond to, and a way to have Java read their JSON."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterable
from typing import Any, NamedTuple

from rocketmq_py.core.pop.order import OrderInfo
from rocketmq_py.protocol.bodies import access, admin, client, group, pop, route, topic
from rocketmq_py.protocol.bodies.base import Body, DataVersion
from rocketmq_py.protocol.headers import (
    access as user_headers,
    admin as admin_headers,
    cluster,
    group as group_headers,
    namesrv,
    offset,
    pop as pop_headers,
    pull,
    send,
    topic as topic_headers,
    transaction,
)
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.pop_checkpoint import AckRecord, BatchAckRecord, CheckPoint
from tests.interop.javapeer import PEER

_HEADER = "remoting.protocol.header."
_NAMESRV = f"{_HEADER}namesrv."
_BODY = "remoting.protocol.body."

BODIES: dict[type[Body], str] = {
    DataVersion: "remoting.protocol.DataVersion",
    client.SubscriptionData: "remoting.protocol.heartbeat.SubscriptionData",
    client.ConsumerData: "remoting.protocol.heartbeat.ConsumerData",
    client.ProducerData: "remoting.protocol.heartbeat.ProducerData",
    client.HeartbeatData: "remoting.protocol.heartbeat.HeartbeatData",
    client.CheckClientConfig: f"{_BODY}CheckClientRequestBody",
    client.MessageQueueBody: "common.message.MessageQueue",
    client.LockBatchRequest: f"{_BODY}LockBatchRequestBody",
    client.LockBatchResponse: f"{_BODY}LockBatchResponseBody",
    client.ConsumerIdList: f"{_HEADER}GetConsumerListByGroupResponseBody",
    client.ConnectionInfo: f"{_BODY}Connection",
    client.ConsumerConnection: f"{_BODY}ConsumerConnection",
    client.ProducerConnection: f"{_BODY}ProducerConnection",
    route.QueueData: "remoting.protocol.route.QueueData",
    route.BrokerData: "remoting.protocol.route.BrokerData",
    route.TopicRouteData: "remoting.protocol.route.TopicRouteData",
    route.ClusterInfo: f"{_BODY}ClusterInfo",
    route.BrokerMemberGroupData: f"{_BODY}BrokerMemberGroup",
    route.TopicList: f"{_BODY}TopicList",
    route.KvTable: f"{_BODY}KVTable",
    topic.TopicConfig: "common.TopicConfig",
    topic.TopicConfigList: f"{_BODY}CreateTopicListRequestBody",
    topic.TopicConfigTable: f"{_BODY}TopicConfigAndMappingSerializeWrapper",
    topic.RegisterBrokerBody: f"{_BODY}RegisterBrokerBody",
    group.GroupRetryPolicy: "remoting.protocol.subscription.GroupRetryPolicy",
    group.SubscriptionGroupConfig: "remoting.protocol.subscription.SubscriptionGroupConfig",
    group.SubscriptionGroupList: f"{_BODY}SubscriptionGroupList",
    group.SubscriptionGroupTable: f"{_BODY}SubscriptionGroupWrapper",
    group.GroupList: f"{_BODY}GroupList",
    access.UserInfo: f"{_BODY}UserInfo",
    access.AclInfo: f"{_BODY}AclInfo",
    access.PolicyInfo: f"{_BODY}AclInfo$PolicyInfo",
    access.EntryInfo: f"{_BODY}AclInfo$PolicyEntryInfo",
    admin.TopicOffset: "remoting.protocol.admin.TopicOffset",
    admin.OffsetWrapper: "remoting.protocol.admin.OffsetWrapper",
    admin.TopicStatsTable: "remoting.protocol.admin.TopicStatsTable",
    admin.ConsumeStatsTable: "remoting.protocol.admin.ConsumeStats",
    admin.ResetOffsetTable: f"{_BODY}ResetOffsetBody",
    admin.SlaveConnection: f"{_BODY}HARuntimeInfo$HAConnectionRuntimeInfo",
    admin.SlaveRuntime: f"{_BODY}HARuntimeInfo$HAClientRuntimeInfo",
    admin.HaStatus: f"{_BODY}HARuntimeInfo",
    pop.BatchAck: f"{_BODY}BatchAck",
    pop.BatchAckRequest: f"{_BODY}BatchAckMessageRequestBody",
    pop.QueryAssignmentRequest: f"{_BODY}QueryAssignmentRequestBody",
    pop.MessageQueueAssignment: "common.message.MessageQueueAssignment",
    pop.QueryAssignmentResponse: f"{_BODY}QueryAssignmentResponseBody",
    pop.MessageRequestMode: f"{_BODY}SetMessageRequestModeRequestBody",
    pop.MessageRequestModes: f"{_BODY}MessageRequestModeSerializeWrapper",
    CheckPoint: "store.pop.PopCheckPoint",
    AckRecord: "store.pop.AckMsg",
    BatchAckRecord: "store.pop.BatchAckMsg",
    OrderInfo: "broker.pop.orderly.QueueLevelConsumerManager$OrderInfo",
}

HEADERS: dict[type[Header], str] = {
    send.SendMessage: f"{_HEADER}SendMessageRequestHeader",
    send.SendMessageV2: f"{_HEADER}SendMessageRequestHeaderV2",
    send.SendResponse: f"{_HEADER}SendMessageResponseHeader",
    send.ConsumerSendMsgBack: f"{_HEADER}ConsumerSendMsgBackRequestHeader",
    send.PushReplyMessage: f"{_HEADER}ReplyMessageRequestHeader",
    send.RecallMessage: f"{_HEADER}RecallMessageRequestHeader",
    send.RecallMessageResponse: f"{_HEADER}RecallMessageResponseHeader",
    transaction.EndTransaction: f"{_HEADER}EndTransactionRequestHeader",
    transaction.CheckTransactionState: f"{_HEADER}CheckTransactionStateRequestHeader",
    transaction.ResumeCheckHalfMessage: f"{_HEADER}ResumeCheckHalfMessageRequestHeader",
    pull.PullMessage: f"{_HEADER}PullMessageRequestHeader",
    pull.PullResponse: f"{_HEADER}PullMessageResponseHeader",
    pull.ViewMessage: f"{_HEADER}ViewMessageRequestHeader",
    pull.QueryMessage: f"{_HEADER}QueryMessageRequestHeader",
    pull.QueryMessageResponse: f"{_HEADER}QueryMessageResponseHeader",
    offset.QueryConsumerOffset: f"{_HEADER}QueryConsumerOffsetRequestHeader",
    offset.UpdateConsumerOffset: f"{_HEADER}UpdateConsumerOffsetRequestHeader",
    offset.SearchOffset: f"{_HEADER}SearchOffsetRequestHeader",
    offset.GetMaxOffset: f"{_HEADER}GetMaxOffsetRequestHeader",
    offset.QueueHeader: f"{_HEADER}GetMinOffsetRequestHeader",
    offset.OffsetResponse: f"{_HEADER}GetMaxOffsetResponseHeader",
    offset.TimestampResponse: f"{_HEADER}GetEarliestMsgStoretimeResponseHeader",
    offset.ResetOffset: f"{_HEADER}ResetOffsetRequestHeader",
    offset.CloneGroupOffset: f"{_HEADER}CloneGroupOffsetRequestHeader",
    group_headers.UnregisterClient: f"{_HEADER}UnregisterClientRequestHeader",
    group_headers.GroupHeader: f"{_HEADER}GetConsumerListByGroupRequestHeader",
    group_headers.ProducerGroupHeader: f"{_HEADER}GetProducerConnectionListRequestHeader",
    group_headers.GetConsumerRunningInfo: f"{_HEADER}GetConsumerRunningInfoRequestHeader",
    group_headers.ConsumeMessageDirectly: f"{_HEADER}ConsumeMessageDirectlyResultRequestHeader",
    group_headers.ConsumerStatus: f"{_HEADER}GetConsumerStatusRequestHeader",
    group_headers.DeleteGroup: f"{_HEADER}DeleteSubscriptionGroupRequestHeader",
    group_headers.GroupName: f"{_HEADER}GetSubscriptionGroupConfigRequestHeader",
    group_headers.GetConsumeStats: f"{_HEADER}GetConsumeStatsRequestHeader",
    group_headers.GroupAndTopic: f"{_HEADER}QuerySubscriptionByConsumerRequestHeader",
    group_headers.GroupForbidden: f"{_HEADER}UpdateGroupForbiddenRequestHeader",
    topic_headers.CreateTopic: f"{_HEADER}CreateTopicRequestHeader",
    topic_headers.TopicName: f"{_HEADER}DeleteTopicRequestHeader",
    topic_headers.DeleteTopicInNamesrv: f"{_NAMESRV}DeleteTopicFromNamesrvRequestHeader",
    topic_headers.GetRouteInfo: f"{_NAMESRV}GetRouteInfoRequestHeader",
    namesrv.RegisterBroker: f"{_NAMESRV}RegisterBrokerRequestHeader",
    namesrv.RegisterBrokerResponse: f"{_NAMESRV}RegisterBrokerResponseHeader",
    namesrv.UnregisterBroker: f"{_NAMESRV}UnRegisterBrokerRequestHeader",
    namesrv.BrokerHeartbeat: f"{_NAMESRV}BrokerHeartbeatRequestHeader",
    namesrv.QueryDataVersion: f"{_NAMESRV}QueryDataVersionRequestHeader",
    namesrv.DataVersionResponse: f"{_NAMESRV}QueryDataVersionResponseHeader",
    namesrv.BrokerMemberGroup: f"{_HEADER}GetBrokerMemberGroupRequestHeader",
    namesrv.PutKvConfig: f"{_NAMESRV}PutKVConfigRequestHeader",
    namesrv.KvConfigKey: f"{_NAMESRV}GetKVConfigRequestHeader",
    namesrv.KvNamespace: f"{_NAMESRV}GetKVListByNamespaceRequestHeader",
    namesrv.KvValueResponse: f"{_NAMESRV}GetKVConfigResponseHeader",
    namesrv.ClusterName: f"{_HEADER}GetTopicsByClusterRequestHeader",
    namesrv.BrokerNameHeader: f"{_NAMESRV}WipeWritePermOfBrokerRequestHeader",
    namesrv.WipeWritePermResponse: f"{_NAMESRV}WipeWritePermOfBrokerResponseHeader",
    namesrv.AddWritePermResponse: f"{_NAMESRV}AddWritePermOfBrokerResponseHeader",
    cluster.NotifyMinBrokerIdChange: f"{_HEADER}NotifyMinBrokerIdChangeRequestHeader",
    cluster.AllTopics: f"{_HEADER}GetAllTopicConfigRequestHeader",
    cluster.AllGroups: f"{_HEADER}GetAllSubscriptionGroupRequestHeader",
    cluster.AllTopicsResponse: f"{_HEADER}GetAllTopicConfigResponseHeader",
    cluster.AllGroupsResponse: f"{_HEADER}GetAllSubscriptionGroupResponseHeader",
    cluster.ExchangeHaInfo: f"{_HEADER}ExchangeHAInfoRequestHeader",
    cluster.ResetMasterFlushOffset: f"{_HEADER}ResetMasterFlushOffsetHeader",
    admin_headers.QueryConsumeTimeSpan: f"{_HEADER}QueryConsumeTimeSpanRequestHeader",
    admin_headers.QueryCorrectionOffset: f"{_HEADER}QueryCorrectionOffsetHeader",
    admin_headers.ViewBrokerStats: f"{_HEADER}ViewBrokerStatsDataRequestHeader",
    admin_headers.BrokerConsumeStats: f"{_HEADER}GetConsumeStatsInBrokerHeader",
    admin_headers.QueryConsumeQueue: f"{_HEADER}QueryConsumeQueueRequestHeader",
    admin_headers.VersionResponse: f"{_HEADER}GetBrokerConfigResponseHeader",
    user_headers.UserHeader: f"{_HEADER}CreateUserRequestHeader",
    user_headers.ListUsers: f"{_HEADER}ListUsersRequestHeader",
    user_headers.SubjectHeader: f"{_HEADER}GetAclRequestHeader",
    user_headers.DeleteAcl: f"{_HEADER}DeleteAclRequestHeader",
    user_headers.ListAcls: f"{_HEADER}ListAclsRequestHeader",
    pop_headers.PopMessage: f"{_HEADER}PopMessageRequestHeader",
    pop_headers.PopResponse: f"{_HEADER}PopMessageResponseHeader",
    pop_headers.AckMessage: f"{_HEADER}AckMessageRequestHeader",
    pop_headers.ChangeInvisibleTime: f"{_HEADER}ChangeInvisibleTimeRequestHeader",
    pop_headers.ChangeInvisibleTimeResponse: f"{_HEADER}ChangeInvisibleTimeResponseHeader",
    pop_headers.PeekMessage: f"{_HEADER}PeekMessageRequestHeader",
    pop_headers.Notification: f"{_HEADER}NotificationRequestHeader",
    pop_headers.NotificationResponse: f"{_HEADER}NotificationResponseHeader",
    pop_headers.PollingInfo: f"{_HEADER}PollingInfoRequestHeader",
    pop_headers.PollingInfoResponse: f"{_HEADER}PollingInfoResponseHeader",
}

OURS_ALONE = {transaction.EndTransactions, cluster.TimerCheckPointResponse}
"""Headers of requests that Java does not have."""


class JavaAnswer(NamedTuple):
    """What Java made of a JSON text: the JSON it writes of the value, or what it threw."""

    value: str | None
    error: str | None


def read_by_java(texts: Iterable[tuple[str, bytes]]) -> list[JavaAnswer]:
    """Have Java read JSON texts, each as a class below ``org.apache.rocketmq``."""
    lines = "".join(f"{name}\t{base64.b64encode(text).decode()}\n" for name, text in texts)
    done = subprocess.run([str(PEER), "json"], input=lines, capture_output=True, text=True, check=True, timeout=300)
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    return [JavaAnswer(row.get("value"), row.get("error")) for row in rows]
