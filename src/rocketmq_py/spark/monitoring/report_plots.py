"""Draw plots as SVG texts: lines over time, stacked areas, bars. No IO."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from typing import TypeVar

_T = TypeVar("_T")
Point = tuple[float, float]
Lines = Mapping[str, Sequence[Point]]

COLOURS = ("#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626", "#0891b2", "#ca8a04", "#64748b")
_WIDTH, _HEIGHT = 860, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 16, 56, 34
_TICKS = 5
_MOST_POINTS = 1200
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


class _Frame:
    """The drawing area of a plot, which converts values to pixels. The vertical axis starts at 0.

    :param xs: all values of the horizontal axis.
    :param top: the highest value of the vertical axis.
    """

    def __init__(self, xs: Sequence[float], top: float) -> None:
        self.low, self.high = min(xs), max(xs)
        self.ticks = ticks(top)

    def x(self, value: float) -> float:
        span = (self.high - self.low) or 1.0
        return _LEFT + (value - self.low) / span * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value / self.ticks[-1] * (_HEIGHT - _TOP - _BOTTOM)


def ticks(top: float) -> list[float]:
    """Return equally spaced round numbers from 0 up to at least ``top``, as labels of an axis."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in _STEPS if factor * power >= rough * (1 - 1e-9))
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def short(value: float) -> str:
    """Format a number for an axis in three digits: ``1.2M``, ``30k``, ``0.25``."""
    value = float(f"{value:.3g}")  # rounded first: 999,999 is 1M, not 1e+03k
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def line_plot(title: str, unit: str, lines: Lines, shown: Callable[[float], str] = short) -> str:
    """Draw lines over time; a line with a single point becomes a dot.

    :param lines: by name, pairs of time (seconds since 1970) and value.
    :param shown: formats the labels of the vertical axis.
    """
    thin = {name: _thinned(points) for name, points in lines.items() if points}
    if not thin:
        return _empty(title)
    frame = _Frame([x for points in thin.values() for x, _ in points], max(y for p in thin.values() for _, y in p))
    return _plot(title, unit, frame, list(thin), [_line(frame, p, c) for p, c in _coloured(thin.values())], shown)


def stacked_plot(title: str, unit: str, xs: Sequence[float], layers: Mapping[str, Sequence[float]]) -> str:
    """Draw stacked areas over time.

    :param xs: times in seconds since 1970.
    :param layers: by name, a value for each time.
    """
    if not xs or not layers:
        return _empty(title)
    picked = _picked(len(xs))
    below = [0.0] * len(picked)
    areas: list[tuple[list[Point], list[Point]]] = []
    for values in layers.values():
        above = [low + values[i] for low, i in zip(below, picked, strict=True)]
        places = [xs[i] for i in picked]
        areas.append((list(zip(places, below, strict=True)), list(zip(places, above, strict=True))))
        below = above
    frame = _Frame([xs[i] for i in picked], max(below))
    shapes = [_area(frame, low, high, colour) for (low, high), colour in _coloured(areas)]
    return _plot(title, unit, frame, list(layers), shapes, short)


def bar_plot(title: str, unit: str, bars: Mapping[str, float], mark: tuple[str, float] | None = None) -> str:
    """Draw bars side by side; bars are numbered from 1 if their names do not fit.

    :param bars: heights by name.
    :param mark: name and height of a dashed horizontal line; None for no line.
    """
    if not bars:
        return _empty(title)
    frame = _Frame([0.0, float(len(bars))], max([*bars.values(), mark[1] if mark else 0.0]))
    width, longest = frame.x(1) - frame.x(0), max(map(len, bars))
    shapes = []
    for number, (name, value) in enumerate(bars.items()):
        x, y = frame.x(number) + width * 0.12, frame.y(value)
        shapes.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width * 0.76:.1f}" height="{frame.y(0) - y:.1f}"'
            f' fill="{COLOURS[0]}"><title>{escape(name)}: {value:,.0f}</title></rect>'
        )
        if width > 14:
            label = name if longest * 8 < width else str(number + 1)
            shapes.append(_text(frame.x(number + 0.5), _HEIGHT - _BOTTOM + 18, label, "middle"))
    if mark:
        y = frame.y(mark[1])
        shapes.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="{COLOURS[1]}" stroke-dasharray="6 4"/>')
        shapes.append(_text(_WIDTH - _RIGHT, y - 5, mark[0], "end"))
    return _plot(title, unit, frame, [], shapes, short, times=False)


