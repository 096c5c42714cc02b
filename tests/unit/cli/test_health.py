"""``rocketmq health``: the page it asks for, and its exit statuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rocketmq_py.cli import health


class Answering(HTTPServer):
    """Answers every request in the same way, and notes what was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.status, self.text = 200, b"[+] loop ok\nok\n"


class Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def answering() -> Iterator[Answering]:
    with Answering() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("words", "path"), [("", "/readyz"), ("ready", "/readyz"), ("live", "/livez"), ("started", "/startupz")]
)
def test_it_asks_for_the_page_and_shows_the_checks(run, answering, words, path) -> None:
    result = run(f"health {words} --port {answering.server_port}")
    assert (result.exit_code, result.output) == (0, "[+] loop ok\nok\n")
    assert answering.asked == [f"{path}?verbose"]


def test_a_failed_check_is_status_4(run, answering) -> None:
    answering.status, answering.text = 503, b"[-] registered failed: nowhere\nfailed\n"
    result = run(f"health --host localhost --port {answering.server_port}")
    assert (result.exit_code, result.output) == (4, "[-] registered failed: nowhere\nfailed\n")


def test_a_port_without_health_is_a_failure(run, answering) -> None:
    answering.status = 404
    result = run(f"health --port {answering.server_port}")
    assert (result.exit_code, "answers with status 404" in result.output) == (1, True)


def test_nobody_there_is_a_failure(run, monkeypatch) -> None:
    seen = []

    class Silent:
        def __init__(self, host: str, port: int, timeout: float) -> None:
            seen.append((host, port, timeout))

        def request(self, *_: object) -> None:
            raise TimeoutError

        def close(self) -> None:
            seen.append("closed")

    monkeypatch.setattr(health.http.client, "HTTPConnection", Silent)
    result = run("health --timeout 2.5")
    assert (result.exit_code, "no health at 127.0.0.1:5557: TimeoutError" in result.output) == (1, True)
    assert seen == [("127.0.0.1", 5557, 2.5), "closed"]
    assert run("health --timeout 0").exit_code == 2
    assert run("health dead").exit_code == 2
