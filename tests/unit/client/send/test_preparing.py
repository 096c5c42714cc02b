"""What a message that goes into a batch knows of the send before it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from rocketmq_py.client.send.options import Options
from rocketmq_py.client.send.preparing import BatchPreparation
from rocketmq_py.model import Message


class Sender:
    """Sends a message directly while nothing is under way; the sends it makes end when the test says so."""

    is_idle = True

    def __init__(self) -> None:
        self.under_way: list[object] = []
        self.asked = 0

    def delivery(self, message: Message, *_: object) -> object:
        self.under_way.append(SimpleNamespace(outgoing=SimpleNamespace(topic=message.topic)))
        return self.under_way[-1]

    def has(self, delivery: object) -> bool:
        self.asked += 1
        return delivery in self.under_way


def test_a_message_follows_a_direct_send_to_its_topic_while_that_is_under_way() -> None:
    """Then others may come, too, and it waits for them; alone it goes at once."""
    sender = Sender()
    batcher = SimpleNamespace(is_quiet=lambda _: True)
    some: Any = None
    prepared = BatchPreparation(cast(Any, sender), some, Options(), some, cast(Any, batcher))
    assert not prepared._follows("t")
    assert sender.asked == 0
    assert prepared.message(Message("t", b"x"), None, None) is sender.under_way[0]
    assert (prepared._follows("t"), prepared._follows("u")) == (True, False)
    sender.under_way.clear()
    assert not prepared._follows("t")
    asked = sender.asked
    assert not prepared._follows("t")
    assert sender.asked == asked, "it is forgotten"
