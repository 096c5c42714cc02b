from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families as parse

from rocketmq_py.core.metrics.exposition import COUNTER, HISTOGRAM, Family, escaped, labels, number
from rocketmq_py.core.metrics.histogram import Histogram


def test_a_label_value_may_have_any_character():
    odd = 'back\\slash "quoted"\nnew line, ü {}'
    family = Family("a_total", COUNTER, "One \\ line\nor two")
    (found,) = parse(family.head() + family.sample(labels({"topic": odd}), 3))
    (sample,) = found.samples
    assert (sample.name, sample.labels, sample.value) == ("a_total", {"topic": odd}, 3.0)
    assert found.documentation == "One \\ line\nor two"


def test_buckets_are_cumulative_and_bounds_are_inclusive():
    spans = Histogram((1, 10))
    for value, times in ((1, 2), (2, 1), (10, 1), (11, 3)):
        spans.observe(value, times)
    family = Family("t_milliseconds", HISTOGRAM, "Time")
    (found,) = parse(family.head() + "".join(family.buckets(labels({"code": "send"}), spans)))
    values = {(sample.name, sample.labels.get("le")): sample.value for sample in found.samples}
    assert values == {
        ("t_milliseconds_bucket", "1.0"): 2.0,
        ("t_milliseconds_bucket", "10.0"): 4.0,
        ("t_milliseconds_bucket", "+Inf"): 7.0,
        ("t_milliseconds_count", None): 7.0,
        ("t_milliseconds_sum", None): 2.0 + 2.0 + 10.0 + 33.0,
    }
    assert spans.count == 7


def test_numbers_are_floats_as_in_java():
    assert [number(value) for value in (1, 0.5, float("inf"), float("-inf"), float("nan"))] == [
        "1.0", "0.5", "+Inf", "-Inf", "NaN",
    ]  # fmt: skip


def test_each_character_that_ends_a_label_is_escaped():
    assert [escaped(text) for text in ("a", "a\\b", 'a"b', "a\nb")] == ["a", "a\\\\b", 'a\\"b', "a\\nb"]


def test_a_histogram_without_labels():
    spans = Histogram((1,))
    spans.observe(1)
    family = Family("t", HISTOGRAM, "Time")
    assert "".join(family.buckets("", spans)).splitlines() == [
        't_bucket{le="1.0"} 1.0', 't_bucket{le="+Inf"} 1.0', "t_sum{} 1.0", "t_count{} 1.0",
    ]  # fmt: skip
    assert "".join(family.buckets('a="b"', spans)).splitlines()[0] == 't_bucket{a="b",le="1.0"} 1.0'


def test_an_empty_histogram():
    spans = Histogram((1, 2))
    assert (spans.count, spans.total, list(spans.cumulative())) == (0, 0.0, [0, 0, 0])
