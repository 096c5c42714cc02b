"""What a lite pull consumer answers brokers and Java's tools that ask about it.

The push consumer's answers as far as they apply; there is no listener that could consume a message on request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketmq_py.client import push_running
from rocketmq_py.client.lite_pull_queues import Queues
from rocketmq_py.client.push_group import Group
from rocketmq_py.model import MessageExt, MessageQueue


class AnswersBrokers:
    """The part of a consumer that brokers talk to; see ``push_requests.Consumer``."""

    _group: Group
    _queues: Queues

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Goes on at other offsets, smaller or greater, in those of the queues that are ours."""
        for queue, offset in offsets.items():
            process = self._group.queues.get(queue)
            if process is not None:
                self._queues.jump(process, offset)
                self._queues.commit({queue: offset})

    def running_info(self) -> dict[str, Any]:
        """Its state, as Java's ConsumerRunningInfo."""
        info = push_running.running_info(self._group)
        info["properties"]["PROP_CONSUME_TYPE"] = "CONSUME_ACTIVELY"
        return info

    async def consume_directly(self, message: MessageExt) -> dict[str, Any]:
        """Nobody but the application's own polls consumes its messages."""
        remark = f"group {self._group.name} pulls: topic {message.topic} has no listener"
        return {
            "order": False, "autoCommit": False, "consumeResult": "CR_THROW_EXCEPTION", "spentTimeMills": 0,
            "remark": remark,
        }  # fmt: skip
