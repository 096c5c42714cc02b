"""Fields of a message under the names that all commands and the console show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocketmq_py.model import MessageExt


def message_fields(message: MessageExt) -> dict[str, Any]:
    """Return all fields of a message but its size, flag, properties and body; times in milliseconds since the epoch."""
    return {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "msgId": message.msg_id,
        "offsetMsgId": message.offset_msg_id,
        "tags": message.tags,
        "keys": message.keys,
        "stored": message.store_timestamp,
        "born": message.born_timestamp,
        "storeHost": message.store_host,
        "bornHost": message.born_host,
        "reconsumeTimes": message.reconsume_times,
        "logOffset": message.commit_log_offset,
    }
