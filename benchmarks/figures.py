"""Figures and their presentation: medians, ratios, floors, the table, the JSON.

How figures are measured is not part of this module. A missed floor is printed and is not an error.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rocketmq_py.accelerator import installed


@dataclass(frozen=True, slots=True)
class Floor:
    """The limit of the ratio ours / peer: at most ``bound`` if less is better, at least ``bound`` otherwise."""

    bound: float
    less_is_better: bool

    def holds(self, ratio: float) -> bool:
        """Return whether a ratio, rounded to two decimals as in the table, meets the floor."""
        shown = round(ratio, 2)
        return shown <= self.bound if self.less_is_better else shown >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.less_is_better else '≥'} {self.bound:g} ×"


def at_most(bound: float, pure: float | None = None) -> Floor:
    """Floor of a figure of which less is better: the ratio must be at most ``bound``.

    :param pure: the bound where the accelerator is not installed; None: the same.
    """
    return Floor(_bound(bound, pure), less_is_better=True)


def at_least(bound: float, pure: float | None = None) -> Floor:
    """Floor of a figure of which more is better: the ratio must be at least ``bound``; ``pure`` as of at_most."""
    return Floor(_bound(bound, pure), less_is_better=False)


def _bound(bound: float, pure: float | None) -> float:
    return bound if pure is None or installed() is not None else pure


class Tails(NamedTuple):
    """Percentiles of the time of requests in microseconds, each as the median of the runs."""

    p50: float
    p99: float
    p999: float


@dataclass(slots=True)
class Figure:
    """One quantity measured on both sides, with a value per run.

    :param notes: other measurements that explain the figure, such as the CPU time of the load generator.
    :param cores: average number of cores that our side and the peer have used.
    :param tails: percentiles of our side and of the peer.
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
        """Return the figure's medians and ratio, for a line of JSON."""
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
        """Return everything about this figure, for the results file."""
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
    """Round ``value`` to ``digits`` significant digits."""
    return float(f"{value:.{digits}g}")


def human(value: float) -> str:
    """Format a value for people: three significant digits, with separators of thousands."""
    return f"{significant(value, 3):,.0f}" if value >= 100 else f"{significant(value, 3):g}"


HEADINGS = (
    "row", "unit", "ours", "(min – max)", "peer", "(min – max)", "ratio", "floor", "",
    "cores", "p50 / p99 / p99.9 µs", "peer's",
)  # fmt: skip
_LEFT = {0, 1, 8}


def table(figures: Sequence[Figure]) -> str:
    """Format figures as a text table with one line for each."""
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