def _coloured(things: Iterable[_T]) -> list[tuple[_T, str]]:
    return [(thing, COLOURS[i % len(COLOURS)]) for i, thing in enumerate(things)]


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Reduce the points to about one per pixel: of points that share a pixel, the highest is kept, to show peaks."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    bounds = [i * len(points) // _MOST_POINTS for i in range(_MOST_POINTS + 1)]
    return [max(points[a:b], key=lambda point: point[1]) for a, b in pairwise(bounds)]


def _picked(number: int) -> list[int]:
    most = min(number, _MOST_POINTS)
    return [i * number // most for i in range(most)]


def _line(frame: _Frame, points: Sequence[Point], colour: str) -> str:
    if len(points) == 1:
        x, y = points[0]
        return f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="3" fill="{colour}"/>'
    places = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"/>'


def _area(frame: _Frame, low: Sequence[Point], high: Sequence[Point], colour: str) -> str:
    if len(low) == 1:  # a single time has no width: draw a bar
        low, high = [(frame.low - 0.5, low[0][1]), (frame.high + 0.5, low[0][1])], [
            (frame.low - 0.5, high[0][1]), (frame.high + 0.5, high[0][1]),
        ]  # fmt: skip
        frame = _Frame([frame.low - 1, frame.high + 1], frame.ticks[-1])
    places = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in [*low, *reversed(high)])
    return f'<polygon points="{places}" fill="{colour}" fill-opacity="0.75"/>'


def _plot(
    title: str, unit: str, frame: _Frame, names: Sequence[str], shapes: Sequence[str], shown: Callable[[float], str],
    *, times: bool = True,
) -> str:  # fmt: skip
    parts = [_head(title, unit), *_grid(frame, shown), *shapes, *_legend(names)]
    return "".join([*parts, *(_times(frame) if times else []), "</svg>"])


def _head(title: str, unit: str) -> str:
    label = escape(f"{title} ({unit})" if unit else title)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}" xmlns="http://www.w3.org/2000/svg">'
        f'<text x="{_LEFT}" y="18" class="title">{label}</text>'
    )


def _grid(frame: _Frame, shown: Callable[[float], str]) -> list[str]:
    parts = []
    for value in frame.ticks:
        y = frame.y(value)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#94a3b8" stroke-opacity="0.35"/>')
        parts.append(_text(_LEFT - 8, y + 4, shown(value), "end"))
    return parts


def _legend(names: Sequence[str]) -> list[str]:
    """Draw the legend, a line of coloured squares and names below the title."""
    parts: list[str] = []
    x = float(_LEFT)
    for name, colour in _coloured(names):
        parts.append(f'<rect x="{x:.0f}" y="29" width="10" height="10" rx="2" fill="{colour}"/>')
        parts.append(_text(x + 15, 38, name, "start"))
        x += 7.5 * len(name) + 34
    return parts


def _times(frame: _Frame) -> list[str]:
    """Draw five times in UTC along the horizontal axis, with a format that suits the time span."""
    span = frame.high - frame.low
    form = "%H:%M:%S" if span < 3600 else "%H:%M" if span < 86_400 else "%m-%d %H:%M"
    places = [frame.low + span * i / 4 for i in range(5)] if span else [frame.low]
    anchors = ["start", "middle", "middle", "middle", "end"]
    return [
        _text(frame.x(at), _HEIGHT - _BOTTOM + 18, f"{datetime.fromtimestamp(at, UTC):{form}}", anchor)
        for at, anchor in zip(places, anchors, strict=False)
    ]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _empty(title: str) -> str:
    words = _text(_WIDTH / 2, _HEIGHT / 2, "no data", "middle")
    return f"{_head(title, '')}{words}</svg>"
