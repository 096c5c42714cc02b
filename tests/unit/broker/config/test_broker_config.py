"""A broker.conf of Apache RocketMQ becomes our settings, or is refused with the nearest thing that would do."""

from __future__ import annotations

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig, configure, java_key, java_settings, own_keys
from rocketmq_py.broker.config.java_keys import JAVA_DEFAULTS
from rocketmq_py.core.java_config import read_properties
from rocketmq_py.errors import ConfigError
from rocketmq_py.store import StoreConfig

OURS = {
    "haAllowedSlaves",
    "healthHost",
    "healthPort",
    "figuresLogSeconds",
    "grpcServerPort",
    "proxyProtocolSources",
    "metricsQueueLevel",
    "enableTopicMessageTypeCheck",
    "acceptLoss",
    "maxOpenQueueFiles",
    "rebuildBytesBeforeStart",
    "scrubBytesPerSecond",
    "slaveKeepLargerOffset",
    "slaveSyncInterval",
}
"""Keys a Java broker has not."""

STOCK = """
# licence and so on
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""


def test_the_broker_conf_of_the_distribution_works_unchanged() -> None:
    broker, store = configure(STOCK.splitlines())
    assert broker == BrokerConfig()
    assert store == StoreConfig(file_reserved_time=48)


def test_keys_of_broker_and_store_have_values_of_all_types() -> None:
    broker, store = configure(
        {"brokerIP1": "10.1.2.3", "listenPort": "0", "autoCreateTopicEnable": "False", "namesrvAddr": "a:1;b:2",
         "mappedFileSizeCommitLog": "1048576", "sendMessageThreadPoolNums": "16"},
        store_path_root_dir="/data", file_reserved_time=7,
    )  # fmt: skip
    assert (broker.broker_ip1, broker.listen_port, broker.auto_create_topic_enable) == ("10.1.2.3", 0, False)
    assert broker.namesrv_addresses == ("a:1", "b:2")
    assert str(broker.store_root) == "/data"
    assert (store.mapped_file_size_commit_log, store.file_reserved_time) == (1048576, 7)


def test_a_master_has_broker_id_zero() -> None:
    assert BrokerConfig(broker_id=3).broker_id == 0
    assert BrokerConfig(broker_role="SLAVE", broker_id=3).broker_id == 3


def test_a_broker_uses_only_broker_keys() -> None:
    assert BrokerConfig.from_properties(["brokerName=b"], listen_port=1).listen_port == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"brokerNmae": "b"}, "unknown setting 'brokerNmae'; did you mean 'brokerName'?"),
        ({"brokerip1": "b"}, "did you mean 'brokerIP1'?"),
        ({"completelyElse!": "b"}, "unknown setting 'completelyElse!'$"),
        ({"listenPort": "many"}, "listenPort is 'many': a whole number is expected"),
        ({"autoCreateTopicEnable": "perhaps"}, "autoCreateTopicEnable is 'perhaps': true or false is expected"),
        ({"listenPort": "70000"}, "listenPort is 70000: 0 to 65535 is expected"),
        ({"brokerRole": "MASTER"}, "brokerRole is 'MASTER': ASYNC_MASTER, SYNC_MASTER, SLAVE are there"),
        ({"brokerRole": "SLAVE"}, "brokerId is 0: a SLAVE needs one of its own, 1 or more"),
        ({"brokerRole": "SLAVE", "brokerId": "-1"}, "brokerId is -1"),
        ({"haListenPort": "65536"}, "haListenPort is 65536: 0 to 65535 is expected"),
        ({"listenPort": "65536"}, "^listenPort is 65536: 0 to 65535 is expected"),
        ({"listenPort": "-1"}, "^listenPort is -1: at least 0 is expected"),
        ({"inSyncReplicas": "0"}, "inSyncReplicas is 0: at least 1 is expected"),
        ({"metricsLabel": "x"}, "metricsLabel is"),
        ({"transactionCheckInterval": "0"}, "transactionCheckInterval is 0: at least 1 is expected"),
        ({"defaultTopicQueueNums": "-1"}, "defaultTopicQueueNums is -1: 0 to"),
        ({"reviveQueueNum": "0"}, "reviveQueueNum is 0: 1 to"),
        ({"metricsExporterType": "OTLP_GRPC"}, "metricsGrpcExporterTarget"),
        ({"haMasterAddress": "nowhere"}, "nowhere"),
        ({"brokerName": "no name!"}, "brokerName is 'no name!'"),
        ({"namesrvAddr": "nowhere"}, "'nowhere' is not an address: host:port is expected"),
        ({"flushDiskType": "NEVER"}, "flushDiskType is 'NEVER'"),
        ({"proxyProtocolSources": "10.0.0.7,balancer"}, "proxyProtocolSources contains 'balancer'"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        configure(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"listenPort": "0"}, {"listenPort": "65535"}, {"haListenPort": "0"}, {"haListenPort": "65535"},
        {"transactionCheckInterval": "1"}, {"defaultTopicQueueNums": "0"}, {"reviveQueueNum": "1"},
        {"metricsExporterType": "OTLP_GRPC", "metricsGrpcExporterTarget": "127.0.0.1:4317"},
    ],
)  # fmt: skip
def test_settings_at_their_bounds_are_accepted(settings: dict[str, str]) -> None:
    configure(settings)


def test_a_malformed_override_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'listen_prot'; did you mean 'listen_port'"):
        configure({}, listen_prot=1)


def test_a_line_without_a_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match="line 2: 'brokerName' is not a setting: key=value is expected"):
        read_properties(["# comment", "brokerName"])


def test_written_settings_can_be_read() -> None:
    broker, store = BrokerConfig(broker_ip1="10.0.0.1", trace_on=False), StoreConfig(file_reserved_time=3)
    assert configure(java_settings(broker) | java_settings(store)) == (broker, store)


def test_every_key_of_java_is_known_and_has_an_effect_or_none() -> None:
    broker, store = configure(JAVA_DEFAULTS)
    assert broker.ignored.keys() == JAVA_DEFAULTS.keys() - own_keys().keys()
    assert java_settings(broker).keys() | java_settings(store).keys() == own_keys().keys()


def test_our_defaults_are_those_of_java() -> None:
    ours = java_settings(BrokerConfig()) | java_settings(StoreConfig())
    places = {"brokerIP1", "haListenPort", "storePathRootDir"}
    different = {key: ours[key] for key, theirs in JAVA_DEFAULTS.items() if key in ours and ours[key] != theirs}
    assert different.keys() == places


def test_all_errors_are_reported_at_once() -> None:
    settings = {"brokerNmae": "b", "listenPort": "x", "haListenPort": "y", "traceOn": "true"}
    with pytest.raises(ConfigError) as caught:
        configure(settings)
    words = str(caught.value)
    assert words.count(";") == 3
    for part in ("did you mean 'brokerName'?", "listenPort is 'x'", "haListenPort is 'y'"):
        assert part in words


def test_keys_without_effect_are_listed() -> None:
    broker, _ = configure(["haMaxTimeSlaveNotCatchup=1", "timerRocksDBRollMaxTps=10"])
    assert broker.ignored == {"haMaxTimeSlaveNotCatchup": "1", "timerRocksDBRollMaxTps": "10"}


@pytest.mark.parametrize("field", BrokerConfig.__struct_fields__ + StoreConfig.__struct_fields__)
def test_every_own_key_is_listed_as_such(field: str) -> None:
    assert field == "ignored" or java_key(field) in JAVA_DEFAULTS or java_key(field) in OURS


def test_settings_that_java_lacks_have_their_documented_defaults() -> None:
    ours = java_settings(BrokerConfig()) | java_settings(StoreConfig())
    assert {key: ours[key] for key in OURS & ours.keys()} == {
        "acceptLoss": "false", "enableTopicMessageTypeCheck": "false", "haAllowedSlaves": "",
        "maxOpenQueueFiles": "512", "rebuildBytesBeforeStart": "1073741824", "scrubBytesPerSecond": "0",
        "slaveKeepLargerOffset": "false", "slaveSyncInterval": "60000",
        "healthHost": "", "healthPort": "-1", "grpcServerPort": "-1", "metricsQueueLevel": "false",
        "figuresLogSeconds": "0", "proxyProtocolSources": "",
    }  # fmt: skip
