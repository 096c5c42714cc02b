"""Pages of large tables, which slaves fetch a part at a time (TopicConfigManager.subTopicConfigTable)."""

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
    """Return the requested page of a table; the complete table if the request names no page, or pages are off.

    :param seq: the first entry's position in the order of names.
    :param most: the maximum number of entries.
    :param known_version: the version of the pages the caller has, as JSON. If the table has another version, the first
        page is returned.
    """
    if not config.enable_split_metadata or (seq, most, known_version) == (None, None, None):
        return table
    size = min(config.split_metadata_size, config.split_metadata_size if most is None else most)
    is_known = bool(known_version) and DataVersion.decode((known_version or "").encode()) == version
    first = (seq or 0) if is_known else 0
    return {name: table[name] for name in sorted(table)[first : first + size]}
