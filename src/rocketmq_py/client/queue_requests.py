"""Requests about one queue: they go to the broker that serves it, also if it is a logical one that has just moved."""

from __future__ import annotations

from collections.abc import Collection

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import BrokerError, NoRouteError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.wire.command import Command

_SUCCESS = (ResponseCode.SUCCESS,)


async def broker_of(instance: ClientInstance, queue: MessageQueue, *, broker_id: int = MASTER_ID) -> str:
    """The address of the broker to ask about a queue: its master, or a replica while there is no master.

    :param broker_id: the preferred replica; 0 is the master.
    :raises NoRouteError: no route names the broker, even after the route is refreshed.
    """
    routes = instance.routes
    address = routes.queue_address(queue, broker_id)
    if address is None:
        await routes.refresh(queue.topic)
        address = routes.queue_address(queue, broker_id)
    if address is None:
        raise NoRouteError(
            f"no route names broker {routes.broker_of(queue)!r} of {queue}: is it registered at the name server?"
        )
    return address


async def ask_about_queue(
    instance: ClientInstance, queue: MessageQueue, code: RequestCode, header: Header | None, body: bytes = b"", *,
    timeout: float, broker_id: int = MASTER_ID, accepted: Collection[int] = _SUCCESS,
) -> Command:  # fmt: skip
    """The answer of the broker that serves a queue; if a logical queue has moved, that of its new broker.

    :param timeout: seconds to wait for each answer. :param broker_id: as :func:`broker_of`.
    :param accepted: codes of answers that are no errors.
    :raises BrokerError: the broker refuses. :raises NetworkError: it does not answer.
    :raises NoRouteError: as :func:`broker_of`.
    """
    address = await broker_of(instance, queue, broker_id=broker_id)
    answer = await instance.connections.invoke(address, code, header, body, timeout, check=False)
    if answer.code == ResponseCode.NOT_LEADER_FOR_QUEUE:
        await instance.routes.refresh(queue.topic)
        address = await broker_of(instance, queue, broker_id=broker_id)
        answer = await instance.connections.invoke(address, code, header, body, timeout, check=False)
    if answer.code not in accepted:
        raise BrokerError.of(answer.code, answer.remark, address)
    return answer


def first_offset(answered: int) -> int:
    """The offset at which a queue begins, by the answer of its broker: -1 for a batch queue without messages."""
    return max(answered, 0)
