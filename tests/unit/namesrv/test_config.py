"""Settings and the key-value table: text forms, files, protected settings."""

import asyncio
import json
import threading

import pytest

from rocketmq_py.errors import BrokerError, ConfigError
from rocketmq_py.namesrv import NamesrvConfig
from rocketmq_py.namesrv.config import read_lines
from rocketmq_py.namesrv.java_keys import JAVA_DEFAULTS
from rocketmq_py.namesrv.kv_config import KvConfig
from rocketmq_py.namesrv.settings import NamesrvSettings
from rocketmq_py.store.fs.os_files import OsFileSystem


def test_settings_have_java_s_keys_and_read_back():
    config = NamesrvConfig(order_message_enable=True, listen_port=9999)
    assert "orderMessageEnable=true\n" in config.lines()
    assert NamesrvConfig().updated(read_lines(config.lines().splitlines())) == config


def test_lines_are_read_as_java_properties():
    assert read_lines(["# comment", "! too", "", "a = 1", "b: 2", "c"]) == {"a": "1", "b": "2", "c": ""}


@pytest.mark.parametrize(
    "settings",
    [
        {"listenPort": "x"},
        {"listenPort": "65536"},
        {"scanNotActiveBrokerInterval": "0"},
        {"enableTopicList": "maybe"},
        {"proxyProtocolSources": "localhost"},
    ],
)
def test_a_setting_that_cannot_work_is_refused(settings):
    with pytest.raises(ConfigError, match="name server"):
        NamesrvConfig().updated(settings)


def test_settings_can_be_changed_while_running():
    seen = []
    settings = NamesrvSettings(NamesrvConfig(), seen.append)
    settings.update("enableTopicList=false\nunknownKey=1\n")
    assert not settings.current.enable_topic_list
    assert seen == [settings.current]


@pytest.mark.parametrize(
    "key", ["kvConfigPath", "configStorePath", "rocketmqHome", "tls.server.keyPath", "configBlackList", "listenPort"]
)
def test_protected_settings_cannot_be_changed(key):
    settings = NamesrvSettings(NamesrvConfig(config_black_list="listenPort"))
    with pytest.raises(BrokerError, match="black list") as caught:
        settings.update(f"enableTopicList=false\n{key}=1")
    assert caught.value.code == 16
    assert settings.current.enable_topic_list


def test_changed_settings_are_written_to_their_file(tmp_path):
    path = tmp_path / "namesrv.properties"
    NamesrvSettings(NamesrvConfig(config_store_path=str(path))).update("enableTopicList=false")
    assert read_lines(path.read_text().splitlines())["enableTopicList"] == "false"


def test_values_are_kept_by_namespace():
    kv = KvConfig()
    kv.put("N", "k", "v")
    assert (kv.get("N", "k"), kv.get("N", "x"), kv.get("M", "k")) == ("v", None, None)
    assert kv.namespace("N").table == {"k": "v"}
    assert kv.namespace("M") is None
    kv.delete("N", "k")
    kv.delete("M", "k")
    assert kv.namespace("N").table == {}


def test_the_key_value_file_equals_that_of_java_and_is_reloaded(tmp_path):
    path = tmp_path / "namesrv" / "kvConfig.json"
    kv = KvConfig(path)
    for topic, value in (("T", "broker-a:4"), ("U", "broker-a:8")):
        kv.put("ORDER_TOPIC_CONFIG", topic, value)
        asyncio.run(kv.save())
    assert json.loads(path.read_text()) == {
        "configTable": {"ORDER_TOPIC_CONFIG": {"T": "broker-a:4", "U": "broker-a:8"}}
    }
    assert KvConfig(path).get("ORDER_TOPIC_CONFIG", "U") == "broker-a:8"
    backup = json.loads(path.with_name("kvConfig.json.bak").read_text())
    assert backup == {"configTable": {"ORDER_TOPIC_CONFIG": {"T": "broker-a:4"}}}


class SlowDisk(OsFileSystem):
    """Its writes wait for the test, or fail."""

    def __init__(self):
        super().__init__()
        self.may_write = threading.Event()
        self.is_writing = threading.Event()
        self.written = []
        self.fails = False

    def write(self, path, data):
        assert threading.current_thread() is not threading.main_thread(), "the event loop waits for the disk"
        self.is_writing.set()
        assert self.may_write.wait(60)
        if self.fails:
            raise OSError("the disk is full")
        self.written.append(data)
        super().write(path, data)


