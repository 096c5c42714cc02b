"""A broker.conf as it circulates starts a broker, and names of hosts work where addresses do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from tests.server.rawpeer import RawPeer
from tests.server.test_serve import send, serve
from tests.server.test_serve_settings import told

OLD_CONF = """
brokerClusterName=rocketmq-cluster
brokerName=broker-a
brokerId=0
defaultTopicQueueNums=4
autoCreateTopicEnable=true
deleteWhen=04
fileReservedTime=120
mapedFileSizeCommitLog=1073741824
mapedFileSizeConsumeQueue=300000
diskMaxUsedSpaceRatio=88
storePathRootDir={root}
storePathCommitLog={root}/commitlog
storePathConsumeQueue={root}/consumequeue
storePathIndex={root}/index
storeCheckpoint={root}/checkpoint
abortFile={root}/abort
maxMessageSize=65536
flushCommitLogLeastPages=4
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
checkTransactionMessageEnable=false
sendMessageThreadPoolNums=128
tls.unheardOf=1
objectStoreSecretKey=confidential
"""
UNKNOWN = (
    "abortFile, checkTransactionMessageEnable, mapedFileSizeCommitLog, mapedFileSizeConsumeQueue, storeCheckpoint, "
    "storePathConsumeQueue, storePathIndex, tls.unheardOf"
)


def test_a_common_broker_conf_starts_with_warnings(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(OLD_CONF.format(root=tmp_path / "store"))
    with serve(tmp_path / "store", "-c", conf) as served:
        send(served.addresses["broker"])
        shown = told(served.addresses["broker"])
        assert shown["storePathCommitLog"] == str(tmp_path / "store" / "commitlog")
        assert shown["fileReservedTime"] == "120"
        _, said = served.stop()
    warned = [line for line in said.splitlines() if "settings that no RocketMQ server has" in line]
    assert len(warned) == 1
    assert warned[0].replace("'", "").endswith(UNKNOWN)
    assert "confidential" not in said


def test_a_separate_commit_log_directory_is_used_after_a_restart(tmp_path: Path) -> None:
    store, elsewhere = tmp_path / "store", tmp_path / "disk2" / "log"
    for expected in range(2):
        with serve(store, "--set", f"storePathCommitLog={elsewhere}") as served:
            assert send(served.addresses["broker"]) == expected
            assert told(served.addresses["broker"])["storePathCommitLog"] == str(elsewhere)
            assert served.stop()[0] == 0
    assert list(elsewhere.iterdir())
    assert not (store / "commitlog").exists()


def test_an_empty_log_directory_for_an_existing_store_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with serve(store) as served:
        send(served.addresses["broker"])
        served.stop()
    with serve(store, "--set", f"storePathCommitLog={tmp_path / 'empty'}") as served:
        assert served.line == ""
        status, said = served.stop()
    assert status == 2
    assert f"storePathCommitLog names {tmp_path / 'empty'}, which is empty" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "arguments",
    [("--host", "localhost"), ("--set", "brokerIP1=localhost"), ("--advertise", "localhost")],
)
def test_host_names_are_accepted_and_advertised(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with serve(tmp_path, *arguments) as served:
        assert served.addresses["broker"].startswith("localhost:")
        with RawPeer(served.addresses["namesrv"].replace("0.0.0.0", "127.0.0.1")) as peer:
            assert f'"{served.addresses["broker"]}"'.encode() in peer.ask(Code.GET_BROKER_CLUSTER_INFO).body
        assert send(served.addresses["broker"].replace("localhost", "127.0.0.1")) == 0


@pytest.mark.parametrize("option", ["--host", "--advertise"])
def test_an_unresolvable_host_name_is_named(tmp_path: Path, option: str) -> None:
    with serve(tmp_path, option, "no-such-host.invalid") as served:
        assert served.line == ""
        status, said = served.stop()
    assert status == 2
    errors = [line for line in said.splitlines() if " WARNING " not in line]
    assert len(errors) == 1
    assert errors[0].startswith("Error: ")
    assert "no-such-host.invalid" in errors[0]
    assert "[Errno" not in errors[0]
