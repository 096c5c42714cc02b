"""JSON bodies of routes, cluster membership and name server tables."""

from __future__ import annotations

from typing import Any

from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.wire.integers import Int32, Int64


class QueueData(Body, kw_only=True, gc=False):
    broker_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_sys_flag: Int32 = 0


class BrokerData(Body, kw_only=True):
    """The addresses of the brokers with one broker name, by broker id; 0 is the master."""

    cluster: str = ""
    broker_name: str
    broker_addrs: dict[Int64, str] = {}
    zone_name: str | None = None
    enable_acting_master: bool = False


class TopicRouteData(Body, kw_only=True):
    """The route of a topic: its queues, and the brokers that have them."""

    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    topic_queue_mapping_by_broker: dict[str, Any] | None = None


class ClusterInfo(Body, kw_only=True):
    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroupData(Body, kw_only=True):
    cluster: str
    broker_name: str
    broker_addrs: dict[Int64, str] = {}


class TopicList(Body, kw_only=True):
    topic_list: list[str] = []
    broker_addr: str | None = None


class KvTable(Body, kw_only=True):
    table: dict[str, str] = {}
