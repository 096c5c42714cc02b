"""The broker: stores messages, delivers them to consumers, stores their offsets.

Handlers of requests are thin and call services (topics, groups, offsets, clients, holds, delays, sends, pulls), which
``services`` creates. The broker reaches name servers through the network only.
"""

from rocketmq_py.broker.broker import Broker
from rocketmq_py.broker.config.broker_config import BrokerConfig, configure

__all__ = ["Broker", "BrokerConfig", "configure"]
