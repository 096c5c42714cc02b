"""Administration of transactions: list open ones and those no longer checked, and make brokers check those again.

Reads the brokers' internal topics of half messages and of commits and rollbacks; ``core.transaction`` computes which
transactions are open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from rocketmq_py.client.admin.messages import MessageAdmin
from rocketmq_py.core.transaction.table import OPEN, TransactionTable
from rocketmq_py.errors import NetworkError, NoRouteError
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol import names
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.half_messages import parse_op_body
from rocketmq_py.protocol.headers.transaction import ResumeCheckHalfMessage

CHECKS_GROUP = "CID_RMQ_SYS_TRANS"
"""The internal consumer group of brokers whose offsets say up to where all half messages have ended."""


class TransactionAdmin(MessageAdmin):
    """Base of :class:`~rocketmq_py.client.admin.admin.Admin`: its methods for transactions."""

    async def open_transactions(self) -> list[MessageExt]:
        """The half messages of transactions that are neither committed nor rolled back, oldest first.

        Their ``properties`` have the original topic (REAL_TOPIC), the producer group (PGROUP) and the number of checks
        (TRANSACTION_CHECK_TIMES). Transactions that ended in the last seconds may still be listed: brokers record
        commits and rollbacks in batches (transactionOpBatchInterval).
        """
        queues = [queue for queue in await self.queues(names.HALF_TOPIC) if queue.queue_id == 0]
        found = await asyncio.gather(*(self._or_left_out(queue.broker_name, self._open_of(queue)) for queue in queues))
        return sorted((half for halves in found for half in halves or ()), key=lambda half: half.store_timestamp)

    async def _open_of(self, queue: MessageQueue) -> list[MessageExt]:
        ops = queue._replace(topic=names.OP_HALF_TOPIC)
        base = await self.group_offset(CHECKS_GROUP, queue) or 0
        halves = [half async for half in self.read(queue, base)]
        # Read commits and rollbacks after the half messages, so that no ended transaction is listed.
        ended = [op async for op in self.read(ops, await self.group_offset(CHECKS_GROUP, ops))]
        table = TransactionTable(base)
        last = halves[-1].queue_offset if halves else -1
        for op in ended:
            for offset in parse_op_body(op.body):
                if base <= offset <= last:
                    table.end(offset)
        return [half for half in halves if table.outcome(half.queue_offset) == OPEN]

    async def given_up_transactions(self) -> AsyncIterator[MessageExt]:
        """Iterate over the half messages of transactions that brokers no longer check (TRANS_CHECK_MAX_TIME_TOPIC)."""
        try:
            queues = await self.queues(names.CHECK_MAX_TIME_TOPIC)
        except NoRouteError:
            return  # the first one creates the topic
        for queue in queues:
            try:
                async for message in self.read(queue):
                    yield message
            except NetworkError as e:
                self._leave_out(queue.broker_name, e)

    async def resume_transaction(self, offset_msg_id: str) -> None:
        """Make a broker check a transaction again that it no longer checks.

        :param offset_msg_id: the offset message id of its half message, from :meth:`given_up_transactions`.
        :raises ConfigError: it is not an offset message id, or its broker is not in this cluster.
        :raises BrokerError: the broker has no message at that offset.
        """
        message = await self.message(offset_msg_id)
        header = ResumeCheckHalfMessage(topic=message.topic, msg_id=offset_msg_id)
        await self._ask_owner(message.queue, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
