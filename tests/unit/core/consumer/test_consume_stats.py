from rocketmq_py.core.consumer.consume_stats import ConsumeStats, Meter


def test_rates_look_back_one_window():
    meter = Meter(0.0, window=60.0)
    for second in range(0, 120, 10):
        meter.add(100, 0.5)
        meter.sample(second + 10.0)
    assert meter.per_second(120.0) == 10.0
    assert meter.mean_ms() == 5.0
    assert meter.recent() == 600


def test_rates_without_time_or_events_are_zero():
    meter = Meter(5.0)
    assert meter.per_second(5.0) == 0.0
    assert meter.mean_ms() == 0.0


def test_status_uses_javas_names():
    stats = ConsumeStats.starting(0.0)
    stats.ok.add(20)
    stats.failed.add(10)
    stats.failed_hour.add(10)
    stats.consumed.add(30, 0.3)
    stats.sample(0.0)
    assert stats.status(10.0) == {
        "pullRT": 0.0, "pullTPS": 0.0, "consumeRT": 10.0, "consumeOKTPS": 2.0, "consumeFailedTPS": 1.0,
        "consumeFailedMsgs": 10,
    }  # fmt: skip


def test_samples_are_taken_of_every_meter():
    stats = ConsumeStats.starting(0.0)
    meters = (stats.pulled, stats.consumed, stats.ok, stats.failed, stats.failed_hour)
    for meter in meters:
        meter.add(60, 0.6)
    stats.sample(10.0)
    for meter in meters:
        meter.add(1200, 1.2)
    stats.sample(70.0)
    stats.sample(80.0)
    assert [meter.recent() for meter in meters] == [1200, 1200, 1200, 1200, 1260]
