"""Skipped messages are logged, counted and told to the application."""

from rocketmq_py.client.consumer.skipped import SkippedMessages
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import DamagedMessage, MessageExt, MessageQueue
from rocketmq_py.wire.record import UndecodedRecord

QUEUE = MessageQueue("T", "b", 3)


def message(queue_id, offset):
    return MessageExt((0, 0, 0, queue_id, 0, offset, 7, 0, 0, bytes(8), 0, bytes(8), 0, 0, 1), "T", b"x", b"")


def test_messages_that_cannot_be_decoded_are_named_in_one_line_and_told_one_by_one(caplog):
    told = []
    skipped = SkippedMessages("g", told.append)
    skipped.undecoded(QUEUE, [])
    assert (skipped.count, caplog.records) == (0, [])
    records = [(message(1, 5), RocketMQError("x")), (message(2, 6), RocketMQError("y"))]
    skipped.undecoded(QUEUE, [UndecodedRecord(*each) for each in records])
    assert told == [
        DamagedMessage(MessageQueue("T", "b", 1), 5, "x"), DamagedMessage(MessageQueue("T", "b", 2), 6, "y"),
    ]  # fmt: skip
    [record] = caplog.records
    assert "group g skips messages (2) of topic T at broker b, which keeps them" in record.getMessage()
    assert "queue 1 offset 5 (id " in record.getMessage()
    assert skipped.count == 2


def test_a_callback_that_fails_changes_nothing(caplog):
    def fail(_):
        raise ValueError("on purpose")

    for callback, lines in ((None, 1), (fail, 2)):
        caplog.clear()
        skipped = SkippedMessages("g", callback)
        skipped.damaged(QUEUE, 9, RocketMQError("crc"))
        assert skipped.count == 1
        assert len(caplog.records) == lines
        assert caplog.records[0].getMessage().endswith("topic T, broker b, queue 3, offset 9: crc")
