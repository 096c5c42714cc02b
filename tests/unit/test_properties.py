"""Properties of messages as stored text."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.properties import decode_properties, encode_properties
from tests.golden import files

NAMES = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.dictionaries(NAMES, NAMES, max_size=6))
def test_properties_are_encoded_and_decoded(properties: dict[str, str]) -> None:
    encoded = encode_properties(properties)
    assert decode_properties(encoded) == properties
    assert decode_properties(encoded.removesuffix(b"\x02")) == properties


def test_properties_equal_those_of_java() -> None:
    fact = files.fact("properties")
    encoded = files.unbase64(fact["encoded"])
    assert encode_properties(fact["map"]) == encoded
    assert decode_properties(encoded) == fact["decoded"]


@pytest.mark.parametrize(("raw", "properties"), [
    (b"", {}), (b"\x02\x02", {}), (b"a", {}), (b"a\x01", {}), (b"\x01b\x02", {}), (b"a\x01b", {"a": "b"}),
    (b"a\x01b\x02c\x02d\x01e", {"a": "b", "d": "e"}), (b"a\x01\xff\x02", {"a": "\ufffd"}),
    (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
])  # fmt: skip
def test_malformed_properties_are_decoded_like_java(raw: bytes, properties: dict[str, str]) -> None:
    assert decode_properties(raw) == properties
