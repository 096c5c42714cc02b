"""The events in the life of a message."""

from rocketmq_py.console.views.life import DEAD, RESENT, RETRIED, SENT, events
from rocketmq_py.wire.trace import TraceEntry, TraceKind
from tests.unit.console.memory import NOW, message


def test_the_first_message_was_sent_and_the_others_were_sent_again():
    rows = events([message(offset=1), message(offset=2)], [("g", message(offset=3))], [("g", message(offset=4))], [])
    assert [(row["event"], row["group"]) for row in rows] == [(SENT, None), (RESENT, None), (RETRIED, "g"), (DEAD, "g")]


def test_events_are_in_the_order_of_time_and_those_without_one_are_first():
    entries = [
        TraceEntry(kind=TraceKind("Pub"), msg_id="U", timestamp=NOW + 2, group="g", topic="t", client_host="c",
                   cost_ms=0, success=True),
        TraceEntry(kind=TraceKind("SubAfter"), msg_id="U", success=False),
        TraceEntry(kind=TraceKind("SubBefore"), msg_id="U", timestamp=NOW + 1),
    ]  # fmt: skip
    rows = events([message(offset=3)], [], [], entries)
    assert [(row["at"], row["what"]) for row in rows] == [
        (None, "SubAfter failure"), (NOW + 1, "SubBefore"), (NOW + 2, "Pub success 0 ms c"), (NOW + 3, None),
    ]  # fmt: skip
    assert rows[2] == {"at": NOW + 2, "event": "traced", "group": "g", "topic": "t", "broker": None, "queue": None,
                       "offset": None, "attempts": None, "what": "Pub success 0 ms c"}  # fmt: skip
    assert (rows[3]["broker"], rows[3]["queue"], rows[3]["offset"]) == ("broker-a", 0, 3)
