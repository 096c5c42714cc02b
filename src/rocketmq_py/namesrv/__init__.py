"""The name server: brokers, their topics, and routes for clients."""

from rocketmq_py.namesrv.config import NamesrvConfig
from rocketmq_py.namesrv.nameserver import NameServer
from rocketmq_py.namesrv.registry import Registry

__all__ = ["NameServer", "NamesrvConfig", "Registry"]