async def test_values_are_written_in_a_thread_and_together_with_those_that_waited(tmp_path):
    disk = SlowDisk()
    kv = KvConfig(tmp_path / "kv.json", disk)
    kv.put("N", "a", "1")
    first = asyncio.create_task(kv.save())
    assert await asyncio.to_thread(disk.is_writing.wait, 60)
    kv.put("N", "b", "2")
    second = asyncio.create_task(kv.save())
    kv.delete("N", "a")
    third = asyncio.create_task(kv.save())
    await asyncio.sleep(0)
    assert not first.done()
    disk.may_write.set()
    await asyncio.gather(first, second, third)
    assert disk.written == [
        b'{"configTable":{"N":{"a":"1"}}}', b'{"configTable":{"N":{"a":"1"}}}', b'{"configTable":{"N":{"b":"2"}}}',
    ], "with the backup of the file before"  # fmt: skip
    await kv.save()
    assert len(disk.written) == 3, "nothing changed"


async def test_values_that_could_not_be_written_are_written_by_the_next_save(tmp_path):
    disk = SlowDisk()
    disk.may_write.set()
    kv = KvConfig(tmp_path / "kv.json", disk)
    disk.fails = True
    kv.put("N", "a", "1")
    with pytest.raises(OSError, match="the disk is full"):
        await kv.save()
    assert kv.get("N", "a") == "1"
    disk.fails = False
    await kv.save()
    assert KvConfig(tmp_path / "kv.json").get("N", "a") == "1"
    memory = KvConfig()
    memory.put("N", "a", "1")
    await memory.save()


@pytest.mark.parametrize("content", ["[1", '{"configTable":5}'])
def test_a_broken_file_is_named(tmp_path, content):
    path = tmp_path / "kvConfig.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"kvConfig\.json cannot be understood.*mend it or move it away"):
        KvConfig(path)


def test_an_empty_file_is_an_empty_table(tmp_path):
    path = tmp_path / "kvConfig.json"
    path.write_text("\n")
    assert KvConfig(path).namespace("N") is None


def test_every_key_of_java_is_known_and_defaults_are_java_s():
    config = NamesrvConfig.checked(JAVA_DEFAULTS)
    assert config.ignored.keys() == JAVA_DEFAULTS.keys() - NamesrvConfig.keys()
    assert NamesrvConfig.keys() - JAVA_DEFAULTS.keys() == {
        "metricsExporterType", "metricsPromExporterPort", "metricsPromExporterHost", "metricsLabel", "healthPort",
        "healthHost", "proxyProtocolSources",
    }  # fmt: skip
    assert NamesrvConfig(health_port=0).table() == JAVA_DEFAULTS | {"healthPort": "0"}
    assert NamesrvConfig().table() == JAVA_DEFAULTS


def test_an_unknown_key_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown setting 'listenprt'; did you mean 'listenPort'\?"):
        NamesrvConfig.checked({"listenprt": "1", "orderMessageEnable": "true"})


@pytest.mark.parametrize(
    ("key", "least"),
    [("scanNotActiveBrokerInterval", 1), ("serverChannelMaxIdleTimeSeconds", 1), ("waitSecondsForService", 0)],
)
def test_times_have_a_least_value(key, least):
    NamesrvConfig().updated({key: str(least)})
    with pytest.raises(ConfigError, match=f"{key} is {least - 1}: at least {least} is expected"):
        NamesrvConfig().updated({key: str(least - 1)})


@pytest.mark.parametrize(("port", "valid"), [(-1, False), (0, True), (65535, True), (65536, False)])
def test_ports_have_bounds(port, valid):
    if valid:
        assert NamesrvConfig(listen_port=port).listen_port == port
    else:
        with pytest.raises(ConfigError, match=f"listenPort is {port}: 0 to 65535 is expected"):
            NamesrvConfig(listen_port=port)


def test_the_defaults_are_java_s():
    config = NamesrvConfig()
    assert (config.listen_port, config.bind_address, config.wait_seconds_for_service) == (9876, "0.0.0.0", 45)
    assert (config.scan_not_active_broker_interval, config.server_channel_max_idle_time_seconds) == (5_000, 120)
    flags = (
        config.order_message_enable, config.return_order_topic_config_to_broker, config.enable_all_topic_list,
        config.enable_topic_list, config.support_acting_master, config.delete_topic_with_broker_registration,
        config.notify_min_broker_id_changed, config.need_wait_for_service,
    )  # fmt: skip
    assert flags == (False, True, True, True, False, False, False, False)
