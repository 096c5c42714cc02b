"""What a master that starts takes over from a slave that has acted for it (BrokerPreOnlineService).

Knows what is asked of whom. Refuses to know whether the slave has acted: what is ahead here
stays, so asking does no harm.
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
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.fastjson import load_object

_log = logging.getLogger(__name__)

_SECONDS = 10.0
"""How long a slave may take to answer, on a machine that is busy; what it does not tell is delivered twice."""


async def take_back(
    membership: Membership, outward: RpcClient, offsets: ConsumerOffsets, delay: DelayService, timers: Timers
) -> bool:
    """Take over offsets of groups and delay levels that are ahead at the slave with the smallest id, and its timers.

    Whether there was one. One that does not answer is left alone: messages may be delivered twice then, none is lost.
    """
    members = await membership.members()
    slaves = sorted(members.keys() - {MASTER_ID})
    if not slaves:
        return False
    address = members[slaves[0]]
    try:
        offsets.take_over(await _ask(outward, address, RequestCode.GET_ALL_CONSUMER_OFFSET), keeps_larger=True)
        delay.catch_up(await _ask(outward, address, RequestCode.GET_ALL_DELAY_OFFSET))
    except (RocketMQError, ValueError) as e:
        _log.warning("slave %s does not tell how far it has come for this broker: %s", address, e)
        return False
    offsets.persist()
    delay.persist()
    if timers.is_enabled:
        await _take_timers(outward, address, timers)
    _log.info("took over from slave %s how far it had come for this broker", address)
    return True


async def _take_timers(outward: RpcClient, address: str, timers: Timers) -> None:
    try:
        reply = await outward.ask(address, Command(RequestCode.GET_TIMER_CHECK_POINT), _SECONDS)
        timers.take_over(bytes(reply.body), TimerCheckPointResponse.from_ext(reply.ext))
    except (RocketMQError, ValueError) as e:
        _log.warning("slave %s does not tell which timed messages it has delivered for this broker: %s", address, e)


async def _ask(outward: RpcClient, address: str, code: RequestCode) -> object:
    return load_object((await outward.ask(address, Command(code), _SECONDS)).body)
