"""State of one's own: the working days of every aircraft, kept by a processor with a timer (transformWithState).

A session is a run of flights of one aircraft without a pause of six hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from examples.common import FLIGHT, parsed, program, stream

PAUSE_MS = 6 * 3600 * 1000
SESSION = "tailnum string, began timestamp, ended timestamp, flights int, distance int"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Sessions(StatefulProcessor):
    """One open session per aircraft: when it began and ended so far (ms), how many flights, how far."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.open = handle.getValueState("open", "began long, ended long, flights int, distance int")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        session = self.open.get()
        if session is not None:
            self.handle.deleteTimer(session[1] + PAUSE_MS)
        for at, distance in sorted((int(row.scheduled.timestamp() * 1000), row.distance) for row in rows):
            if session is not None and at > session[1] + PAUSE_MS:
                yield self.closed(key, session)
                session = None
            began, ended, flights, total = session or (at, at, 0, 0)
            session = (began, max(at, ended), flights + 1, total + distance)
        if session is not None:
            self.open.update(session)
            self.handle.registerTimer(session[1] + PAUSE_MS)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """The watermark has passed six hours after the last flight."""
        if (session := self.open.get()) is not None:
            yield self.closed(key, session)
        self.open.clear()

    def closed(self, key: Any, session: tuple[Any, ...]) -> Row:
        began, ended = (datetime.fromtimestamp(at / 1000, UTC) for at in session[:2])
        return Row(tailnum=key[0], began=began, ended=ended, flights=session[2], distance=session[3])


def run(spark: SparkSession, namesrv: str, data: Path) -> None:
    """Topic flights into the folder sessions."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    flights = parsed(stream(spark, namesrv, "flights"), FLIGHT).where("tailnum is not null")
    sessions = (
        flights.withWatermark("scheduled", "1 hour")
        .groupBy("tailnum")
        .transformWithState(Sessions(), SESSION, "Append", "EventTime")
    )
    query = (
        sessions.writeStream.format("parquet")
        .option("path", str(data / "sessions"))
        .option("checkpointLocation", str(data / "checkpoints" / "sessions"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    program(run)()
