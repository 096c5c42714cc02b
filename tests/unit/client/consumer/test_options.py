import datetime
import time

import pytest

from rocketmq_py.client.client_instance import ClientSettings
from rocketmq_py.client.consumer.lite_pull.options import LitePullOptions
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.client.consumer.pull.options import PullOptions
from rocketmq_py.client.consumer.push.settings import PushSettings
from rocketmq_py.client.consumer.simple.options import SimpleOptions
from rocketmq_py.core.consumer.flow_control import FlowLimits
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import ConsumeFromWhere, MessageModel
from rocketmq_py.presets import CLASSIC_INTERVALS

DEFAULTS = {
    PushOptions: {
        "namespace": None, "filter_hooks": (), "max_decompressed_body": 134217728,
        "max_decompressed_pull": 268435456,
        "decode_body": True, "decompress_body": True, "check_crc": True, "on_damaged": None,
        "message_model": MessageModel.CLUSTERING, "local_offset_dir": None, "rebalance_interval": 20.0,
        "pull_from_broker_id": None, "consume_from": ConsumeFromWhere.LAST_OFFSET, "consume_timestamp": None,
        "pull_threshold_for_queue": 1000, "pull_threshold_size_for_queue": 100, "consume_max_span": 2000,
        "first_pull_delay": 0.5, "pull_delay_after_error": 1.0, "pulls_in_flight": 1, "orderly": False,
        "consume_threads": 20,
        "consume_batch_size": 1, "pull_batch_size": 32, "pull_batch_bytes": 262144, "pull_interval": 0.0,
        "pull_threshold_for_topic": -1, "pull_threshold_size_for_topic": -1, "max_reconsume_times": -1,
        "consume_timeout": 900.0, "stuck_after": 60.0, "suspend_seconds": 1.0, "client_rebalance": True,
        "pop_invisible_time": 60.0, "pop_batch_size": 32, "pop_threshold_for_queue": 96,
        "post_subscription_when_pull": False, "close_timeout": None,
    },
    LitePullOptions: {
        "pull_batch_size": 10, "pull_threshold_for_all": 10000, "auto_commit": True, "auto_commit_interval": 5.0,
        "broker_suspend_time": 20.0, "timeout_when_suspend": 30.0, "metadata_check_interval": 30.0,
    },
    PullOptions: {
        "pull_timeout": 10.0, "broker_suspend_time": 20.0, "timeout_when_suspend": 30.0, "max_reconsume_times": 16,
    },
    SimpleOptions: {
        "consume_from": ConsumeFromWhere.LAST_OFFSET, "invisible_duration": 60.0, "orderly": False, "poll_time": 15.0,
        "pull_delay_after_error": 1.0,
    },
}  # fmt: skip


def test_defaults_are_javas():
    for options, expected in DEFAULTS.items():
        made = options()
        assert {name: getattr(made, name) for name in expected} == expected
    assert PushOptions().limits == FlowLimits(1000, 100, 2000)
    assert PushOptions().pop_limits == FlowLimits(96, 2147483647, None)
    assert PushOptions().allocation.name == "AVG"
    assert set(PushOptions.__dataclass_fields__) == {*DEFAULTS[PushOptions], "allocation"}


def test_the_options_about_bodies_are_the_rules_for_decoding_them():
    rules = PushOptions(decode_body=False, max_decompressed_body=5, max_decompressed_pull=6).body_rules
    assert (rules.read, rules.decompress, rules.check_crc) == (False, True, True)
    assert tuple(rules.limits) == (5, 6)
    rules = PushOptions(decompress_body=False, check_crc=False).body_rules
    assert (rules.read, rules.decompress, rules.check_crc) == (True, False, False)


def test_brokers_assign_the_queues_of_clustering_consumers_that_ask_for_it():
    assert not PushOptions().is_assigned
    assert PushOptions(client_rebalance=False).is_assigned
    assert not PushOptions(client_rebalance=False, message_model=MessageModel.BROADCASTING).is_assigned


def test_keyword_arguments_have_the_names_of_the_fields():
    own = [name for name in PushSettings.__annotations__ if name not in ClientSettings.__annotations__]
    assert own == list(PushOptions.__dataclass_fields__)


