"""The end of the demo: a table per carrier, a picture, and a check that the numbers agree end to end."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd
from rich.console import Console
from rich.table import Table


class Tally(msgspec.Struct):
    """What was counted at each station of the way."""

    departures: int
    """rows of the data set"""
    acknowledged: int
    """messages the broker acknowledged, by its own offsets (the closing message left out)"""
    consumed: int
    """messages the consumer group has committed"""
    late: int
    """departures at least two hours late, by the data set"""
    announced: int
    """of them, how many the consumer announced"""
    failed_on_purpose: int
    """first deliveries the listener failed, over all runs"""
    settled: int
    """of them, how many came back and succeeded"""
    lag: int
    """messages the group has not committed yet, retry topic included"""
    counted: int
    """departures in Spark's windows"""
    windows: int
    """rows in Parquet"""
    results: int
    """messages in the result topic"""


def checks(tally: Tally) -> list[tuple[str, bool, str]]:
    """Each claim with whether it holds and the numbers behind it."""
    t = tally
    return [
        ("every departure is in the broker", t.acknowledged == t.departures, f"{t.acknowledged:,} of {t.departures:,}"),
        ("the consumer group saw each", t.consumed >= t.departures and t.lag == 0, f"lag {t.lag:,}"),
        ("every late departure was announced", t.announced == t.late, f"{t.announced:,} of {t.late:,}"),
        ("every retry settled", t.settled == t.failed_on_purpose, f"{t.settled:,} of {t.failed_on_purpose:,}"),
        ("Spark counted each departure once", t.counted == t.departures, f"{t.counted:,} in {t.windows:,} windows"),
        ("every window is in the result topic", t.results == t.windows, f"{t.results:,} of {t.windows:,}"),
    ]


def carriers(windows: pd.DataFrame) -> pd.DataFrame:
    """Departures, mean delay and the busiest hours' 95th percentile per carrier, most departures first."""
    weighted = windows.assign(total=windows["mean_delay"].fillna(0) * windows["flown"])
    by = weighted.groupby("carrier").agg(
        departures=("departures", "sum"), flown=("flown", "sum"), total=("total", "sum"), p95=("p95_delay", "median")
    )
    by["mean_delay"] = by["total"] / by["flown"].where(by["flown"] > 0)
    return by.sort_values("departures", ascending=False)


def print_table(console: Console, by_carrier: pd.DataFrame) -> None:
    """Prints one row per carrier."""
    table = Table(title="Departures from New York, 2013: computed by Spark from the topic")
    for name in ("carrier", "departures", "mean delay (min)", "median of hourly p95 (min)"):
        table.add_column(name, justify="left" if name == "carrier" else "right")
    for carrier, row in by_carrier.iterrows():
        table.add_row(str(carrier), f"{int(row.departures):,}", f"{row.mean_delay:.1f}", f"{row.p95:.0f}")
    console.print(table)


def print_checks(console: Console, results: list[tuple[str, bool, str]]) -> bool:
    """Prints each check; whether all of them hold."""
    for claim, holds, numbers in results:
        console.print(f"  [{'green' if holds else 'bold red'}]{'ok  ' if holds else 'FAIL'}[/] {claim}: {numbers}")
    return all(holds for _, holds, _ in results)


def draw(windows: pd.DataFrame, path: Path) -> None:
    """Two pictures in one file: mean delay over the hours of the day per carrier, and departures per day."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    local = windows["window_start"].dt.tz_localize("UTC").dt.tz_convert("America/New_York")
    frame = windows.assign(hour=local.dt.hour, day=local.dt.date)
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(11, 8), layout="constrained")
    top = frame.groupby("carrier")["departures"].sum().nlargest(8).index
    for carrier in top:
        part = frame[frame["carrier"] == carrier]
        total = (part["mean_delay"].fillna(0) * part["flown"]).groupby(part["hour"]).sum()
        flown = part.groupby("hour")["flown"].sum()
        upper.plot(total[flown >= 50] / flown[flown >= 50], label=carrier, marker=".")
    upper.set(title="Mean departure delay by scheduled hour", xlabel="hour in New York", ylabel="minutes")
    upper.set_xticks(range(5, 24, 2))
    upper.legend(ncols=4)
    upper.grid(alpha=0.3)
    lower.plot(frame.groupby("day")["departures"].sum(), linewidth=0.8)
    lower.set(title="Departures per day", ylabel="departures")
    lower.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)
