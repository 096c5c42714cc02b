"""mqadmin searches by tag on either broker."""

from __future__ import annotations

from tests.interop.javapeer import JavaPeer
from tests.interop.side import Side, eventually


def test_messages_are_found_by_their_tag(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java, queues=2)
    sent = java.produce(side.namesrv, topic, 6, tags="A,B")
    assert len(sent) == 6

    def found(tag: str) -> int:
        text = java.say_admin("queryMsgByKey", "-n", side.namesrv, "-t", topic, "-k", tag, "-p", "T")
        return sum(row["msgId"] in text for row in sent)

    eventually(lambda: (found("A"), found("B"), found("C")), lambda counts: counts == (3, 3, 0))
