"""Names of OpenTelemetry's semantic conventions for messaging, version 1.36.0; none of them is stable there yet.

The producer group is an attribute ``messaging.consumer.group.name``, too: the conventions have replaced
``messaging.rocketmq.client_group`` by it.
"""

from __future__ import annotations

SCHEMA_URL = "https://opentelemetry.io/schemas/1.36.0"
SCOPE = "rocketmq_py"

SYSTEM = "messaging.system"
ROCKETMQ = "rocketmq"
OPERATION = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
GROUP = "messaging.consumer.group.name"
BATCH = "messaging.batch.message_count"
MESSAGE_ID = "messaging.message.id"
BODY_SIZE = "messaging.message.body.size"
TAG = "messaging.rocketmq.message.tag"
KEYS = "messaging.rocketmq.message.keys"
NAMESPACE = "messaging.rocketmq.namespace"
MESSAGE_GROUP = "messaging.rocketmq.message.group"
MESSAGE_TYPE = "messaging.rocketmq.message.type"
DELAY_LEVEL = "messaging.rocketmq.message.delay_time_level"
DELIVERY_TIME = "messaging.rocketmq.message.delivery_timestamp"
ERROR = "error.type"

OPERATION_DURATION = "messaging.client.operation.duration"
SENT = "messaging.client.sent.messages"
CONSUMED = "messaging.client.consumed.messages"
PROCESS_DURATION = "messaging.process.duration"
DURATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Upper bounds of the buckets of durations, in seconds."""
