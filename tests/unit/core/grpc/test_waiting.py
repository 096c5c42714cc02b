from __future__ import annotations

import pytest

from rocketmq_py.core.grpc.waiting import check_invisible, polling_ms
from rocketmq_py.protocol.grpc.enums import Code
from rocketmq_py.protocol.grpc.refusal import CallRefused


@pytest.mark.parametrize(("wanted", "left", "timeout", "expected"), [
    (1_000, None, 0, 5_000), (8_000, None, 0, 8_000), (60_000, None, 0, 20_000), (8_000, 6_000, 0, 6_000),
    (8_000, 8_000, 0, 8_000), (None, 11_000, 3_000, 9_500), (None, None, 3_000, 20_000), (None, 6_000, 3_000, 5_000),
    (20_000, 5_000, 0, 5_000),
])  # fmt: skip
def test_a_call_waits_between_5_and_20_seconds(
    wanted: int | None, left: int | None, timeout: int, expected: int
) -> None:
    assert polling_ms(wanted, left, timeout, "5.1.0") == expected


@pytest.mark.parametrize(("version", "code"), [
    ("5.0.3", Code.ILLEGAL_POLLING_TIME), ("5.1.0-SNAPSHOT", Code.ILLEGAL_POLLING_TIME), ("5.0.2", Code.BAD_REQUEST),
    ("", Code.BAD_REQUEST), ("x.y", Code.BAD_REQUEST), ("5.0.99999999999", Code.BAD_REQUEST),
])  # fmt: skip
def test_a_deadline_that_is_too_near_is_refused(version: str, code: Code) -> None:
    with pytest.raises(CallRefused, match="4999") as caught:
        polling_ms(5_000, 4_999, 0, version)
    assert caught.value.code == code


def test_invisible_times_have_limits() -> None:
    assert check_invisible(10_000) == 10_000
    assert check_invisible(43_200_000) == 43_200_000
    assert check_invisible(0, 0) == 0
    for ms, least in ((9_999, 10_000), (43_200_001, 10_000), (-1, 0)):
        with pytest.raises(CallRefused) as caught:
            check_invisible(ms, least)
        assert caught.value.code == Code.ILLEGAL_INVISIBLE_TIME
