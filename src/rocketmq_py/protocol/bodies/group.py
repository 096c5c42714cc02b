"""JSON bodies of consumer group configurations."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from rocketmq_py.protocol.bodies.base import Body, DataVersion
from rocketmq_py.protocol.coercion import java_enum
from rocketmq_py.wire.integers import Int32, Int64


class GroupRetryPolicy(Body, kw_only=True):
    type: Annotated[str, java_enum("EXPONENTIAL", "CUSTOMIZED")] = "CUSTOMIZED"
    customized_retry_policy: Any = None
    exponential_retry_policy: Any = None


class SubscriptionGroupConfig(Body, kw_only=True):
    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    group_retry_policy: GroupRetryPolicy = msgspec.field(default_factory=GroupRetryPolicy)
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    consume_timeout_minute: Int32 = 15
    subscription_data_set: list[Any] | None = None
    attributes: dict[str, str] = {}


class SubscriptionGroupList(Body, kw_only=True):
    """Consumer groups to create or change in one request (request code 225)."""

    group_config_list: list[SubscriptionGroupConfig] = []


class SubscriptionGroupTable(Body, kw_only=True):
    """All consumer groups of a broker; also the layout of subscriptionGroup.json."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, Int32]] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)


class GroupList(Body, kw_only=True):
    group_list: list[str] = []
