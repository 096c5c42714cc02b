"""``rocketmq consume``: a listener in one or several processes."""

import os
import signal
import sys

import pytest
from click.testing import CliRunner

from rocketmq_py import Message, Producer
from rocketmq_py.cli import main
from rocketmq_py.testing import Cluster
from tests.server.test_serve import Served
from tests.server.test_serve_brokers import children_of, until

LISTENER = """
import os
from pathlib import Path

def write(message):
    with (Path("got") / str(os.getpid())).open("a") as file:
        file.write(message.body.decode() + "\\n")

def count(messages, context):
    with (Path("got") / "batches").open("a") as file:
        file.write(f"{len(messages)}\\n")
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "listeners_of_test.py").write_text(LISTENER)
    (tmp_path / "got").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "got"


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as running:
        yield running


def consume(cluster, listener, group, *args):
    return Served(
        "consume", f"listeners_of_test:{listener}", "--group", group, "--topic", group, "--from", "earliest",
        "--namesrv", cluster.namesrv, *args,
    )  # fmt: skip


def lines(directory):
    return {path.name: path.read_text().split() for path in directory.iterdir()}


def send(cluster, topic, first, end):
    with Producer("p", cluster.namesrv) as producer:
        for number in range(first, end):
            producer.send(Message(topic, b"%d" % number))


@pytest.mark.skipif(sys.platform == "win32", reason="it looks at processes with ps")
def test_processes_share_the_queues_and_one_that_is_killed_comes_back(here, cluster):
    cluster.create_topic("shared", 4)
    with consume(cluster, "write", "shared", "--processes", 2) as served:
        assert served.line == "READY group=shared processes=2\n"
        send(cluster, "shared", 0, 40)
        until(lambda: sum(map(len, lines(here).values())) >= 40)
        pids = set(children_of(served.pid))
        assert len(pids) == 2
        os.kill(min(pids), signal.SIGKILL)
        until(lambda: len(set(children_of(served.pid)) - pids) == 1)
        send(cluster, "shared", 40, 80)
        until(lambda: {int(word) for words in lines(here).values() for word in words} == set(range(80)))
        status, said = served.stop()
    assert status == 0
    assert "ended with status -9 and is started again" in said


def test_one_process_passes_batches(here, cluster):
    cluster.create_topic("batches", 1)
    send(cluster, "batches", 0, 10)
    with consume(cluster, "count", "batches", "--batch", 5) as served:
        assert served.line == "READY group=batches processes=1\n"
        until(lambda: sum(map(int, lines(here).get("batches", []))) == 10)
        assert served.stop() == (0, "")
    assert max(map(int, lines(here)["batches"])) <= 5


@pytest.mark.parametrize(
    ("listener", "fault"),
    [
        ("nowhere:write", "there is no module 'nowhere'"),
        ("listeners_of_test:absent", "listeners_of_test has no function 'absent'"),
        ("listeners_of_test", "module:function is expected"),
        ("listeners_of_test:LISTENER", "has no function"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_listener_that_is_not_there_is_refused_by_name(listener, fault):
    result = CliRunner().invoke(main, ["consume", listener, "--group", "g", "--topic", "t"])
    assert result.exit_code == 2
    assert fault in result.output


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("number", ["0", "257", "many"])
def test_an_impossible_number_of_processes_is_refused(number):
    words = ["consume", "listeners_of_test:write", "--group", "g", "--topic", "t", "--processes", number]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "is neither a number from 1 to 256 nor auto" in result.output
