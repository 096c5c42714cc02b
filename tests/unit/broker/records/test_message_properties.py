"""The fast path of writing properties agrees with parsing, or leaves the message to it."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings, strategies as st

from rocketmq_py.broker.records.message_properties import _HANDLED_OF_HALVES, PropertyWriter, decode
from rocketmq_py.properties import SYSTEM_PROPERTIES, TOLD_BY_VALUE
from rocketmq_py.wire.java_hash import tags_code
from tests.examples import examples

NAMES = st.sampled_from(
    [
        "TAGS",
        "KEYS",
        "UNIQ_KEY",
        "WAIT",
        "DELAY",
        "MYTAGS",
        "XKEYS",
        "NO_UNIQ_KEY",
        "MSG_REGION",
        "POP_CK",
        "a",
        "",
        "TRAN_MSG",
        "XTRAN_MSG",
        "PGROUP",
        "REAL_TOPIC",
        "BORN_TIMESTAMP",
        "XBORN_TIMESTAMP",
        "__transactionId__",
    ]
)
VALUES = st.sampled_from(["", "1", "true", "TAGS", "KEYS", "A || B", "k1 k2", "Zürich"])
ENTRIES = st.lists(st.tuples(NAMES, VALUES, st.sampled_from(["\x01", "\x01", "\x01", "", "\x01\x01"])), max_size=6)


def property_writer() -> PropertyWriter:
    return PropertyWriter("r", True, "c", lambda: "made")


@given(ENTRIES, st.booleans())
@settings(max_examples=examples(1_000))
@example([("UNIQ_KEY", "1", "\x01"), ("KEYS", "k1 k2", "\x01")], True)
@example([("X", "1", "\x01"), ("UNIQ_KEY", "1", "\x01"), ("KEYS", "1", "\x01")], False)
def test_the_fast_and_the_parsed_path_agree(entries: list[tuple[str, str, str]], ends: bool) -> None:
    text = "\x02".join(name + separator + value for name, value, separator in entries) + ("\x02" if ends else "")
    subject = property_writer()
    for is_half in (False, True, True):  # the last time it is remembered
        short = subject.write_common(text, is_half=is_half)
        if short is None:
            continue
        parsed = subject.parse(text)
        in_transaction = parsed.get("TRAN_MSG") == "true"
        assert short.group == (parsed["PGROUP"] if in_transaction else None)
        assert is_half or not in_transaction
        assert decode(short.text) == parsed
        assert short.tags_code == tags_code(parsed.get("TAGS"))
        assert (short.keys, short.uniq_key) == (parsed.get("KEYS"), parsed["UNIQ_KEY"])


def test_properties_of_real_clients_take_the_fast_path() -> None:
    java = "city\x01Zürich\x02KEYS\x01k-0 all\x02UNIQ_KEY\x01FD00\x02WAIT\x01true\x02TAGS\x01A\x02"
    for text in (java, "UNIQ_KEY\x01U\x02", "TAGS\x01A\x02KEYS\x01k\x02WAIT\x01true\x02UNIQ_KEY\x01U\x02"):
        assert property_writer().write_common(text) is not None


def test_half_messages_of_real_clients_take_the_fast_path() -> None:
    text = "UNIQ_KEY\x01U\x02WAIT\x01true\x02TAGS\x01A\x02TRAN_MSG\x01true\x02PGROUP\x01g\x02"
    assert property_writer().write_common(text) is None
    marked = property_writer().write_common(text, is_half=True)
    assert marked is not None
    assert (marked.group, marked.tags_code) == ("g", 65)


def test_half_messages_with_other_handled_properties_are_parsed() -> None:
    for more in ("POP_CK\x01x\x02", "REAL_TOPIC\x01t\x02", "TRAN_MSG\x01false\x02"):
        text = f"UNIQ_KEY\x01U\x02TRAN_MSG\x01true\x02PGROUP\x01g\x02{more}"
        for is_half in (False, True):
            assert property_writer().write_common(text, is_half=is_half) is None, more


def test_the_cache_is_bounded() -> None:
    subject = property_writer()
    for i in range(10_000):
        assert subject.write_common(f"id\x01{i}\x02UNIQ_KEY\x01U\x02") is not None
    assert len(subject._seen) <= 4096


@pytest.mark.parametrize("text", ["{}UNIQ_KEY\x01U\x02TAGS\x01A\x02", "UNIQ_KEY\x01U\x02TAGS\x01A\x02{}"])
def test_the_time_of_birth_is_not_part_of_what_is_remembered(text: str) -> None:
    subject = property_writer()
    for born in range(10):
        marked = subject.write_common(text.format(f"BORN_TIMESTAMP\x01{born}\x02"))
        assert marked is not None
        assert marked.tags_code == 65
        assert f"BORN_TIMESTAMP\x01{born}\x02" in marked.text
    assert list(subject._seen) == ["TAGS\x01A\x02"]


@pytest.mark.parametrize("text", [
    "BORN_TIMESTAMP\x01DELAY\x013\x02UNIQ_KEY\x01U\x02", "BORN_TIMESTAMP\x01\x02UNIQ_KEY\x01U\x02",
    "BORN_TIMESTAMP\x015\x02DELAY\x013\x02UNIQ_KEY\x01U\x02", "UNIQ_KEY\x01U\x02BORN_TIMESTAMP\x015",
])  # fmt: skip
def test_what_only_looks_like_a_time_of_birth_is_parsed(text: str) -> None:
    assert property_writer().write_common(text) is None


def test_a_name_that_ends_like_that_of_the_time_of_birth_stays() -> None:
    subject = property_writer()
    assert subject.write_common("xBORN_TIMESTAMP\x015\x02UNIQ_KEY\x01U\x02") is not None
    assert list(subject._seen) == ["xBORN_TIMESTAMP\x015\x02"]


def test_the_accelerator_tells_sends_apart_by_all_that_must_be_parsed() -> None:
    """What it leaves out of a kind is never seen here."""
    names = {text.removesuffix("\x01") for text in _HANDLED_OF_HALVES if text != "\x01\x02"}
    for name in names:
        assert {known for known in SYSTEM_PROPERTIES if known.startswith(name)} <= TOLD_BY_VALUE
    assert names - {"TIMER_", "CHECK_IMMUNITY_TIME"} <= TOLD_BY_VALUE
    assert {"TAGS", "WAIT", "PGROUP"} <= TOLD_BY_VALUE
