"""Members of bodies that a peer leaves out."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingInfo, MappingItem, TopicConfigAndMapping
from tests.unit.protocol.defaults import defaults


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (MappingItem, {"startOffset": 0, "endOffset": -1, "timeOfStart": -1, "timeOfEnd": -1}),
        (MappingInfo, {"dirty": False}),
        (MappingDetail, {"dirty": False}),
        (
            TopicConfigAndMapping,
            {"readQueueNums": 16, "writeQueueNums": 16, "perm": 6, "topicSysFlag": 0, "order": False},
        ),
    ],
)
def test_numbers_and_flags_that_are_missing(cls: type[msgspec.Struct], expected: dict[str, float]) -> None:
    assert defaults(cls) == expected
