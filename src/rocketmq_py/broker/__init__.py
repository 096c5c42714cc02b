"""The broker: stores messages, hands them to consumers, keeps their offsets.

Services (topics, groups, offsets, clients, holds, delays, sends, pulls) with thin handlers on top; ``broker`` creates
them. Name servers are used through the network only.
"""

from rocketmq_py.broker.broker import Broker
from rocketmq_py.broker.config.broker_config import BrokerConfig, configure

__all__ = ["Broker", "BrokerConfig", "configure", "read_properties"]
