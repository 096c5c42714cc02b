"""Members of bodies that a peer leaves out."""

from __future__ import annotations

import msgspec
import pytest

from rocketmq_py.errors import BadHeader
from rocketmq_py.protocol.bodies.base import DataVersion
from tests.unit.protocol.defaults import defaults


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (DataVersion, {"counter": 0, "stateVersion": 0, "timestamp": 0}),
    ],
)
def test_numbers_and_flags_that_are_missing(cls: type[msgspec.Struct], expected: dict[str, float]) -> None:
    assert defaults(cls) == expected


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_body_that_is_nested_too_deeply_is_refused(depth: int) -> None:
    body = b'{"counter":' + b"[" * depth + b"null" + b"]" * depth + b"}"
    with pytest.raises(BadHeader, match=r"is no DataVersion: .*nested too deeply"):
        DataVersion.decode(body)
