"""How long the store took for messages, by the minute."""

from __future__ import annotations

import pytest

from rocketmq_py.core.broker.put_times import PutTimes


def after_a_minute(*times: int) -> PutTimes:
    made = PutTimes(1_000)
    for milliseconds in times:
        made.observe(milliseconds)
    made.tick(60_999)
    assert made.distribution() is None
    made.tick(61_000)
    return made


def parts(text: str | None) -> dict[str, int]:
    assert text is not None
    return {name: int(count) for name, count in (part.split(":") for part in text.split())}


NAMES = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]", "[1~2s]", "[2~3s]",
    "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip


@pytest.mark.parametrize(
    ("milliseconds", "name"),
    [
        (0, "[<=0ms]"), (1, "[0~10ms]"), (9, "[0~10ms]"), (10, "[10~50ms]"), (49, "[10~50ms]"), (50, "[50~100ms]"),
        (99, "[50~100ms]"), (100, "[100~200ms]"), (199, "[100~200ms]"), (200, "[200~500ms]"), (499, "[200~500ms]"),
        (500, "[500ms~1s]"), (999, "[500ms~1s]"), (1_000, "[1~2s]"), (1_999, "[1~2s]"), (2_000, "[2~3s]"),
        (3_999, "[3~4s]"), (4_000, "[4~5s]"), (5_000, "[5~10s]"), (9_999, "[5~10s]"), (10_000, "[10s~]"),
        (77_000, "[10s~]"),
    ],
)  # fmt: skip
def test_the_distribution_has_java_s_names_and_limits(milliseconds: int, name: str) -> None:
    assert parts(after_a_minute(milliseconds).distribution()) == dict.fromkeys(NAMES, 0) | {name: 1}


def test_figures_are_those_of_the_last_whole_minute() -> None:
    made = PutTimes(0)
    assert (made.distribution(), made.percentile(0.99)) == (None, 0.0)
    made.observe(30, 5)
    made.tick(60_000)
    made.observe(3)
    made.tick(119_999)
    assert parts(made.distribution())["[10~50ms]"] == 5
    made.tick(120_000)
    assert parts(made.distribution()) == dict.fromkeys(NAMES, 0) | {"[0~10ms]": 1}
    made.tick(180_000)
    assert (set(parts(made.distribution()).values()), made.percentile(0.99)) == ({0}, 0.0)
    assert made.longest_ms == 30


@pytest.mark.parametrize(
    ("times", "share", "expected"),
    [
        ([0] * 100, 0.99, 0.99),  # all are in the first interval, of 0 to 1 ms
        ([1] * 98 + [20, 20], 0.99, 19.5),  # one of the two between 19 and 20
        ([1] * 10 + [26] * 10, 0.75, 25.0),  # half of those between 24 and 26
        ([1_000] * 10, 0.999, 990.0),  # nine of ten between 900 and 1,000
        ([15_000] * 10, 0.5, 12_500.0),  # half of those between 10 s and the longest
        ([5, 700], 0.999, 4.0 + 1.0),
    ],
)
def test_percentiles_are_interpolated_between_java_s_limits(times: list[int], share: float, expected: float) -> None:
    assert after_a_minute(*times).percentile(share) == pytest.approx(expected)
