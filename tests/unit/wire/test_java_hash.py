"""Hashes of strings, tags and keys as Java computes them."""

from __future__ import annotations

import pytest

from rocketmq_py.wire.java_hash import index_hash, string_hash, tags_code
from tests.golden import files


@pytest.mark.parametrize("fact", files.facts("hash"), ids=lambda fact: fact["text"] or "empty")
def test_string_hashes_equal_those_of_java(fact: dict[str, object]) -> None:
    assert string_hash(str(fact["text"])) == fact["hash"]


def test_tag_codes_are_derived_from_hashes() -> None:
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("TagA") == 2598919
    assert index_hash("k-1") == 104271
    assert index_hash("flights#AA-1") == 1392411580
    assert index_hash("polygenelubricants") == 0
