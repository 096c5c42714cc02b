"""Rows of messages and of their traces."""

from rocketmq_py.console.bodies import show
from rocketmq_py.console.masks import Masks
from rocketmq_py.console.views.messages import dead_row, message_details, path_of, trace_rows
from rocketmq_py.wire.trace import TraceEntry, TraceKind
from tests.unit.cli.messages import message


def test_a_dead_letter_before_the_mark_was_resent():
    letter = message(topic="%DLQ%g", offset=5, RETRY_TOPIC="t", ORIGIN_MESSAGE_ID="O")
    bodies = Masks().of_page()
    assert [dead_row(letter, bodies, mark)["resent"] for mark in (None, 0, 5, 6)] == [False, False, False, True]
    row = dead_row(letter, bodies, None)
    assert (row["origin"], row["originId"], row["body"]) == ("t", "O", "hello")
    both = message(RETRY_TOPIC="t", ORIGIN_MESSAGE_ID="O", DLQ_ORIGIN_MESSAGE_ID="D")
    assert dead_row(both, bodies, None)["originId"] == "D"
    assert path_of(row) == ("%DLQ%g", "broker-a", 0, 5)


def test_properties_of_the_sender_and_of_the_system_are_apart_and_sorted():
    details = message_details(message(b"{}", z="1", UNIQ_KEY="U", a="2", KEYS="k"), show(b"{}"))
    assert list(details["properties"].items()) == [("a", "2"), ("z", "1")]
    assert set(details["systemProperties"]) == {"UNIQ_KEY", "KEYS"}
    assert list(details["systemProperties"]) == ["KEYS", "UNIQ_KEY"]
    assert details["body"] == {
        "text": "{}", "decoder": "json", "shownBytes": 2, "bytes": 2, "cut": False, "base64": "e30=",
    }  # fmt: skip
    assert message_details(message(b"{}"), show(b"{}"), is_open=False)["body"]["base64"] is None
    cut = message_details(message(b"abc"), show(b"abc", limit=2))["body"]
    assert (cut["text"], cut["shownBytes"], cut["bytes"], cut["cut"], cut["base64"]) == ("ab", 2, 3, True, None)


def test_the_host_of_an_entry_is_its_clients_else_the_brokers():
    entries = [
        TraceEntry(
            kind=TraceKind("Pub"), msg_id="U", timestamp=5, group="g", store_host="s", client_host="c", cost_ms=3
        ),
        TraceEntry(kind=TraceKind("Pub"), msg_id="U", store_host="s", success=False),
    ]
    assert [tuple(row.values()) for row in trace_rows(entries)] == [
        (5, "Pub", "g", "c", 3, None), (None, "Pub", None, "s", None, False),
    ]  # fmt: skip
