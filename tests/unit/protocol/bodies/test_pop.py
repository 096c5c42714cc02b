"""Members of bodies that a peer leaves out."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.protocol.bodies.pop import MessageRequestMode
from tests.unit.protocol.defaults import defaults


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (MessageRequestMode, {"popShareQueueNum": 0}),
    ],
)
def test_numbers_and_flags_that_are_missing(cls: type[msgspec.Struct], expected: dict[str, float]) -> None:
    assert defaults(cls) == expected
