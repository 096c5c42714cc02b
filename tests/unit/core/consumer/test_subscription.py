from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.core.consumer.subscription import (
    accepts_any,
    differences,
    is_tag_type,
    parse_subscription,
    sql_filter,
    tag_filter,
)
from rocketmq_py.core.sql92 import compile_sql
from rocketmq_py.errors import BadHeader
from rocketmq_py.model import RecordHead
from rocketmq_py.properties import encode_properties
from rocketmq_py.protocol.bodies.client import SubscriptionData
from rocketmq_py.wire.java_hash import string_hash, tags_code
from rocketmq_py.wire.record import encode_record

TAGS = st.text(st.characters(exclude_characters="|", exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=6)


@given(st.lists(TAGS, min_size=1, max_size=4), TAGS)
def test_a_message_is_wanted_when_the_hash_of_its_tag_is_subscribed(tags: list[str], other: str) -> None:
    if tags == ["*"]:
        return
    accepts = tag_filter(SubscriptionData.parse("t", " || ".join(tags), 1))
    assert accepts is not None
    assert all(accepts(tags_code(tag)) for tag in tags)
    assert accepts(tags_code(other)) == (string_hash(other) in {string_hash(tag) for tag in tags})


@pytest.mark.parametrize("expression", ["*", "", "  ", None])
def test_an_expression_for_all_tags_has_no_filter(expression: str | None) -> None:
    assert tag_filter(SubscriptionData.parse("t", expression, 1)) is None


def test_untagged_messages_match_no_tag() -> None:
    accepts = tag_filter(SubscriptionData.parse("t", "A", 1))
    assert accepts is not None
    assert not accepts(tags_code(None))


def test_filters_other_than_tags_match_everything() -> None:
    assert tag_filter(SubscriptionData(topic="t", sub_string="a > 5", expression_type="SQL92")) is None
    assert tag_filter(SubscriptionData(topic="t", sub_string="A", code_set=[65], class_filter_mode=True)) is None


@pytest.mark.parametrize(("kind", "tag"), [(None, True), ("", True), ("TAG", True), ("SQL92", False)])
def test_kinds_of_expression(kind: str | None, tag: bool) -> None:
    assert is_tag_type(kind) is tag


def test_an_expression_of_separators_only_is_refused() -> None:
    with pytest.raises(BadHeader, match="names no tag"):
        parse_subscription("t", " || ", None)


def stored(**properties: str) -> bytes:
    head = RecordHead(0, 0, 0, 0, 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0, 0)
    return encode_record(head, "t", b"body", encode_properties(properties))


def test_expressions_are_evaluated_on_stored_properties() -> None:
    wants = sql_filter(lambda properties: None if "all" in properties else compile_sql("a > 5"))
    assert wants(stored(a="10"))
    assert not wants(stored(a="1"))
    assert wants(stored(a="1", all="x"))
    assert wants(stored(a="1")[:-1])  # damaged: its reader is to see


def test_a_pull_is_woken_when_any_new_message_matches() -> None:
    assert accepts_any(None, [])
    assert accepts_any({65}.__contains__, [1, 65])
    assert not accepts_any({65}.__contains__, [1, 2])


def test_members_agree_whatever_the_spelling_of_tags() -> None:
    one = [SubscriptionData.parse("T", "a || b", 1), SubscriptionData.parse("U", "*", 1)]
    other = [SubscriptionData.parse("U", None, 7), SubscriptionData.parse("T", "b||a", 2)]
    assert differences(one, other) == []


def test_differences_are_reported_by_topic() -> None:
    sql = SubscriptionData(topic="T", sub_string="a > 1", sub_version=1, expression_type="SQL92")
    found = differences([SubscriptionData.parse("T", "a", 1)], [sql, SubscriptionData.parse("U", "*", 1)])
    assert found == ["topic T: 'a' here, 'a > 1' there", "topic U: not subscribed here, '*' there"]


def test_members_that_filter_by_different_conditions_differ():
    these, those = ([SubscriptionData.parse("T", f"a > {n}", 0, "SQL92")] for n in (1, 2))
    assert differences(these, those) == ["topic T: 'a > 1' here, 'a > 2' there"]
    assert differences(these, these) == []
    assert differences(these, []) == ["topic T: 'a > 1' here, not subscribed there"]
    assert differences([], those) == ["topic T: not subscribed here, 'a > 2' there"]


def test_a_subscription_of_a_pull_has_no_version():
    assert parse_subscription("T", "a || b", None).sub_version == 0
