"""``python -m benchmarks.distance_plot bench-results/*.json --into FILE.svg``: throughput of consumers over round trip.

Of several results of a row the newest counts. Needs matplotlib, which the extra ``demo`` has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from benchmarks.figures import human
from benchmarks.rows.distance import ONE_WAY_MS
from benchmarks.table import results

LINES = {
    "PushConsumer, auto": ("push", "ours", "tab:blue", "-"),
    "LitePullConsumer, auto": ("lite", "ours", "tab:cyan", "-"),
    "Kafka, confluent-kafka": ("kafka", "peer", "tab:gray", "-."),
    "DefaultMQPushConsumer": ("push", "peer", "tab:red", "--"),
    "DefaultLitePullConsumer": ("lite", "peer", "tab:orange", "--"),
}
"""By label: kind of row, side, colour and style of the line."""

Line = list[tuple[float, float]]


def lines(files: Iterable[dict[str, Any]]) -> dict[str, Line]:
    """Return points by label: round trip in milliseconds, and messages a second.

    :param files: contents of results files.
    """
    found = results(files)

    def line(kind: str, side: str) -> Line:
        rows = ((delay, found.get(f"distance-{kind}-{delay}ms")) for delay in ONE_WAY_MS)
        return [
            (2 * float(delay), float(row.compiled[side]))
            for delay, row in rows
            if row is not None and row.compiled is not None
        ]

    return {label: line(kind, side) for label, (kind, side, *_) in LINES.items()}


def table(points: Mapping[str, Line]) -> str:
    """Format points as a Markdown table, a line for each consumer and a column for each round trip."""
    trips = [2 * float(delay) for delay in ONE_WAY_MS]
    rows = [["", *(f"{trip:g} ms" for trip in trips)], ["---", *("---:" for _ in trips)]]
    for label, line in points.items():
        rates = dict(line)
        rows.append([label, *(human(rates[trip]) if trip in rates else "" for trip in trips)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def draw(points: Mapping[str, Line], path: Path) -> None:
    """Write a plot of the points; the same points give the same bytes."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "distance"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    for label, line in points.items():
        *_, colour, style = LINES[label]
        axes.plot(*zip(*line, strict=True), style, color=colour, marker="o", label=label) if line else None
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("log")
    axes.set_xticks(trips := [2 * float(delay) for delay in ONE_WAY_MS], [f"{trip:g}" for trip in trips])
    axes.minorticks_off()
    axes.set_xlabel("round trip in ms")
    axes.set_ylabel("messages of 128 bytes per second")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--into", type=click.Path(path_type=Path), help="Where to write the plot, as SVG.")
def main(files: tuple[Path, ...], into: Path | None) -> None:
    """Print the rates of the rows distance-… of results FILES as a table, and draw them."""
    points = lines(json.loads(file.read_text(encoding="utf-8")) for file in files)
    click.echo(table(points))
    if into is not None:
        draw(points, into)


if __name__ == "__main__":
    main()
