"""A proxy: clients that speak gRPC reach a cluster, of Apache RocketMQ or of this project, through it."""

from rocketmq_py.proxy.proxy import CallNeeds, Proxy, ProxyConfig

__all__ = ["CallNeeds", "Proxy", "ProxyConfig"]
