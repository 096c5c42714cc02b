"""``rocketmq serve`` and ``rocketmq namesrv`` as processes: READY lines, signals, restarts, refusals."""

import json
import signal
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.server.runner import speedups
from tests.interop.javapeer import free_port_block
from tests.server.rawpeer import RawPeer

SECONDS = 240.0
"""Longer than anything here takes, also on a busy machine; only a test that fails waits for it."""


class Served:
    """A running ``rocketmq`` process: its addresses by name, from its READY line."""

    def __init__(self, *args):
        command = [sys.executable, "-m", "rocketmq_py.cli", *map(str, args)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.line = self._process.stdout.readline()
        self.pid = self._process.pid

    @property
    def addresses(self):
        word, *pairs = self.line.split()
        assert word == "READY"
        return dict(pair.split("=", 1) for pair in pairs)

    def stop(self, number=signal.SIGTERM):
        """Exit status and standard error without the warnings of long turns, which a busy machine decides."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        _, said = self._process.communicate(timeout=SECONDS)
        lines = said.splitlines(keepends=True)
        return self._process.returncode, "".join(line for line in lines if " WARNING server.slow_turns: " not in line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def serve(store, *args):
    return Served("serve", "--store", store, "--port", 0, "--namesrv-port", 0, *args)


def send(address, body=b"hello"):
    header = SendMessageV2(
        producer_group="g", topic="T", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
        born_timestamp=0, flag=0, properties="",
    )  # fmt: skip
    with RawPeer(address) as peer:
        answer = peer.ask(Code.SEND_MESSAGE_V2, header.to_ext(), body)
    assert answer.code == 0, answer.remark
    return int(answer.ext["queueOffset"])


def test_the_first_log_line_names_event_loop_and_accelerator(tmp_path):
    with serve(tmp_path, "--log-level", "info") as served:
        _, said = served.stop()
    assert said.partition("\n")[0].endswith(f" cli.server.serve: {speedups()}")


def test_the_ready_line_lists_server_addresses(tmp_path):
    with serve(tmp_path) as served:
        assert list(served.addresses) == ["namesrv", "broker"]
        with RawPeer(served.addresses["namesrv"]) as peer:
            body = peer.ask(Code.GET_BROKER_CLUSTER_INFO).body
        assert f'{{0:"{served.addresses["broker"]}"}}'.encode() in body
        assert send(served.addresses["broker"]) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_without_losses(tmp_path, number):
    for expected in range(2):
        with serve(tmp_path) as served, RawPeer(served.addresses["broker"]) as idle:
            idle.ask(Code.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": "0"})
            assert send(served.addresses["broker"]) == expected
            assert served.stop(number) == (0, "")
        assert not (tmp_path / "abort").exists()


def test_a_killed_broker_loses_no_confirmed_message(tmp_path):
    for expected in range(2):
        with serve(tmp_path) as served:
            assert send(served.addresses["broker"]) == expected


def test_the_fast_port_is_served(tmp_path):
    port = free_port_block()
    with serve(tmp_path, "--port", port) as served:
        assert served.addresses["broker"] == f"127.0.0.1:{port}"
        assert send(f"127.0.0.1:{port - 2}") == 0


def test_a_store_in_use_is_refused(tmp_path):
    with serve(tmp_path) as first, serve(tmp_path) as second:
        assert second.line == ""
        status, said = second.stop()
        assert status == 2
        assert said == f"Error: {tmp_path} is in use by another broker: stop it or choose another store\n"
        assert send(first.addresses["broker"]) == 0


@pytest.mark.parametrize("option", ["--port", "--namesrv-port"])
def test_a_port_in_use_is_refused(tmp_path, option):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with serve(tmp_path, option, port) as served:
            assert served.line == ""
            status, said = served.stop()
    assert status == 2
    assert said.startswith(f"Error: cannot listen on 127.0.0.1:{port}: another process listens there")
    assert said.count("\n") == 1
    with serve(tmp_path) as served:
        assert send(served.addresses["broker"]) == 0


def test_an_unreachable_name_server_is_named_and_the_broker_serves(tmp_path):
    nowhere = f"127.0.0.1:{free_port_block()}"
    with serve(tmp_path, "--namesrv", nowhere) as served:
        assert served.addresses["namesrv"] == nowhere
        assert send(served.addresses["broker"]) == 0
        status, said = served.stop()
    assert status == 0
    assert f"cannot register at name server {nowhere}" in said


def test_brokers_can_join_a_separate_name_server(tmp_path):
    settings = ("--set", f"kvConfigPath={tmp_path / 'kv.json'}")
    with Served("namesrv", "--port", 0, *settings) as namesrv:
        address = namesrv.addresses["namesrv"]
        with (
            serve(tmp_path / "a", "--namesrv", address) as a,
            serve(tmp_path / "b", "--namesrv", address, "--name", "b") as b,
        ):
            with RawPeer(address) as peer:
                body = peer.ask(Code.GET_BROKER_CLUSTER_INFO).body.decode()
            for served in (a, b):
                assert served.addresses["namesrv"] == address
                assert served.addresses["broker"] in body
        status, said = namesrv.stop()
        assert status == 0
        assert all("is lost: its connection was lost" in line for line in said.splitlines())


def test_a_broker_conf_works_unchanged(tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "brokerClusterName = C\nbrokerName = conf\nbrokerId = 0\nbrokerRole = ASYNC_MASTER\nfileReservedTime = 48\n"
    )
    with serve(tmp_path / "store", "-c", conf) as served, RawPeer(served.addresses["namesrv"]) as peer:
        assert b'"clusterAddrTable":{"C":["conf"]}' in peer.ask(Code.GET_BROKER_CLUSTER_INFO).body


def test_the_log_can_be_json(tmp_path):
    options = "--log-level", "info", "--log-format", "json"
    with serve(tmp_path, *options) as served:
        address = served.addresses["broker"]
        status, said = served.stop()
    lines = [json.loads(line) for line in said.splitlines()]
    assert status == 0
    slow_turns = [line for line in lines if line["event"].startswith("a turn of the event loop took")]
    assert {line["level"] for line in lines if line not in slow_turns} == {"info"}, lines
    assert [line["values"] for line in lines if line["event"] == "broker %s (%s) serves at %s"] == [
        ["broker-a", "DefaultCluster", address]
    ]
    with Served("namesrv", "--port", 0, "--log-level", "debug") as namesrv:
        assert namesrv.stop()[0] == 0
