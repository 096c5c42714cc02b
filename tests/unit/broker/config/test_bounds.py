"""Numbers that cannot work are refused by name, wherever settings come from."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig, configure, java_settings, own_keys
from rocketmq_py.errors import ConfigError
from rocketmq_py.namesrv.config import NamesrvConfig
from rocketmq_py.store import StoreConfig


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("maxMessageSize", "-1", "maxMessageSize is -1: 1 to 2147483647 is expected"),
        ("maxMessageSize", "0", "maxMessageSize is 0: 1 to 2147483647 is expected"),
        ("maxMessageSize", "3000000000", "maxMessageSize is 3000000000: 1 to 2147483647 is expected"),
        ("serverChannelMaxIdleTimeSeconds", "0", "serverChannelMaxIdleTimeSeconds is 0"),
        ("registerNameServerPeriod", "-30000", "registerNameServerPeriod is -30000: at least 1 is expected"),
        ("diskMaxUsedSpaceRatio", "101", "diskMaxUsedSpaceRatio is 101: 0 to 100 is expected"),
        ("brokerPermission", "8", "brokerPermission is 8: 0 to 7 is expected"),
        ("waitTimeMillsInSendQueue", "-5", "waitTimeMillsInSendQueue is -5: at least 0 is expected"),
        ("metricLoggingExporterIntervalInMills", "999", "is 999: 1000 to 86400000 is expected"),
        ("metricGrpcExporterIntervalInMills", "999", "is 999: 1000 to 86400000 is expected"),
        ("metricGrpcExporterTimeOutInMills", "0", "is 0: 1 to 86400000 is expected"),
        ("metricGrpcExporterTimeOutInMills", "86400001", "is 86400001: 1 to 86400000 is expected"),
        ("metricsExportBatchMaxDataPoints", "0", "is 0: 1 to 86400000 is expected"),
        ("transactionTimeOut", "9223372036854775808", "transactionTimeOut is 9223372036854775808: at least 0"),
    ],
)
def test_a_number_out_of_range_is_refused(key: str, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configure({key: text})
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("metricLoggingExporterIntervalInMills", 1000),
        ("metricGrpcExporterIntervalInMills", 1000),
        ("metricGrpcExporterTimeOutInMills", 1),
        ("metricGrpcExporterTimeOutInMills", 86_400_000),
        ("metricsExportBatchMaxDataPoints", 1),
        ("figuresLogSeconds", 0),
        ("figuresLogSeconds", 86_400),
        ("brokerPermission", 7),
        ("diskMaxUsedSpaceRatio", 100),
    ],
)
def test_the_last_number_in_range_is_accepted(key: str, number: int) -> None:
    config, store = configure({key: str(number)})
    assert (java_settings(config) | java_settings(store))[key] == str(number)


@pytest.mark.parametrize("key", sorted(key for key, kind in own_keys().items() if kind is int))
def test_every_number_has_a_lower_bound_and_the_default_is_in_range(key: str) -> None:
    defaults = java_settings(BrokerConfig()) | java_settings(StoreConfig())
    configure({key: defaults[key]})
    with pytest.raises(ConfigError, match=key):
        configure({key: "-2"})
    with pytest.raises(ConfigError, match=key):
        configure({key: "9" * 4000})


@pytest.mark.parametrize(
    "key", ["scanNotActiveBrokerInterval", "serverChannelMaxIdleTimeSeconds", "waitSecondsForService", "listenPort"]
)
@pytest.mark.parametrize("text", ["-1", "9" * 30])
def test_a_name_server_refuses_them_too(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key):
        NamesrvConfig.checked({key: text})
