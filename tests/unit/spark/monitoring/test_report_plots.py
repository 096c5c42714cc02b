"""Plots as they are drawn: what lies where, so that a shape, its label and its line of the grid agree.

The plotting area of the 860 by 280 picture is from 72 to 844 and, upwards, from 246 to 56.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from rocketmq_py.spark.monitoring.report_plots import bar_plot, line_plot, short, stacked_plot, ticks

NOON = 1_772_366_400.0
Places = list[tuple[float, float]]


def drawn(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def texts(svg: ET.Element) -> dict[str, tuple[float, float, str | None]]:
    """Texts but the title, with their places and anchors."""
    found = [one for one in svg.iter("{http://www.w3.org/2000/svg}text") if one.get("class") is None]
    return {one.text or "": (float(one.get("x", "")), float(one.get("y", "")), one.get("text-anchor")) for one in found}


def places(svg: ET.Element, kind: str) -> list[Places]:
    """The corners of each shape of a kind."""
    shapes = [one.get("points", "").split() for one in svg.iter(f"{{http://www.w3.org/2000/svg}}{kind}")]
    return [[(float(x), float(y)) for x, y in (corner.split(",") for corner in shape)] for shape in shapes]


def attributes(svg: ET.Element, kind: str, *names: str) -> list[tuple[str | None, ...]]:
    return [tuple(map(one.get, names)) for one in svg.iter(f"{{http://www.w3.org/2000/svg}}{kind}")]


def test_lines_fill_the_plot_and_their_labels_are_beside_them() -> None:
    svg = drawn(
        line_plot(
            "Rows <&>", "per second", {"in": [(NOON, 0.0), (NOON + 40, 100.0)], "out": [(NOON + 20, 50.0)], "no": []}
        )
    )
    assert (svg.get("viewBox"), svg.get("aria-label")) == ("0 0 860 280", "Rows <&> (per second)")
    assert [(one.text, one.get("x")) for one in svg.iter() if one.get("class")] == [("Rows <&> (per second)", "72")]
    assert places(svg, "polyline") == [[(72.0, 246.0), (844.0, 56.0)]]
    assert attributes(svg, "circle", "cx", "cy", "fill") == [("458.0", "151.0", "#ea580c")]
    assert attributes(svg, "polyline", "stroke") == [("#2563eb",)]
    labels = texts(svg)
    grid = {"0": 246.0, "20": 208.0, "40": 170.0, "60": 132.0, "80": 94.0, "100": 56.0}
    assert {value: labels[value] for value in grid} == {value: (64.0, y + 4, "end") for value, y in grid.items()}
    assert attributes(svg, "path", "d") == [(f"M72 {y:.1f}H844",) for y in grid.values()]
    times = ("12:00:00", "12:00:10", "12:00:20", "12:00:30", "12:00:40")
    anchors = ("start", "middle", "middle", "middle", "end")
    expected = {time: (72.0 + 193 * i, 264.0, anchors[i]) for i, time in enumerate(times)}
    assert {time: labels[time] for time in times} == expected
    assert attributes(svg, "rect", "x", "y", "fill") == [("72", "29", "#2563eb"), ("121", "29", "#ea580c")]
    assert (labels["in"], labels["out"]) == ((87.0, 38.0, "start"), (136.0, 38.0, "start"))
    assert set(labels) == {*grid, *times, "in", "out"}


def test_times_are_shown_as_the_span_requires() -> None:
    def shown(span: float) -> list[str]:
        labels = texts(drawn(line_plot("t", "", {"a": [(NOON, 1.0), (NOON + span, 1.0)]})))
        return [text for text, (_, y, _) in labels.items() if y == 264.0]

    assert shown(3599)[-1] == "12:59:59"
    assert shown(3600) == ["12:00", "12:15", "12:30", "12:45", "13:00"]
    assert shown(86_399)[-1] == "11:59"
    assert shown(86_400) == ["03-01 12:00", "03-01 18:00", "03-02 00:00", "03-02 06:00", "03-02 12:00"]
    assert shown(0) == ["12:00:00"]


def test_layers_lie_on_each_other() -> None:
    svg = drawn(stacked_plot("t", "ms", [NOON, NOON + 10], {"a": [10.0, 20.0], "b": [30.0, 80.0]}))
    low, high = places(svg, "polygon")
    assert low == [(72.0, 246.0), (844.0, 246.0), (844.0, 208.0), (72.0, 227.0)]
    assert high == [(72.0, 227.0), (844.0, 208.0), (844.0, 56.0), (72.0, 170.0)]
    assert attributes(svg, "polygon", "fill") == [("#2563eb",), ("#ea580c",)]
    assert {"a", "b", "0", "100", "12:00:00", "12:00:10"} <= set(texts(svg))


def test_a_single_time_is_a_bar() -> None:
    svg = drawn(stacked_plot("t", "ms", [NOON], {"a": [100.0]}))
    assert places(svg, "polygon") == [[(265.0, 246.0), (651.0, 246.0), (651.0, 56.0), (265.0, 56.0)]]
    assert texts(svg)["12:00:00"] == (72.0, 264.0, "start")


def test_many_layers_repeat_their_colours() -> None:
    svg = drawn(stacked_plot("t", "ms", [1.0, 2.0], {str(i) * 9: [1.0, 1.0] for i in range(9)}))
    colours = [fill for (fill,) in attributes(svg, "polygon", "fill")]
    assert colours[8] == colours[0]
    assert len(set(colours)) == 8


def test_layers_of_many_times_are_thinned() -> None:
    times = [float(i) for i in range(3000)]
    svg = drawn(stacked_plot("t", "ms", times, {"a": times}))
    (corners,) = places(svg, "polygon")
    assert len(corners) == 2 * 1200
    assert corners[0] == (72.0, 246.0)


def test_few_points_are_all_drawn() -> None:
    for number, most in ((1200, 1200), (1201, 1200)):
        svg = drawn(line_plot("t", "u", {"a": [(float(i), float(i)) for i in range(number)]}))
        assert len(places(svg, "polyline")[0]) == most
        assert places(svg, "polyline")[0][-1][0] == 844.0, "the last one is there"


def test_bars_have_their_names_below_them() -> None:
    svg = drawn(bar_plot("t", "u", {"one": 80.0, "<two>": 40.0}, ("even", 60.0)))
    first, second = attributes(svg, "rect", "x", "y", "width", "height")
    assert first == ("118.3", "56.0", "293.4", "190.0")
    assert second == ("504.3", "151.0", "293.4", "95.0")
    assert [one.text for one in svg.iter() if one.tag.endswith("title")] == ["one: 80", "<two>: 40"]
    labels = texts(svg)
    assert (labels["one"], labels["<two>"]) == ((265.0, 264.0, "middle"), (651.0, 264.0, "middle"))
    assert attributes(svg, "path", "d", "stroke-dasharray")[-1] == ("M72 103.5H844", "6 4")
    assert labels["even"] == (844.0, 98.5, "end")
    assert set(labels) == {"0", "20", "40", "60", "80", "one", "<two>", "even"}, "no times"


def test_names_that_do_not_fit_are_numbers_and_many_bars_have_none() -> None:
    def below(bars: int, length: int) -> list[str]:
        names = {f"{i:0{length}d}"[-length:] + "x": 100.0 for i in range(bars)}
        labels = texts(drawn(bar_plot("t", "u", names)))
        return [text for text, (_, y, _) in labels.items() if y == 264.0]

    assert below(4, 23)[0].endswith("0x"), "24 characters of 8 pixels in 193"
    assert below(4, 24) == ["1", "2", "3", "4"]
    assert len(below(55, 9)) == 55, "14.04 pixels each"
    assert below(56, 9) == []


def test_a_mark_above_all_bars_is_in_the_picture() -> None:
    svg = drawn(bar_plot("t", "u", {"a": 10.0}, ("most", 100.0)))
    assert attributes(svg, "path", "d")[-1] == ("M72 56.0H844",)
    assert "100" in texts(svg)


@pytest.mark.parametrize(
    ("top", "marks"),
    [
        (-1, [0, 1]), (0.1, [0, 0.02, 0.04, 0.06, 0.08, 0.1]), (10, [0, 2, 4, 6, 8, 10]),
        (12, [0, 2.5, 5, 7.5, 10, 12.5]),
        (26, [0, 10, 20, 30]), (5, [0, 1, 2, 3, 4, 5]),
    ],
)  # fmt: skip
def test_axes_reach_the_highest_value_with_round_numbers(top: float, marks: list[float]) -> None:
    assert ticks(top) == pytest.approx(marks)


def test_labels_change_their_unit_at_a_thousand() -> None:
    values = (0, 999, 1000, -2000, 999_999, 1e6, 1e9)
    assert [short(value) for value in values] == ["0", "999", "1k", "-2k", "1M", "1M", "1G"]


def test_a_plot_without_data_says_so_in_the_middle() -> None:
    for svg in (
        line_plot("t", "u", {"a": []}),
        stacked_plot("t", "u", [1.0], {}),
        stacked_plot("t", "u", [], {"a": []}),
    ):
        assert texts(drawn(svg)) == {"no data": (430.0, 140.0, "middle")}
        assert drawn(svg).get("aria-label") == "t"
