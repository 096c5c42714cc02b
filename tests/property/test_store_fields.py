"""Looking up a property in the stored bytes equals decoding all of them."""

from __future__ import annotations

from hypothesis import given, strategies as st

from rocketmq_py.properties import decode_properties
from rocketmq_py.store.codec import dispatch_fields

pieces = st.lists(st.sampled_from([b"TAGS", b"KEYS", b"xTAGS", b"\x01", b"\x02", b"v", b"TAGS\x01", b"\x02TAGS\x01w"]))


@given(pieces)
def test_parsed_properties_are_those_of_the_decoder(parts):
    raw = b"".join(parts)
    decoded = {name.encode(): value.encode() for name, value in decode_properties(raw).items()}
    parsed = {name: value for name, value in dispatch_fields.parse(raw).items() if name}
    assert parsed == decoded


@given(pieces)
def test_a_property_lookup_equals_the_parser(parts):
    raw = b"".join(parts)
    for name in (dispatch_fields.TAGS, dispatch_fields.KEYS):
        span = dispatch_fields.value_span(raw, name)
        assert (raw[span[0] : span[1]] if span else None) == dispatch_fields.parse(raw).get(name)
