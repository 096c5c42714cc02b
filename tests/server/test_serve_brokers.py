"""``rocketmq serve --brokers N``: several brokers of one cluster as processes."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from rocketmq_py import Admin, Credentials, Message, Producer, RocketMQError
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.server.rawpeer import RawPeer
from tests.server.test_serve import SECONDS, Served, send

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it looks at processes with ps")


def serve(store, *args):
    return Served("serve", "--store", store, "--port", 0, "--namesrv-port", 0, "--log-level", "warning", *args)


def brokers(served):
    return served.addresses["broker"].split(";")


def children_of(pid):
    """Command lines of the child processes of a process, by their numbers."""
    listed = subprocess.run(["ps", "-ewwo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    return {int(child): words for child, words in re.findall(rf"^\s*(\d+)\s+{pid}\s(.*)", listed, re.MULTILINE)}


def children(served):
    """Process numbers of the brokers, by name."""
    found = children_of(served.pid).items()
    return {match.group(1): pid for pid, words in found if (match := re.search(r" --name (\S+)", words))}


def until(condition):
    deadline = time.monotonic() + SECONDS
    while not (seen := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return seen


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def accepts(address):
    try:
        with RawPeer(address) as peer:
            return peer.ask(Code.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": "0"}).code == 0
    except OSError:
        return False


def test_all_brokers_serve_one_cluster_and_stop_in_good_order(tmp_path):
    with serve(tmp_path, "--brokers", 2) as served:
        first, second = brokers(served)
        with Admin(served.addresses["namesrv"]) as admin, Producer("p", served.addresses["namesrv"]) as producer:
            admin.create_topic("orders", 2)
            assert admin.route("orders").brokers == {"broker-a": {0: first}, "broker-b": {0: second}}
            used = {producer.send(Message("orders", b"x")).queue.broker_name for _ in range(8)}
        assert used == {"broker-a", "broker-b"}
        assert served.stop() == (0, "")
    assert not list(tmp_path.rglob("abort"))


def test_a_store_of_one_broker_gets_siblings_with_its_topics_and_cannot_lose_them(tmp_path):
    with serve(tmp_path) as served:
        with Admin(served.addresses["namesrv"]) as admin:
            admin.create_topic("orders", 3)
        assert send(brokers(served)[0]) == 0
        assert served.stop() == (0, "")
    with serve(tmp_path, "--brokers", 2) as served:
        with Admin(served.addresses["namesrv"]) as admin:
            assert sorted(admin.route("orders").brokers) == ["broker-a", "broker-b"]
        assert send(brokers(served)[0]) == 1
        assert send(brokers(served)[1]) == 0
        assert served.stop() == (0, "")
    with serve(tmp_path) as served:
        assert served.line == ""
        status, said = served.stop()
    assert status == 2
    assert said.startswith(f"Error: {tmp_path / 'broker-b'} has messages, and with --brokers 1 no broker would serve")


def test_a_broker_that_is_killed_is_started_again_with_its_store_and_port(tmp_path):
    with serve(tmp_path, "--brokers", 2) as served:
        address = brokers(served)[1]
        assert send(address) == 0
        killed = children(served)["broker-b"]
        os.kill(killed, signal.SIGKILL)
        until(lambda: children(served).get("broker-b", killed) != killed and accepts(address))
        assert send(address) == 1
        status, said = served.stop()
    assert status == 0
    assert "broker-b ended with status -9 and is started again" in said


def test_brokers_end_when_their_supervisor_is_killed(tmp_path):
    with serve(tmp_path, "--brokers", 2) as served:
        pids = children(served).values()
        assert len(pids) == 2
        os.kill(served.pid, signal.SIGKILL)
        until(lambda: not any(map(is_running, pids)))
    assert not list(tmp_path.rglob("abort"))


def test_a_broker_that_cannot_start_ends_all(tmp_path):
    with serve(tmp_path, "--brokers", 2, "--set", "messageDelayLevel=nonsense") as served:
        assert served.line == ""
        status, said = served.stop()
    assert status == 2
    assert "nonsense" in said


def test_users_made_at_the_brokers_are_known_to_the_name_server(tmp_path):
    settings = (
        "authenticationEnabled=true",
        'initAuthenticationUser={"username":"root","password":"secret"}',
        'innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"key"}',
    )
    access = [word for setting in settings for word in ("--set", setting)]
    with serve(tmp_path, "--brokers", 2, *access) as served:
        namesrv = served.addresses["namesrv"]
        with Admin(namesrv, credentials=Credentials("root", "secret")) as admin:
            admin.create_topic("orders", 1)
            admin.create_user("ann", "pass")
        with Producer("p", namesrv, credentials=Credentials("ann", "pass")) as producer:
            until(lambda: succeeds(producer))


def succeeds(producer):
    try:
        producer.send(Message("orders", b"x"), timeout=1)
    except RocketMQError:  # the name server sees a new user within a second
        return False
    return True
