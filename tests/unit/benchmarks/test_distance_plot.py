"""The plot of throughput over round trip: which figures of stored results it takes."""

from __future__ import annotations

from typing import Any

from benchmarks.distance_plot import LINES, lines, table


def file(time: str, *figures: tuple[str, float, float]) -> dict[str, Any]:
    records = [{"name": name, "unit": "msg/s", "ours": ours, "peer": peer} for name, ours, peer in figures]
    return {"time": time, "settings": {}, "figures": records}


def test_each_side_of_each_row_is_a_line_over_round_trips() -> None:
    found = lines(
        [
            file(
                "2026-01-01", ("distance-push-0ms", 5, 6), ("distance-push-0.5ms", 1, 2), ("distance-lite-40ms", 7, 8)
            ),
            file("2026-01-02", ("distance-push-0.5ms", 3, 4), ("distance-kafka-10ms", 9, 10), ("push", 11, 12)),
        ]
    )
    assert found == {
        "PushConsumer, auto": [(0, 5), (1, 3)],
        "LitePullConsumer, auto": [(80, 7)],
        "Kafka, confluent-kafka": [(20, 10)],
        "DefaultMQPushConsumer": [(0, 6), (1, 4)],
        "DefaultLitePullConsumer": [(80, 8)],
    }


def test_the_table_has_a_column_for_each_round_trip() -> None:
    points = {label: [(20.0, 1234.0)] if label.startswith("Kafka") else [] for label in LINES}
    rows = table(points).splitlines()
    assert rows[0] == "|  | 0 ms | 1 ms | 5 ms | 20 ms | 80 ms |"
    assert rows[4] == "| Kafka, confluent-kafka |  |  |  | 1,230 |  |"
    assert rows[2] == "| PushConsumer, auto |  |  |  |  |  |"
