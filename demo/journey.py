"""Runs the three parts of the demo at once, waits until each has everything, and counts."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import wait
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from demo import flights, pipeline
from demo.alerts import GROUP, Alerts
from demo.board import Board
from demo.replay import Replay
from demo.report import Tally
from demo.state import StateFile
from rocketmq_py import ConsumeFromWhere
from rocketmq_py.aio import Admin, Producer, PushConsumer
from rocketmq_py.protocol.names import retry_topic

QUEUES = 4
_LOOK_EVERY_SECONDS = 0.5


class Journey:
    """One run of the demo against a running server."""

    def __init__(
        self, namesrv: str, data: Path, frame: pd.DataFrame, state_file: StateFile, rate: float | None, board: Board
    ) -> None:
        self._namesrv = namesrv
        self._data = data
        self._frame = frame
        self._board = board
        self._replay = Replay(frame, state_file, rate)
        self._alerts = Alerts(data / "alerts.jsonl")
        self._sent = asyncio.Event()
        self._gave_up = False
        self._batches: dict[int, int] = {}

    async def run(self) -> Tally:
        """Everything from the first message to the last count."""
        async with Admin(namesrv=self._namesrv) as admin:
            await admin.create_topic(flights.TOPIC, queues=QUEUES)
            await admin.create_topic(pipeline.RESULT_TOPIC, queues=QUEUES)
            consumer = PushConsumer(
                group=GROUP, namesrv=self._namesrv, listener=self._alerts.handle, pull_batch_size=256,
                consume_from=ConsumeFromWhere.FIRST_OFFSET,
            )  # fmt: skip
            consumer.subscribe(flights.TOPIC, "*")
            async with consumer, asyncio.TaskGroup() as group:
                group.create_task(self._send())
                group.create_task(self._watch_group(admin))
                counted = group.create_task(asyncio.to_thread(self._compute, asyncio.get_running_loop()))
            self._alerts.close()
            return await self._tally(admin, *counted.result())

    def verified(self) -> None:
        """Remember that the numbers agreed."""
        self._replay.verified()

    async def _send(self) -> None:
        total = self._replay.total
        try:
            async with Producer(group="replay", namesrv=self._namesrv, send_timeout=60) as producer:
                self._board.update("replay", self._replay.state.sent, total)
                await self._replay.run(producer, lambda sent: self._board.update("replay", sent, total))
        except BaseException:
            self._gave_up = True  # the others must not wait for a replay that failed
            raise
        finally:
            self._sent.set()

    async def _watch_group(self, admin: Admin) -> None:
        """Shows the consumer's progress until everything that was sent is settled."""
        while True:
            lag = await self._lag(admin)
            if lag == 0 and self._sent.is_set() and self._alerts.all_settled:
                return
            await asyncio.sleep(_LOOK_EVERY_SECONDS)

    async def _lag(self, admin: Admin) -> int:
        """Messages the group has not committed yet, those waiting for their retry included."""
        lag = await admin.lag(GROUP, flights.TOPIC) + await admin.lag(GROUP, retry_topic(GROUP))
        note = f"lag {lag:,}, {self._alerts.settled:,} of {len(self._alerts.failed):,} retries settled"
        self._board.update("consumer", len(self._alerts.announced), flights.late_count(self._frame), note)
        return lag

    async def _messages(self, admin: Admin, topic: str) -> int:
        """How many messages a topic holds, by the broker's own offsets."""
        queues = await admin.queues(topic)
        return sum([await admin.max_offset(queue) - await admin.min_offset(queue) for queue in queues])

    def _compute(self, loop: asyncio.AbstractEventLoop) -> tuple[int, int]:
        """The Spark part, in a thread of its own; departures counted and windows written."""
        spark = pipeline.start_session(self._data / "spark.log")
        try:
            query = pipeline.write_parquet(pipeline.windows(spark, self._namesrv), self._data)
            sent = asyncio.run_coroutine_threadsafe(self._sent.wait(), loop)
            while not sent.done():
                self._show_batches(query)
                wait([sent], timeout=_LOOK_EVERY_SECONDS)
            query.processAllAvailable()
            while not self._is_closed(query):
                self._show_batches(query)
                time.sleep(_LOOK_EVERY_SECONDS)  # a progress report cannot be awaited
            self._show_batches(query)
            query.stop()
            pipeline.write_topic(spark, self._namesrv, self._data).awaitTermination()
            return self._count(spark)
        finally:
            spark.stop()

    def _is_closed(self, query: StreamingQuery) -> bool:
        """Whether a batch has run with the watermark behind the last departure; the last windows come out of that."""
        if self._replay.state.verified or self._gave_up:
            return True
        closing = flights.closing_time(self._frame, self._replay.state.closings) - pipeline.WATERMARK
        marks = (progress.eventTime.get("watermark") for progress in query.recentProgress[-5:])
        return any(pd.Timestamp(mark) >= closing for mark in marks if mark)

    def _show_batches(self, query: StreamingQuery) -> None:
        error = query.exception()
        if error is not None:
            raise error
        for progress in query.recentProgress:
            self._batches[progress.batchId] = progress.numInputRows
        rows = sum(self._batches.values())
        self._board.update("micro-batches", rows, self._replay.total, f"{len(self._batches)} batches")

    def _count(self, spark: SparkSession) -> tuple[int, int]:
        written = spark.read.schema(pipeline.WINDOW_SCHEMA).parquet(str(self._data / "windows"))
        row = written.selectExpr("sum(departures)", "count(*)").first()
        assert row is not None
        return int(row[0] or 0), int(row[1])

    async def _tally(self, admin: Admin, counted: int, windows: int) -> Tally:
        stored = await self._messages(admin, flights.TOPIC)
        return Tally(
            departures=len(self._frame),
            acknowledged=stored - self._replay.state.closings,
            consumed=sum((await admin.group_offsets(GROUP, flights.TOPIC)).values()) - self._replay.state.closings,
            late=flights.late_count(self._frame),
            announced=len(self._alerts.announced),
            failed_on_purpose=len(self._alerts.failed),
            settled=self._alerts.settled,
            lag=await self._lag(admin),
            counted=counted,
            windows=windows,
            results=await self._messages(admin, pipeline.RESULT_TOPIC),
        )
