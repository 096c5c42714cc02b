"""Bodies that would hold the event loop are refused before they are decoded."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.body_limits import BODY_LIMITS, DIALECT_LIMIT, MIB, body_fault
from rocketmq_py.protocol.codes import RequestCode as Code


def padded(text: str, length: int) -> bytes:
    return text.replace("%", "x" * (length - len(text) + 1)).encode()


def test_a_body_at_the_limit_is_accepted() -> None:
    assert body_fault(Code.HEART_BEAT, padded('{"clientID":"%"}', MIB)) is None
    said = body_fault(Code.HEART_BEAT, padded('{"clientID":"%"}', MIB + 1))
    assert said == f"the body of request HEART_BEAT has {MIB + 1} bytes: at most {MIB} are possible"


@pytest.mark.parametrize("text", ["{'clientID':'%'}", '{clientID:"%"}', '{"clientID":"%"}]', '{"clientID":"%",}'])
def test_the_dialect_of_fastjson_has_a_smaller_limit(text: str) -> None:
    assert body_fault(Code.HEART_BEAT, padded(text, DIALECT_LIMIT)) is None
    said = body_fault(Code.HEART_BEAT, padded(text, DIALECT_LIMIT + 1))
    assert said is not None
    assert "is not standard JSON: at most 131072 are possible then" in said


def test_bodies_of_settings_are_not_checked_as_json() -> None:
    assert body_fault(Code.UPDATE_BROKER_CONFIG, padded("brokerName=%", MIB)) is None


def test_a_request_without_a_limit_may_have_any_body() -> None:
    assert Code.SEND_MESSAGE not in BODY_LIMITS
    assert body_fault(Code.SEND_MESSAGE, bytes(5 * MIB)) is None


def test_lists_of_topics_and_groups_may_have_four_mebibytes() -> None:
    for code in (Code.UPDATE_AND_CREATE_TOPIC_LIST, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST):
        assert body_fault(code, padded('["%"]', 4_194_304)) is None
        assert "at most 4194304 are possible" in (body_fault(code, padded('["%"]', 4_194_305)) or "")


def test_other_bodies_may_have_one() -> None:
    for code in BODY_LIMITS.keys() - {Code.UPDATE_AND_CREATE_TOPIC_LIST, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST}:
        assert body_fault(code, padded('["%"]', 1_048_576)) is None
        assert "at most 1048576 are possible" in (body_fault(code, padded('["%"]', 1_048_577)) or "")