RANGES = {
    PushOptions: {
        "consume_threads": (1, 1000), "consume_batch_size": (1, 1024), "pull_batch_size": (1, 1024),
        "pull_batch_bytes": (1, 2147483647), "pull_interval": (0, 65.535), "pull_threshold_for_queue": (1, 65535),
        "pull_threshold_size_for_queue": (1, 1024), "pull_threshold_for_topic": (1, 6553500),
        "pull_threshold_size_for_topic": (1, 102400), "consume_max_span": (1, 65535),
        "max_reconsume_times": (0, 2147483647), "consume_timeout": (0.01, 864000), "stuck_after": (0.01, 864000),
        "suspend_seconds": (0.01, 30), "pop_invisible_time": (5, 300), "pop_batch_size": (1, 32),
        "pop_threshold_for_queue": (1, 65535), "first_pull_delay": (0, 60), "rebalance_interval": (0.01, 3600),
        "pull_delay_after_error": (0, 3600), "max_decompressed_body": (1, 2147483647),
        "max_decompressed_pull": (1, 2**63 - 1), "close_timeout": (0, None), "pull_from_broker_id": (0, None),
    },
    LitePullOptions: {
        "pull_batch_size": (1, 1024), "pull_threshold_for_all": (1, 6553500), "auto_commit_interval": (1, 86400),
        "broker_suspend_time": (0.001, 30), "timeout_when_suspend": (20, 3600),
        "metadata_check_interval": (0.001, 86400),
        "pull_threshold_for_queue": (1, 65535), "rebalance_interval": (0.01, 3600),
    },
    PullOptions: {
        "pull_timeout": (0.0005, 3600), "broker_suspend_time": (0.0005, 30), "timeout_when_suspend": (20, 3600),
        "rebalance_interval": (0.01, 3600),
    },
    SimpleOptions: {"poll_time": (0.1, 60), "invisible_duration": (1, 259200), "pull_delay_after_error": (0, 3600)},
}  # fmt: skip
"""The least and the greatest value of each option (None: any), with the defaults of the others."""


def refusal(options, **given):
    """What a refusal of an option says; None if it is accepted."""
    try:
        options(**given)
    except ConfigError as e:
        return str(e)
    return None


def test_options_at_the_ends_of_their_ranges_are_accepted_and_refused_by_name_beyond():
    wrong = []
    for options, ranges in RANGES.items():
        for name, (low, high) in ranges.items():
            inside, outside = [low], [low - 0.0005]
            if high is not None:
                inside, outside = [low, high], [low - 0.0005, high + 0.0005]
            wrong += [(name, value) for value in inside if refusal(options, **{name: value}) is not None]
            said = [(name, value, refusal(options, **{name: value}) or "") for value in outside]
            wrong += [each for each in said if name not in each[2].replace(" ", "_")]
    assert not wrong


def test_an_option_of_the_wrong_kind_is_refused_by_name():
    kinds = {
        "message_model": "CLUSTERING", "consume_from": "LAST_OFFSET", "consume_timestamp": "yesterday",
        "namespace": "a b", "filter_hooks": [print], "on_damaged": "text",
    }  # fmt: skip
    said = {name: refusal(PushOptions, **{name: value}) for name, value in kinds.items()}
    said["consume_timestamp "] = refusal(PushOptions, consume_timestamp=17)
    assert [name for name, text in said.items() if name.strip().replace("_hooks", " hook") not in (text or "")] == []
    for mode in (ConsumeFromWhere.TIMESTAMP, "LAST_OFFSET"):
        assert "must be FIRST_OFFSET or LAST_OFFSET" in refusal(SimpleOptions, consume_from=mode)
    for options in (PullOptions, LitePullOptions):
        said = refusal(options, broker_suspend_time=5, timeout_when_suspend=4.9)
        assert said.startswith("timeout_when_suspend=4.9 is less than broker_suspend_time=5")
        assert refusal(options, broker_suspend_time=5, timeout_when_suspend=5) is None
        assert refusal(options, broker_suspend_time=3600, timeout_when_suspend=3600) is None
        assert "broker_suspend_time" in refusal(options, broker_suspend_time=3600.001, timeout_when_suspend=3600)
        assert "namespace" in refusal(options, namespace="a b")


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


@pytest.mark.parametrize("options", [PushOptions, LitePullOptions])
def test_pulls_in_flight_are_checked(options):
    assert options(pulls_in_flight="auto").shared().pulls_in_flight == "auto"
    with pytest.raises(ConfigError, match="pulls_in_flight=65 is out of range"):
        options(pulls_in_flight=65)
