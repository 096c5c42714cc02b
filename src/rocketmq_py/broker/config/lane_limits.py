"""How many requests of each lane may be in flight, and how long they may wait, from settings with Java's names.

A lane is a kind of requests with a limit of its own. Handlers declare their lane; the server enforces the limits.
"""

from __future__ import annotations

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.server import LaneLimit


def lane_limits(config: BrokerConfig) -> dict[str, LaneLimit]:
    """Return the limits of each lane, by its name.

    Without ``brokerFastFailureEnable`` requests of every lane may wait for any time.
    """
    limits = {
        "send": LaneLimit(config.send_thread_pool_queue_capacity, config.wait_time_mills_in_send_queue),
        "pull": LaneLimit(config.pull_thread_pool_queue_capacity, config.wait_time_mills_in_pull_queue),
        "ack": LaneLimit(config.ack_thread_pool_queue_capacity, config.wait_time_mills_in_ack_queue),
        "heartbeat": LaneLimit(config.heartbeat_thread_pool_queue_capacity, config.wait_time_mills_in_heartbeat_queue),
        "transaction": LaneLimit(
            config.end_transaction_pool_queue_capacity, config.wait_time_mills_in_transaction_queue
        ),
        "admin": LaneLimit(
            config.admin_broker_thread_pool_queue_capacity, config.wait_time_mills_in_admin_broker_queue
        ),
        "query": LaneLimit(config.query_thread_pool_queue_capacity),
        "reply": LaneLimit(config.reply_thread_pool_queue_capacity),
        "client": LaneLimit(config.client_manager_thread_pool_queue_capacity),
        "consumer": LaneLimit(config.consumer_manager_thread_pool_queue_capacity),
    }
    if config.broker_fast_failure_enable:
        return limits
    return {lane: LaneLimit(limit.in_flight) for lane, limit in limits.items()}
