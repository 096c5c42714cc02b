"""Members of bodies that a peer leaves out."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.protocol.bodies.route import BrokerData, QueueData
from tests.unit.protocol.defaults import defaults


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (QueueData, {"topicSysFlag": 0}),
        (BrokerData, {"enableActingMaster": False}),
    ],
)
def test_numbers_and_flags_that_are_missing(cls: type[msgspec.Struct], expected: dict[str, float]) -> None:
    assert defaults(cls) == expected
