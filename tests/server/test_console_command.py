"""``rocketmq console`` and ``serve --console`` as processes: READY lines, pages over HTTP, signals, refusals."""

import os
import signal
import socket
import sys

import httpx
import pytest

from rocketmq_py import Message, Producer
from rocketmq_py.testing import Cluster
from tests.server.test_serve import Served
from tests.server.test_serve_brokers import children_of, is_running, until

JSON = {"accept": "application/json"}


def console(namesrv, *words):
    return Served("console", "--port", 0, "--namesrv", namesrv, *words)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.skipif(sys.platform == "win32", reason="signals end a process there")
def test_pages_are_served_until_a_signal(cluster: Cluster, topic, number):
    with console(cluster.namesrv) as served, httpx.Client(base_url=served.addresses["console"]) as browser:
        assert browser.get("/").status_code == 200
        assert topic in browser.get("/topics").text
        assert browser.get("/static/console.css").headers["content-type"].startswith("text/css")
        assert "server" not in browser.get("/audit").headers
        assert served.stop(number) == (0, ""), "with a connection that is kept"


def test_an_address_that_others_reach_is_refused_and_can_be_insisted_on(cluster: Cluster):
    with console(cluster.namesrv, "--host", "0.0.0.0") as served:
        assert served.line == ""
        status, said = served.stop()
    assert (status, said.startswith("Error: --host 0.0.0.0 can be reached from other machines")) == (2, True)
    with console(cluster.namesrv, "--host", "0.0.0.0", "--insecure", "--allowed-host", "inside") as served:
        port = served.addresses["console"].rpartition(":")[2]
        for host, status in (("inside", 200), ("elsewhere", 421)):
            assert httpx.get(f"http://127.0.0.1:{port}/audit", headers={"host": host}).status_code == status


def test_without_a_name_server_pages_say_so_and_nothing_is_logged_with_a_traceback():
    away = f"127.0.0.1:{free_port()}"
    with console(away) as served:
        for path in ("/", "/topics", "/groups", "/search?q=x", "/topics/t", "/groups/g"):
            answer = httpx.get(served.addresses["console"] + path, headers=JSON, timeout=240)
            assert (answer.status_code, away in answer.json()["error"]) == (504, True), answer.text
        status, said = served.stop()
    assert status == 0
    assert "Traceback" not in said


def test_a_port_in_use_is_an_error_of_one_line(cluster: Cluster):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Served("console", "--port", port, "--namesrv", cluster.namesrv) as served:
            status, said = served.stop()
    assert (served.line, status) == ("", 2)
    assert said.startswith(f"Error: cannot listen on 127.0.0.1:{port}: ")
    assert said.count("\n") == 1


def test_bodies_are_masked(cluster: Cluster, topic):
    with Producer("p", namesrv=cluster.namesrv) as producer:
        producer.send(Message(topic, b'{"card": "4111111111111111", "name": "Ada"}'))
    with console(cluster.namesrv, "--mask", r"\d{13,19}", "--mask-path", "$.name") as served:
        found = httpx.get(f"{served.addresses['console']}/topics/{topic}/messages", headers=JSON).json()["messages"]
        assert [row["body"] for row in found] == ['{ "card": "***", "name": "***" }']
        assert served.stop()[0] == 0


# -- beside a broker


def serve(store, *words):
    return Served("serve", "--store", store, "--port", 0, "--namesrv-port", 0, "--console", 0, *words)


def console_of(served):
    """Process number of the console."""
    found = [pid for pid, words in children_of(served.pid).items() if " console --supervised " in words]
    return found[0] if found else None


def shows_brokers(served):
    try:
        return [row["broker"] for row in httpx.get(served.addresses["console"], headers=JSON).json()["brokers"]]
    except httpx.TransportError:
        return None


@pytest.mark.skipif(sys.platform == "win32", reason="it looks at processes with ps")
@pytest.mark.parametrize("brokers", [1, 2])
def test_a_console_beside_brokers_is_started_again_and_ends_with_them(tmp_path, brokers):
    with serve(tmp_path, "--brokers", brokers) as served:
        assert list(served.addresses) == ["namesrv", "broker", "console"]
        first = console_of(served)
        assert shows_brokers(served) == ["broker-a", "broker-b"][:brokers]
        os.kill(first, signal.SIGKILL)
        until(lambda: console_of(served) not in (None, first) and shows_brokers(served))
        second = console_of(served)
        status, said = served.stop()
    assert (status, is_running(second)) == (0, False)
    assert "console ended with status -9 and is started again" in said


def test_a_console_that_cannot_start_ends_the_broker_in_good_order(tmp_path):
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        serve(tmp_path, "--console", taken.getsockname()[1]) as served,
    ):
        status, said = served.stop()
    assert (served.line, status) == ("", 2)
    assert "cannot listen on" in said
    assert "console did not start (exit status 2)" in said
    assert not list(tmp_path.rglob("abort"))


def test_several_clusters_and_a_proxy_s_user(cluster: Cluster, topic):
    away = f"west=127.0.0.1:{free_port()}"
    words = ("--cluster", f"east={cluster.namesrv}", "--cluster", away, "--auth-header", "X-User")
    with Served("console", "--port", 0, *words, "--auth-from", "127.0.0.0/8") as served:
        address, ann = served.addresses["console"], {"x-user": "ann"}
        assert httpx.get(address, headers=ann).headers["location"] == "/clusters/east/"
        page = httpx.get(f"{address}/clusters/east/topics/{topic}", headers=ann, timeout=240).text
        assert (f"/clusters/east/topics/{topic}/send" in page, "ann" in page) == (True, True)
        assert httpx.get(f"{address}/clusters/west/topics", headers=ann | JSON, timeout=240).status_code == 504
        assert httpx.get(f"{address}/clusters/east/").status_code == 401
        assert served.stop()[0] == 0
