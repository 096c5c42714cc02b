"""The events in the life of a message."""

from rocketmq_py.console.views.life import DEAD, RESENT, RETRIED, SENT, events
from tests.unit.console.memory import message


def test_the_first_message_was_sent_and_the_others_were_sent_again():
    rows = events([message(offset=1), message(offset=2)], [("g", message(offset=3))], [("g", message(offset=4))], [])
    assert [(row["event"], row["group"]) for row in rows] == [(SENT, None), (RESENT, None), (RETRIED, "g"), (DEAD, "g")]
