"""Settings changed while the broker runs: checked, in force or kept for the next start, written down."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig, configure, java_key, own_keys
from rocketmq_py.broker.config.java_keys import JAVA_DEFAULTS, UNSET
from rocketmq_py.broker.config.live_settings import AT_START, LiveSettings, kept_in
from rocketmq_py.core.java_config import PATH_KEYS, read_properties, split_lines
from rocketmq_py.namesrv import java_keys as namesrv
from rocketmq_py.namesrv.config import NamesrvConfig
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.server import tls
from rocketmq_py.store import StoreConfig
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import pull, send


def update(client: Client, **settings: object) -> Command:
    lines = "".join(f"{key}={value}\n" for key, value in settings.items())
    return client.ask_task(Code.UPDATE_BROKER_CONFIG, body=lines.encode())


def read(client: Client) -> dict[str, str]:
    return read_properties(client.ask(Code.GET_BROKER_CONFIG).body.decode().splitlines())


def version(client: Client) -> int:
    counter = fastjson.loads(client.ask(Code.GET_BROKER_CONFIG).ext["version"])["counter"]
    assert isinstance(counter, int)
    return counter


def kept(running: InProcess) -> dict[str, str]:
    path = kept_in("", running.config.store_root)
    return read_properties(path.read_text().splitlines()) if path.exists() else {}


def test_every_setting_of_java_is_shown(client: Client) -> None:
    told = read(client)
    assert JAVA_DEFAULTS.keys() - UNSET <= told.keys()
    assert not UNSET & told.keys()
    assert told["listenPort"] == "10911"
    assert told["haListenPort"] == "10912"
    assert told["storePathCommitLog"].endswith("/commitlog")


def test_a_change_is_applied_shown_and_saved(running: InProcess, client: Client) -> None:
    before = version(client)
    assert update(client, autoCreateTopicEnable="false", fileReservedTime=48).code == 0
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"body").code == 17
    assert running.services.store.config.file_reserved_time == 48
    told = read(client)
    assert (told["autoCreateTopicEnable"], told["fileReservedTime"]) == ("false", "48")
    assert kept(running) == {"autoCreateTopicEnable": "false", "fileReservedTime": "48"}
    assert version(client) == before + 1


def test_a_change_of_a_start_setting_waits_for_the_next_start(running: InProcess, client: Client) -> None:
    assert update(client, maxIndexNum=100).code == 0
    assert read(client)["maxIndexNum"] == "100"
    assert running.services.store.config.max_index_num == 4000
    assert kept(running) == {"maxIndexNum": "100"}


def test_the_message_size_limit_changes_at_once(client: Client) -> None:
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"x" * 200).code == 0
    update(client, maxMessageSize=100)
    answer = client.ask(Code.SEND_MESSAGE_V2, send(), b"x" * 200)
    assert answer.code == 13
    assert "msg body length limit 100B" in (answer.remark or "")
    update(client, maxMessageSize=40_000)
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"x" * 39_000).code == 0
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"x" * 40_001).code == 13


def test_a_setting_without_effect_is_accepted_and_shown_with_its_default(client: Client) -> None:
    before = read(client)["sendMessageThreadPoolNums"]
    assert before != "7"
    assert update(client, sendMessageThreadPoolNums=7).code == 0
    assert read(client)["sendMessageThreadPoolNums"] == before


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"brokerConfigPath": "/x"}, 16, "Can not update config in black list."),
        ({"rocketmqHome": "/x"}, 16, "Can not update config in black list."),
        ({"storePathRootDir": "/x"}, 16, "Can not update config in black list."),
        ({"storePathCommitLog": "/x"}, 16, "Can not update config in black list."),
        ({"rocketmq.acl.plain.file": "/x"}, 16, "Can not update config in black list."),
        ({"tls.server.keyPath": "/x"}, 16, "Can not update config in black list."),
        ({"broker\\u0043onfigPath": "/x"}, 16, "Can not update config in black list."),
        ({"configBlackList": ""}, 16, "Can not update config in black list."),
        ({"deleteWhen": "05"}, 16, "Can not update config in black list."),
        ({"fileReservedTime": "abc"}, 29, "fileReservedTime is 'abc': a whole number is expected"),
        ({"haSendHeartbeatInterval": "x"}, 29, "haSendHeartbeatInterval is 'x': a whole number is expected"),
        ({"fileReservedTme": "1"}, 29, "unknown setting 'fileReservedTme'; did you mean 'fileReservedTime'?"),
        ({"fileReservedTime": "-5"}, 29, "fileReservedTime is -5: 0 to 2147483647 is expected"),
        ({"listenPort": "70000"}, 29, "listenPort is 70000: 0 to 65535 is expected"),
    ],
)
def test_forbidden_and_invalid_changes_are_refused(
    tmp_path: Path, settings: dict[str, str], code: int, words: str
) -> None:
    with broker(tmp_path, config_black_list="configBlackList;deleteWhen") as running:
        client = running.connect()
        before = read(client)
        answer = update(client, traceOn="false", **settings)
        assert answer.code == code
        assert words in (answer.remark or "")
        assert read(client) == before
        assert kept(running) == {}


def test_an_empty_change_changes_nothing(client: Client) -> None:
    before = version(client)
    assert client.ask_task(Code.UPDATE_BROKER_CONFIG).code == 0
    assert version(client) == before


def test_a_broker_without_read_permission_refuses_pulls_at_once(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    topics = running.services.topics.version.counter
    assert update(client, brokerPermission=2).code == 0
    answer = client.ask(Code.PULL_MESSAGE, pull())
    assert (answer.code, answer.remark) == (16, "the broker[127.0.0.1] pulling message is forbidden")
    assert running.services.topics.version.counter == topics + 1
    assert update(client, brokerPermission=6).code == 0
    assert client.ask(Code.PULL_MESSAGE, pull()).code == 0


def test_a_changed_permission_registers_all_topics(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    registered: list[TopicConfig] = []
    monkeypatch.setattr(running.services.registration, "topics_changed", registered.extend)
    update(client, brokerPermission=4)
    assert len(registered) == len(running.services.topics.table)


def test_a_change_goes_into_the_file_the_broker_was_started_with(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("# mine\nbrokerName=b\nfileReservedTime = 72\n")
    with broker(tmp_path / "store", broker_config_path=str(path)) as running:
        client = running.connect()
        assert update(client, fileReservedTime=24).code == 0
        assert read(client)["brokerConfigPath"] == str(path)
    assert path.read_text() == "# mine\nbrokerName=b\nfileReservedTime=24\n"


def test_a_file_that_cannot_be_written_does_not_undo_the_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    broker_config, store_config = BrokerConfig(broker_config_path=str(blocked / "below")), StoreConfig()
    settings = LiveSettings(broker_config, store_config, 10911, lambda: 0)
    settings.update("fileReservedTime=5\n")
    assert store_config.file_reserved_time == 5
    assert "the changed settings hold until the broker ends" in caplog.text


@pytest.mark.parametrize(
    "end", ["\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\\n", "\\r", "\\u0085"]
)
def test_a_value_is_one_setting_at_the_next_start_too(running: InProcess, client: Client, end: str) -> None:
    assert update(client, regionId=f"a{end}brokerConfigPath=/x").code == 0
    path = kept_in("", running.config.store_root)
    assert len(path.read_text().splitlines()) == 1
    [(key, value)] = read_properties(split_lines(path.read_text())).items()
    assert key == "regionId"
    assert value.startswith("a")
    assert value.endswith("brokerConfigPath=/x")
    told = client.ask(Code.GET_BROKER_CONFIG).body.decode().splitlines()
    assert not [line for line in told if line.startswith("brokerConfigPath=/x")]


def test_settings_that_are_not_utf_8_are_refused_without_a_traceback(client: Client) -> None:
    assert client.ask_task(Code.UPDATE_BROKER_CONFIG, body=b"regionId=a\xff\xfe\\ud800").code == 0
    assert client.ask(Code.GET_BROKER_CONFIG).code == 0
    assert client.ask_task(Code.UPDATE_BROKER_CONFIG, body=b"regionId\\ ").code == 29


def test_every_key_of_a_path_is_listed_as_one() -> None:
    """A new key with such a name joins ``PATH_KEYS`` or this list."""
    keys = {*JAVA_DEFAULTS, *own_keys(), *namesrv.JAVA_DEFAULTS, *NamesrvConfig.keys(), *tls._KEYS}
    named = {key for key in keys if re.search(r"[pP]ath|Dir$|[hH]ome$|\.file$|abortFile|Checkpoint$", key)}
    assert named - PATH_KEYS == {"useSeparateStorePathForRocksdbCQ"}


def test_every_start_setting_exists() -> None:
    fields = {*BrokerConfig.__struct_fields__, *StoreConfig.__struct_fields__}
    assert fields >= AT_START
    assert {java_key(name) for name in AT_START} <= own_keys().keys()


def test_pending_changes_accumulate() -> None:
    settings = LiveSettings(BrokerConfig(store_path_root_dir="/nowhere/at/all"), StoreConfig(), 10911, lambda: 0)
    settings.update("brokerName=other\n")
    settings.update("traceOn=false\nfileReservedTime=5\n")
    told = settings.table()
    assert (told["brokerName"], told["traceOn"], told["fileReservedTime"]) == ("other", "false", "5")


def test_configurations_are_not_shared_between_brokers() -> None:
    first, _ = configure({"haMaxTimeSlaveNotCatchup": "1"})
    second, _ = configure({})
    assert (first.ignored, second.ignored) == ({"haMaxTimeSlaveNotCatchup": "1"}, {})


def test_group_creation_can_be_enabled(tmp_path: Path) -> None:
    with broker(tmp_path, auto_create_subscription_group=False) as running:
        client = running.connect()
        client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
        assert client.ask(Code.PULL_MESSAGE, pull()).code == 26
        update(client, autoCreateSubscriptionGroup="true")
        assert client.ask(Code.PULL_MESSAGE, pull()).code == 0
        assert running.services.groups.table["g"] == SubscriptionGroupConfig(group_name="g")


def test_a_file_in_latin_1_is_changed_in_latin_1(running: InProcess, client: Client) -> None:
    path = kept_in("", running.config.store_root)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = "# Gr\u00fc\u00dfe\nfileReservedTime=72\n".encode("latin-1")
    path.write_bytes(before)
    assert update(client, fileReservedTime=48, metricsLabel="zone:\u20ac").code == 0
    after = before.replace(b"72", b"48") + b"metricsLabel=zone:\\u20ac\n"
    assert path.read_bytes() == after
