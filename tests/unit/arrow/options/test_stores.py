"""Option ``storePath``: which places are URIs, and what is shown of them."""

from __future__ import annotations

import pytest

from rocketmq_py.arrow.options.stores import default_name, is_uri, shown


@pytest.mark.parametrize(
    ("place", "name"),
    [("/data/50%25", "50%25"), ("/data/what?/", "what?"), ("a//b#1", "b#1"), ("s3://b/50%25?k=v", "50%")],
)
def test_only_of_uris_parts_have_a_meaning(place: str, name: str) -> None:
    assert default_name(place) == name


@pytest.mark.parametrize(
    ("place", "told"), [("/data/what?/", "/data/what?/"), ("s3://b/a/?secret=s", "s3://b/a"), ("s3://b/a/", "s3://b/a")]
)
def test_only_of_uris_a_query_is_not_shown(place: str, told: str) -> None:
    assert shown(place) == told


def test_a_drive_is_no_scheme() -> None:
    assert is_uri("s3://bucket")
    assert not is_uri("c://data")
    assert not is_uri("/s3://bucket")
