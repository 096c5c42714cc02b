"""Figures and their presentation: medians, ratios, floors, the table, the JSON.

Knows numbers only. Refuses to know how they were measured; a missed floor is printed, never an error.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Floor:
    """What the ratio ours / peer must be: at most ``bound`` where less is better, at least ``bound`` otherwise."""

    bound: float
    less_is_better: bool

    def holds(self, ratio: float) -> bool:
        """Whether a ratio, as it is printed, meets the floor."""
        shown = round(ratio, 2)
        return shown <= self.bound if self.less_is_better else shown >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.less_is_better else '≥'} {self.bound:g} ×"


def at_most(bound: float) -> Floor:
    """Less is better: the ratio may be ``bound``."""
    return Floor(bound, less_is_better=True)


def at_least(bound: float) -> Floor:
    """More is better: the ratio must be ``bound``."""
    return Floor(bound, less_is_better=False)


class Tails(NamedTuple):
    """How long requests took, in microseconds: medians of the runs."""

    p50: float
    p99: float
    p999: float


@dataclass(slots=True)
class Figure:
    """One quantity measured on both sides, a value per run.

    ``notes`` carries what explains the figure and is no part of it (what the load generator itself takes, CPU seconds).

    :param cores: how many cores each side has used, ours first; ``tails`` likewise.
    """

    name: str
    unit: str
    floor: Floor
    ours: Sequence[float]
    peer: Sequence[float]
    notes: dict[str, Any] = field(default_factory=dict)
    cores: tuple[float, float] | None = None
    tails: tuple[Tails, Tails] | None = None

    @property
    def our_median(self) -> float:
        return statistics.median(self.ours)

    @property
    def peer_median(self) -> float:
        return statistics.median(self.peer)

    @property
    def ratio(self) -> float:
        """Our median divided by the peer's."""
        return self.our_median / self.peer_median

    @property
    def holds(self) -> bool:
        return self.floor.holds(self.ratio)

    def summary(self) -> dict[str, Any]:
        """The machine-readable line of this figure."""
        beside: dict[str, Any] = {}
        if self.cores is not None:
            beside["cores"] = _pair([significant(cores, 3) for cores in self.cores])
        if self.tails is not None:
            beside["us"] = _pair([{k: significant(v) for k, v in tails._asdict().items()} for tails in self.tails])
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": significant(self.our_median),
            "peer": significant(self.peer_median),
            "ratio": significant(self.ratio),
            "runs": min(len(self.ours), len(self.peer)),
            **beside,
        }

    def record(self) -> dict[str, Any]:
        """Everything about this figure, for the results file."""
        return {
            **self.summary(),
            "floor": str(self.floor),
            "holds": self.holds,
            "ours_runs": [significant(value) for value in self.ours],
            "peer_runs": [significant(value) for value in self.peer],
            "notes": self.notes,
        }


def _pair(values: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(("ours", "peer"), values, strict=True))


def significant(value: float, digits: int = 4) -> float:
    """``value`` rounded to ``digits`` significant digits; the rest of a measurement is noise."""
    return float(f"{value:.{digits}g}")


def human(value: float) -> str:
    """A figure as people read it: three significant digits, thousands separated."""
    return f"{significant(value, 3):,.0f}" if value >= 100 else f"{significant(value, 3):g}"


HEADINGS = (
    "row", "unit", "ours", "(min – max)", "peer", "(min – max)", "ratio", "floor", "",
    "cores", "p50 / p99 / p99.9 µs", "peer's",
)  # fmt: skip
_LEFT = {0, 1, 8}


def table(figures: Sequence[Figure]) -> str:
    """All figures as a text table."""
    lines = [HEADINGS, *map(_cells, figures)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [_line(cells, widths) for cells in lines]
    return "\n".join([shown[0], "-" * sum([*widths, 2 * len(widths) - 2]), *shown[1:]])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell.ljust(width) if i in _LEFT else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def _cells(figure: Figure) -> tuple[str, ...]:
    return (
        figure.name,
        figure.unit,
        human(figure.our_median),
        _spread(figure.ours),
        human(figure.peer_median),
        _spread(figure.peer),
        f"{figure.ratio:.2f} ×",
        str(figure.floor),
        "pass" if figure.holds else "MISS",
        " / ".join(f"{cores:.2f}" for cores in figure.cores or ()),
        *(" / ".join(map(human, tails)) for tails in figure.tails or ((), ())),
    )


def _spread(values: Sequence[float]) -> str:
    return f"({human(min(values))} – {human(max(values))})"
