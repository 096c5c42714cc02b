"""JSON bodies of consumer group configurations."""

from __future__ import annotations

from typing import Any

import msgspec

from rocketmq_py.protocol.bodies.base import Body, DataVersion


class GroupRetryPolicy(Body, kw_only=True):
    type: str = "CUSTOMIZED"
    customized_retry_policy: Any = None
    exponential_retry_policy: Any = None


class SubscriptionGroupConfig(Body, kw_only=True):
    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: GroupRetryPolicy = msgspec.field(default_factory=GroupRetryPolicy)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[Any] | None = None
    attributes: dict[str, str] = {}


class SubscriptionGroupList(Body, kw_only=True):
    """Consumer groups to create or change in one request (225)."""

    group_config_list: list[SubscriptionGroupConfig] = []


class SubscriptionGroupTable(Body, kw_only=True):
    """All consumer groups of a broker; also the layout of subscriptionGroup.json."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, int]] = {}
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)


class GroupList(Body, kw_only=True):
    group_list: list[str] = []
