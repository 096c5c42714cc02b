"""The broker: stores messages, hands them to consumers, keeps their offsets.

Services (topics, groups, offsets, clients, holds, delay, send and pull path) with thin handlers on top, put together in
``broker``. Refuses to know the name server but as a peer on the wire.
"""

from rocketmq_py.broker.broker import Broker
from rocketmq_py.broker.config.broker_config import BrokerConfig, configure

__all__ = ["Broker", "BrokerConfig", "configure", "read_properties"]
