"""What a cluster needs for a load: brokers, disk, memory, descriptors, and requests that keep it together.

The constants are measured figures; ``docs/capacity.md`` says how each was measured.
"""

from __future__ import annotations

import math

import msgspec

SEND_MICROS = 13.0
DELIVERY_MICROS = 4.1
"""CPU time of a broker for a message that is sent, and for one that is delivered to a group."""
LOAD = 0.5
"""The share of one core that a broker uses at most; the rest is for bursts and for the loss of another broker."""
RECORD_BYTES = 91
ENTRY_BYTES = 20
"""Size of a record without topic, body and properties; of an entry in a consume queue, and in the index per key."""
DISK_SHARE = 0.75
"""The share of a disk that is used before old files are removed early (``diskMaxUsedSpaceRatio``)."""
EMPTY_MIB = 20.0
TOPIC_KIB = 7.0
GROUP_KIB = 3.5
CONNECTION_KIB = 2.5
HELD_PULL_KIB = 6.0
"""Memory of a broker: without anything; for each topic, group, connection and held pull."""
OPEN_QUEUE_FILES = 512
LOG_FILE_BYTES = 1 << 30
SPARE_DESCRIPTORS = 100
"""Descriptors: at most so many files of consume queues, one for each file of the log, and what else a broker opens."""
HEARTBEAT_SECONDS = 30.0
ROUTE_SECONDS = 30.0
REGISTRATION_SECONDS = 30.0
"""Intervals of clients and brokers, as in Java."""
_SECONDS_A_DAY = 86_400
_GIB = 1 << 30


class Load(msgspec.Struct, kw_only=True, frozen=True):
    """What a cluster has to carry.

    :ivar messages: sent in one second, all topics together.
    :ivar message_bytes: of body and properties of a message.
    :ivar groups: that read each message.
    :ivar days: for which messages are kept.
    :ivar clients: connected producers and consumers.
    :ivar topics_per_client: topics that a client sends to or subscribes to.
    :ivar copies: of each message, on different machines; 1 is a master without a slave.
    :ivar name_servers: of the cluster.
    """

    messages: float
    message_bytes: int = 1024
    groups: int = 1
    days: float = 3.0
    topics: int = 100
    clients: int = 100
    topics_per_client: int = 1
    copies: int = 1
    name_servers: int = 2


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """What is needed for a load; "each" is one broker.

    :ivar masters: brokers that take messages.
    :ivar brokers: masters and slaves.
    """

    masters: int
    brokers: int
    sends_each: float
    deliveries_each: float
    core_share_each: float
    written_mb_each: float
    disk_gib_each: float
    disk_gib: float
    memory_mib_each: float
    page_cache_gib_per_hour: float
    descriptors_each: int
    heartbeats_each: float
    route_polls: float
    route_polls_per_name_server: float
    registrations_per_name_server: float


def plan(load: Load) -> Plan:
    """Return what a cluster needs for a load; every client is connected to every master."""
    work = load.messages * (SEND_MICROS + load.groups * DELIVERY_MICROS) / 1e6
    masters = max(1, math.ceil(work / LOAD - 1e-9))
    stored = load.messages * (RECORD_BYTES + load.message_bytes + 2 * ENTRY_BYTES) / masters
    kept = stored * load.days * _SECONDS_A_DAY
    polls = load.clients * load.topics_per_client / ROUTE_SECONDS
    brokers = masters * load.copies
    kib = load.topics * TOPIC_KIB + load.groups * GROUP_KIB + load.clients * (CONNECTION_KIB + HELD_PULL_KIB)
    disk = kept / DISK_SHARE / _GIB
    return Plan(
        masters=masters,
        brokers=brokers,
        sends_each=load.messages / masters,
        deliveries_each=load.messages * load.groups / masters,
        core_share_each=work / masters,
        written_mb_each=stored / 1e6,
        disk_gib_each=disk,
        disk_gib=disk * brokers,
        memory_mib_each=EMPTY_MIB + kib / 1024,
        page_cache_gib_per_hour=stored * 3600 / _GIB,
        descriptors_each=load.clients + OPEN_QUEUE_FILES + math.ceil(kept / LOG_FILE_BYTES) + SPARE_DESCRIPTORS,
        heartbeats_each=load.clients / HEARTBEAT_SECONDS,
        route_polls=polls,
        route_polls_per_name_server=polls / load.name_servers,
        registrations_per_name_server=brokers / REGISTRATION_SECONDS,
    )
