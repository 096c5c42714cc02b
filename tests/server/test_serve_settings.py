"""Settings an administrator changes outlive a restart, in the file they belong in; confs of Apache RocketMQ serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.core.java_config import read_properties
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.server.rawpeer import RawPeer
from tests.server.test_serve import Served, serve

CONF = """
# written by java.util.Properties
brokerClusterName=TestCluster
haMaxTimeSlaveNotCatchup=1
namesrvAddr=
deleteWhen=04
sendMessageThreadPoolNums=16
mappedFileSizeCommitLog=1048576
messageDelayLevel=1s \\
    5s 10s
"""


def change(address: str, **settings: object) -> None:
    body = "".join(f"{key}={value}\n" for key, value in settings.items()).encode()
    with RawPeer(address) as peer:
        answer = peer.ask(Code.UPDATE_BROKER_CONFIG, body=body)
    assert answer.code == 0, answer.remark


def told(address: str, code: Code = Code.GET_BROKER_CONFIG) -> dict[str, str]:
    with RawPeer(address) as peer:
        return read_properties(peer.ask(code).body.decode().splitlines())


def test_a_change_is_kept_in_the_store(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        change(served.addresses["broker"], fileReservedTime=24, maxMessageSize=1000)
        served.stop()
    with serve(tmp_path) as served:
        settings = told(served.addresses["broker"])
        assert (settings["fileReservedTime"], settings["maxMessageSize"]) == ("24", "1000")
        served.stop()
    with serve(tmp_path, "--set", "fileReservedTime=7") as served:
        assert told(served.addresses["broker"])["fileReservedTime"] == "7"


def test_a_change_is_kept_in_the_file_the_broker_was_started_with(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(CONF)
    with serve(tmp_path / "store", "-c", conf) as served:
        change(served.addresses["broker"], deleteWhen="05")
        settings = told(served.addresses["broker"])
        assert (settings["brokerClusterName"], settings["messageDelayLevel"]) == ("TestCluster", "1s 5s 10s")
        assert settings["sendMessageThreadPoolNums"] == "2"  # as Java's default: it has no effect
        _, said = served.stop()
    assert conf.read_text() == CONF.replace("deleteWhen=04", "deleteWhen=05")
    no_effect = [line for line in said.splitlines() if "no effect here" in line]
    assert len(no_effect) == 1
    assert "haMaxTimeSlaveNotCatchup=1, sendMessageThreadPoolNums=16" in no_effect[0]


def test_an_invalid_conf_lists_all_errors(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("messageStorePlugIn=x.Y\nfileReservedTime=x\n")
    with serve(tmp_path / "store", "-c", conf, "--set", "brokerNmae=b") as served:
        assert served.line == ""
        status, said = served.stop()
    assert status == 2
    assert "unknown setting 'brokerNmae'; did you mean 'brokerName'?" in said
    assert "fileReservedTime is 'x': a whole number is expected" in said
    assert "messageStorePlugIn is 'x.Y': this broker has no store plug-ins" in said


def test_a_namesrv_conf_works_unchanged(tmp_path: Path) -> None:
    conf = tmp_path / "namesrv.conf"
    kv = tmp_path / "kv.json"
    text = (
        f"# mine\nserverWorkerThreads=8\ncontrollerDLegerGroup=g\nold=1\nkvConfigPath={kv}\norderMessageEnable=true\n"
    )
    conf.write_text(text)
    with Served("namesrv", "--port", 0, "-c", conf) as served:
        address = served.addresses["namesrv"]
        settings = told(address, Code.GET_NAMESRV_CONFIG)
        assert (settings["serverWorkerThreads"], settings["orderMessageEnable"]) == ("8", "true")
        with RawPeer(address) as peer:
            assert peer.ask(Code.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=false\nnobodyKnows=1\n").code == 0
        _, said = served.stop()
    assert "that have no effect here: controllerDLegerGroup=g, serverWorkerThreads=8" in said
    assert "settings that no RocketMQ server has, without effect: old" in said
    assert conf.read_text() == text.replace("orderMessageEnable=true", "orderMessageEnable=false")


@pytest.mark.parametrize(
    ("line", "words"),
    [("enableControllerInNamesrv=true", "enableControllerInNamesrv is 'true': this name server is no controller"),
     ("serverWorkerThreads=many", "serverWorkerThreads is 'many': a whole number is expected")],
)  # fmt: skip
def test_an_invalid_namesrv_conf_is_refused(tmp_path: Path, line: str, words: str) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text(f"{line}\n")
    with Served("namesrv", "--port", 0, "-c", conf) as served:
        assert served.line == ""
        status, said = served.stop()
    assert status == 2
    assert words in said
