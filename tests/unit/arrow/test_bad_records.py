"""What happens to bad records, how many are logged, and what a dead letter has."""

import pytest

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode, dead_letter
from rocketmq_py.errors import CorruptRecord
from rocketmq_py.properties import decode_properties

BAD = CorruptRecord("no record")


@pytest.mark.parametrize(("mode", "is_sent"), [(Mode.PERMISSIVE, False), (Mode.DLQ, True)])
def test_bad_records_are_counted_and_sent_in_mode_dlq_only(mode, is_sent):
    policy = BadRecordPolicy(mode, "dead")
    assert policy.count == 0
    assert [policy.is_dead_letter(BAD) for _ in range(2)] == [is_sent, is_sent]
    assert policy.count == 2


def test_a_bad_record_fails_the_task_in_mode_failfast():
    policy = BadRecordPolicy(Mode.FAILFAST, "")
    with pytest.raises(CorruptRecord) as caught:
        policy.is_dead_letter(BAD)
    assert caught.value is BAD
    assert policy.count == 0


@pytest.mark.parametrize(("mode", "fate"), [(Mode.PERMISSIVE, "is left out"), (Mode.DLQ, "goes to dead")])
def test_the_first_ten_bad_records_are_logged(mode, fate, caplog):
    policy = BadRecordPolicy(mode, "dead")
    for _ in range(12):
        policy.is_dead_letter(BAD)
    logged = [record.getMessage() for record in caplog.records]
    assert logged == [f"a bad record {fate}: no record"] * 9 + [f"a bad record {fate}: no record (no more are logged)"]
    assert policy.count == 12


def test_a_dead_letter_names_its_topic_and_reason():
    body, properties = dead_letter(b"x", {"KEYS": "k", "UNIQ_KEY": "u"}, "T", "why\x01so\x02")
    assert body == b"x"
    assert decode_properties(properties) == {
        "WAIT": "true", "SPARK_BAD_REASON": "why so ", "DLQ_ORIGIN_TOPIC": "T", "KEYS": "k", "UNIQ_KEY": "u",
    }  # fmt: skip


@pytest.mark.parametrize("origin", [None, "", "not a topic!"])
def test_a_topic_that_is_none_is_left_out(origin):
    assert "DLQ_ORIGIN_TOPIC" not in decode_properties(dead_letter(b"x", {}, origin, "why")[1])


@pytest.mark.parametrize(("size", "cut"), [(0, None), (65535, None), (65536, None), (65537, "65537")])
def test_a_long_body_is_cut(size, cut):
    body, properties = dead_letter(b"x" * size, {}, "T", "why")
    assert body == (b"x" * min(size, 65536) or b"null")
    assert decode_properties(properties).get("SPARK_BAD_CUT") == cut
    assert dead_letter(None, {}, "T", "why")[0] == b"null"


def test_a_long_reason_is_cut():
    properties = decode_properties(dead_letter(b"", {}, "T", "y" * 2000)[1])
    assert properties["SPARK_BAD_REASON"] == "y" * 1024


def test_properties_that_do_not_fit_are_dropped_and_those_of_the_row_are_kept():
    long = {f"p{n}": "x" * 8192 for n in range(9)}
    row = {"SPARK_ROW_KEY": "row", "UNIQ_KEY": "u"}
    kept = decode_properties(dead_letter(b"", {**long, "longer": "x" * 8193, **row}, "T", "why")[1])
    assert row.items() <= kept.items()
    assert "longer" not in kept
    assert 0 < len(kept.keys() & long.keys()) < 9


@pytest.mark.parametrize("name", ["UNIQ_KEY", "SPARK_ROW_KEY"])
def test_what_identifies_the_row_is_kept_before_all_else(name):
    """Half of the room is for properties; the second long one does not fit."""
    given = {"a": "x" * 8000, name: "y" * 8000, "b": "z" * 8000, "c": "short"}
    kept = decode_properties(dead_letter(b"", given, "T", "r" * 1024)[1])
    assert kept.keys() & given.keys() == {name, "c"}


def test_separators_in_properties_become_blanks():
    kept = decode_properties(dead_letter(b"", {"a\x01b": "c\x02d", "WAIT": "no"}, "T", "why")[1])
    assert (kept["a b"], kept["WAIT"]) == ("c d", "true")
