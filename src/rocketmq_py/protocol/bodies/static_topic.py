"""JSON bodies of static topics: which physical queues a logical queue consists of (TopicQueueMappingDetail)."""

from __future__ import annotations

import msgspec

from rocketmq_py.protocol.bodies.base import Body, DataVersion
from rocketmq_py.protocol.bodies.topic import TopicConfig

GLOBAL_SCOPE = "__global__"


class MappingItem(Body, kw_only=True):
    """One physical queue of a logical queue (LogicQueueMappingItem).

    :ivar gen: generation: number of the remapping of the logical queue that added this item.
    :ivar bname: name of the broker of the physical queue. :ivar queue_id: id of the physical queue.
    :ivar logic_offset: the logical offset at which the physical queue begins; -1 while it is not decided.
    :ivar start_offset: the first physical offset, always 0.
    :ivar end_offset: the physical offset after the last message; -1 while messages are still written to the queue.
    """

    gen: int
    queue_id: int
    bname: str
    logic_offset: int
    start_offset: int = 0
    end_offset: int = -1
    time_of_start: int = -1
    time_of_end: int = -1


class MappingInfo(Body, kw_only=True):
    """The part of a broker's mapping of a static topic that the broker registers with name servers.

    :ivar curr_id_map: physical queue id by logical queue id, for the logical queues whose new messages it stores.
    """

    topic: str
    scope: str = GLOBAL_SCOPE
    total_queues: int
    bname: str
    epoch: int
    dirty: bool = False
    curr_id_map: dict[int, int] = {}


class MappingDetail(MappingInfo, kw_only=True):
    """A broker's mapping of a static topic: the physical queues of each logical queue that it stores or has stored."""

    hosted_queues: dict[int, list[MappingItem]] = {}


class TopicConfigAndMapping(TopicConfig, kw_only=True):
    """A topic and, if it is static, its mapping (request code 351)."""

    mapping_detail: MappingDetail | None = None


class MappingTable(Body, kw_only=True):
    """All mappings of a broker; the layout of topicQueueMapping.json."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    topic_queue_mapping_info_map: dict[str, MappingDetail] = {}
