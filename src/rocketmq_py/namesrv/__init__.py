"""The name server: which brokers live, which topics they hold, where clients find them.

Knows the rules of registration and routes. Refuses to know messages and the insides of a broker.
"""

from rocketmq_py.namesrv.config import NamesrvConfig
from rocketmq_py.namesrv.nameserver import NameServer
from rocketmq_py.namesrv.registry import Registry

__all__ = ["NameServer", "NamesrvConfig", "Registry"]
