"""The way of most messages of an asyncio producer that makes batches: they join a batch that is being filled.

This comes to the same as ``BatchPreparation.message`` and ``Sender.start_send``, which serve all kinds of messages, and
threads; it takes a third of their time. A message that would begin a batch, or is not as most are, is left to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sized
from time import time_ns

from rocketmq_py.client.send.batcher import BatchedSend
from rocketmq_py.client.send.preparing import Admitted
from rocketmq_py.core.producer.accumulator import Accumulator, Lane
from rocketmq_py.core.producer.batched_message import PLAIN
from rocketmq_py.core.producer.outgoing_message import Packer
from rocketmq_py.core.producer.send_window import SendWindow
from rocketmq_py.model import Message, SendResult


class Joining:
    """Adds messages to batches that are being filled. Use it in the thread of the event loop that is running.

    :param packer: encodes the messages.
    :param lanes: the lane of each topic that messages for any queue were sent to.
    :param accumulator: the batches.
    :param window: counts the sends in progress.
    :param in_progress: the sends that the window counts.
    :param parked: sends that wait for the window, before which no other is sent.
    """

    __slots__ = ("_fill", "_filling", "_in_progress", "_lanes", "_loop", "_parked", "_record", "_window")

    def __init__(
        self,
        packer: Packer,
        lanes: Mapping[str, Lane],
        accumulator: Accumulator[BatchedSend],
        window: SendWindow,
        in_progress: set[Admitted],
        parked: Sized,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._record = packer.plain_record
        self._lanes = lanes
        self._filling, self._fill = accumulator.filling, accumulator.fill
        self._window = window
        self._in_progress = in_progress
        self._parked = parked

    def add(self, message: Message) -> asyncio.Future[SendResult] | None:
        """Add a message for any queue to the batch that its topic's messages join; return the future of its result.

        Return None if the message was not added; then it is as before, but may have its unique key.

        :raises MessageIllegal: as ``Packer.record``.
        """
        lane = self._lanes.get(message.topic)
        parcel = None if lane is None else self._filling(lane)
        if parcel is None or parcel.kind != PLAIN or asyncio.get_running_loop() is not self._loop:
            return None
        record = self._record(message, time_ns() // 1_000_000)
        if record is None:
            return None
        size = len(record.record)
        if self._parked or not self._window.admit(size):
            return None
        send = BatchedSend(parcel.lane, record, None, size, parcel.deadline, record.msg_id)
        if not self._fill(parcel, send, size, PLAIN):
            self._window.leave(size)
            return None
        self._in_progress.add(send)
        send.future = future = self._loop.create_future()
        return future
