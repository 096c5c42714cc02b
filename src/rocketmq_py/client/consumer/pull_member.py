"""What a consumer that pulls answers brokers and Java's tools that ask about it.

The push consumer's answers as far as they apply; there is no listener that could consume a message on request.
"""

from __future__ import annotations

from typing import Any

from rocketmq_py.client.consumer import running_info as push_running
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup
from rocketmq_py.model import MessageExt


class PullMember:
    """The part of a consumer that brokers talk to; see ``push_requests.Consumer``."""

    _group: ConsumerGroup

    def running_info(self) -> dict[str, Any]:
        """Its state, as Java's ConsumerRunningInfo."""
        info = push_running.running_info(self._group)
        info["properties"]["PROP_CONSUME_TYPE"] = "CONSUME_ACTIVELY"
        return info

    async def consume_directly(self, message: MessageExt) -> dict[str, Any]:
        """Nobody but the application's own calls consumes its messages."""
        remark = f"group {self._group.name} pulls: topic {message.topic} has no listener"
        return {
            "order": False, "autoCommit": False, "consumeResult": "CR_THROW_EXCEPTION", "spentTimeMills": 0,
            "remark": remark,
        }  # fmt: skip
