"""At its start, a master copies offsets from a slave that may have acted as master (BrokerPreOnlineService).

Only values larger than the master's are copied, so a slave that has not acted as master changes nothing.
"""

from __future__ import annotations

import logging

from rocketmq_py.broker.cluster.membership import Membership
from rocketmq_py.broker.metadata.offsets import ConsumerOffsets
from rocketmq_py.broker.timer.delay_levels import DelayService
from rocketmq_py.broker.timer.timers import Timers
from rocketmq_py.core.route import MASTER_ID
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.cluster import TimerCheckPointResponse
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.server.sliced_work import in_slices
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.fastjson import load_object_in_steps

_log = logging.getLogger(__name__)

_SECONDS = 10.0
"""The timeout for a slave's answer, in seconds. Messages that it delivered and cannot report are delivered twice."""


async def take_back(
    membership: Membership, rpc_client: RpcClient, offsets: ConsumerOffsets, delay: DelayService, timers: Timers
) -> bool:
    """Copy consumer offsets, delay level offsets and timer progress from the slave with the smallest id.

    :returns: True if there is a slave and it returned the offsets. Otherwise messages may be delivered twice, but none
        is lost.
    """
    members = await membership.members()
    slaves = sorted(members.keys() - {MASTER_ID})
    if not slaves:
        return False
    address = members[slaves[0]]
    try:
        tree = await _ask(rpc_client, address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        await in_slices(offsets.take_over(tree, keeps_larger=True))
        delay.raise_offsets(await _ask(rpc_client, address, RequestCode.GET_ALL_DELAY_OFFSET))
    except (RocketMQError, ValueError) as e:
        _log.warning("cannot read from slave %s how far it has acted for this broker: %s", address, e)
        return False
    offsets.persist()
    delay.persist()
    if timers.is_enabled:
        await _take_timers(rpc_client, address, timers)
    _log.info("took over offsets and timers from slave %s", address)
    return True


async def _take_timers(rpc_client: RpcClient, address: str, timers: Timers) -> None:
    try:
        reply = await rpc_client.ask(address, Command(RequestCode.GET_TIMER_CHECK_POINT), _SECONDS)
        timers.take_over(bytes(reply.body), TimerCheckPointResponse.from_ext(reply.ext))
    except (RocketMQError, ValueError) as e:
        _log.warning("cannot read from slave %s which timed messages it has delivered for this broker: %s", address, e)


async def _ask(rpc_client: RpcClient, address: str, code: RequestCode) -> object:
    return await in_slices(load_object_in_steps((await rpc_client.ask(address, Command(code), _SECONDS)).body))
