import datetime
import time

import pytest

from rocketmq_py.client.client_instance import ClientSettings
from rocketmq_py.client.consumer.lite_pull.options import LitePullOptions
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.consumer.push.settings import PushSettings
from rocketmq_py.core.consumer.flow_control import FlowLimits
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere
from rocketmq_py.presets import CLASSIC_INTERVALS


def test_defaults_are_javas():
    options = PushOptions()
    assert options.limits == FlowLimits(1000, 100, 2000)
    assert (options.consume_threads, options.pull_batch_size, options.consume_batch_size) == (20, 32, 1)
    assert options.consume_from is ConsumeFromWhere.LAST_OFFSET
    assert options.allocation.name == "AVG"
    assert options.max_reconsume_times == -1


def test_keyword_arguments_have_the_names_of_the_fields():
    own = [name for name in PushSettings.__annotations__ if name not in ClientSettings.__annotations__]
    assert own == list(PushOptions.__dataclass_fields__)


@pytest.mark.parametrize(
    ("name", "value"),
    [("consume_threads", 0), ("consume_threads", 1001), ("consume_batch_size", 1025), ("pull_batch_size", 0),
     ("pull_interval", 66), ("pull_threshold_for_queue", 65536), ("pull_threshold_for_topic", 0),
     ("pull_threshold_size_for_topic", -2), ("consume_max_span", 0), ("max_reconsume_times", -2),
     ("suspend_seconds", 31), ("suspend_seconds", 0.001), ("message_model", "CLUSTERING"),
     ("consume_from", "LAST_OFFSET"), ("consume_timestamp", "yesterday"), ("consume_timestamp", 17)],
)  # fmt: skip
def test_an_option_out_of_range_is_named(name, value):
    with pytest.raises(ConfigError, match=name):
        PushOptions(**{name: value})


@pytest.mark.parametrize("name", ["pull_threshold_for_topic", "pull_threshold_size_for_topic", "max_reconsume_times"])
def test_some_limits_may_be_unset(name):
    assert getattr(PushOptions(**{name: -1}), name) == -1


def test_an_orderly_consumer_has_unlimited_retries_and_no_span():
    assert PushOptions(orderly=True).most_reconsume_times == 2**31 - 1
    assert PushOptions(orderly=True, max_reconsume_times=3).most_reconsume_times == 3
    assert PushOptions().most_reconsume_times == 16
    assert PushOptions(orderly=True).limits == FlowLimits(1000, 100, None)


def test_a_start_time_is_a_text_a_datetime_or_half_an_hour_ago():
    local = datetime.datetime(2025, 1, 2, 3, 4, 5).astimezone()
    assert PushOptions(consume_timestamp="20250102030405").start_timestamp_ms() == int(local.timestamp() * 1000)
    assert PushOptions(consume_timestamp=local).start_timestamp_ms() == int(local.timestamp() * 1000)
    before = int((time.time() - 1800) * 1000)
    assert before <= PushOptions().start_timestamp_ms() <= before + 60_000


def test_the_classic_intervals_fit_push_and_lite_pull_consumers():
    push, lite = PushOptions(**CLASSIC_INTERVALS), LitePullOptions(**CLASSIC_INTERVALS)
    assert (push.rebalance_interval, push.pull_delay_after_error) == (10.0, 3.0)
    assert lite.shared().rebalance_interval == 10.0
    assert lite.shared().pull_delay_after_error == 3.0
    assert PushOptions().rebalance_interval == 20.0


@pytest.mark.parametrize(
    ("name", "value"),
    [("rebalance_interval", 0), ("pull_delay_after_error", -1), ("close_timeout", -1), ("pull_from_broker_id", -1),
     ("namespace", "a b")],
)  # fmt: skip
def test_new_options_are_checked(name, value):
    with pytest.raises(ConfigError, match=name):
        PushOptions(**{name: value})
