"""Sends requests about a queue to the broker that serves it, also for a logical queue that has moved."""

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
    """The ``host:port`` of the broker that serves a queue: of the preferred replica, or of another one.

    :param broker_id: the broker id of the preferred replica; 0 is the master.
    :raises NoRouteError: the broker is not in the cached routes, nor in the refreshed route of the topic.
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
    """Send a request to the broker that serves a queue; returns the answer.

    If that broker answers that a logical queue has moved, the request is sent to the new broker.

    :param timeout: seconds to wait for each answer.
    :param broker_id: as of :func:`broker_of`.
    :param accepted: the response codes that are not errors.
    :raises BrokerError: the broker answers with another code.
    :raises NetworkError: the broker does not answer.
    :raises NoRouteError: as of :func:`broker_of`.
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
    """The min offset of a queue from a broker's answer, in which -1 (a batch queue without messages) means 0."""
    return max(answered, 0)
