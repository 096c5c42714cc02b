"""Messages as applications make them."""

from __future__ import annotations

import array

import pytest

from rocketmq_py.model import Message


@pytest.mark.parametrize("body", [b"abc", bytearray(b"abc"), memoryview(b"abc"), "abc", array.array("b", b"abc")])
def test_a_body_is_bytes_like_or_text(body: object) -> None:
    assert Message("t", body).body == b"abc"  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [3, None, 1.5, [1, 2], {"a": 1}, object])
def test_another_body_is_refused_by_name(body: object) -> None:
    with pytest.raises(TypeError, match="bytes-like or str is expected") as caught:
        Message("t", body)  # type: ignore[arg-type]
    assert repr(body) in str(caught.value)
    assert type(body).__name__ in str(caught.value)
