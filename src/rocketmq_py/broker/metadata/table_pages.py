"""Tables told a part at a time, so that a slave of a broker with many topics gets them in answers of a sane size.

Knows Java's rules (TopicConfigManager.subTopicConfigTable). Refuses to know what the tables hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.protocol.bodies.base import DataVersion

T = TypeVar("T")


def page(
    table: Mapping[str, T], version: DataVersion, config: BrokerConfig, seq: int | None, most: int | None,
    known_version: str | None,
) -> Mapping[str, T]:  # fmt: skip
    """The part of a table that is asked for; all of it when the caller asks in the old way.

    :param seq: from which entry on, in the order of names. :param most: the caller wants no more.
    :param known_version: what the caller's parts are of, as JSON; if they are of another version it has to begin anew.
    """
    if not config.enable_split_metadata or (seq, most, known_version) == (None, None, None):
        return table
    size = min(config.split_metadata_size, config.split_metadata_size if most is None else most)
    is_known = bool(known_version) and DataVersion.decode((known_version or "").encode()) == version
    first = (seq or 0) if is_known else 0
    return {name: table[name] for name in sorted(table)[first : first + size]}
