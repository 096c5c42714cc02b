"""Records in an object store over HTTP: conditional writes, and failures that are not mistaken for emptiness."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest

from rocketmq_py.spark.decision_store.decisions import Decision, DecisionError, Decisions


class Store(ThreadingHTTPServer):
    """As much of S3 as is asked of it; signatures are not looked at."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.objects: dict[str, bytes] = {}
        self.fails = False
        self.loses_an_answer = False
        self.keeps_all = False


class Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer leaves in one packet: the body of two would wait for an acknowledgement, 40 ms
    server: Store

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(403 if self.server.fails else status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 02 Mar 2026 12:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["If-None-Match"] == "*" and self.path in self.server.objects:
            self.answer(412)
            return
        self.server.objects[self.path] = content
        if self.server.loses_an_answer:
            self.server.loses_an_answer = False
            self.close_connection = True
            return
        self.answer(200)

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if "list-type=2" not in asked.query:
            found = self.server.objects.get(self.path)
            self.answer(404 if found is None else 200, found or b"")
            return
        start = f"{asked.path}/{parse_qs(asked.query)['prefix'][0]}"
        keys = [path.removeprefix(f"{asked.path}/") for path in self.server.objects if path.startswith(start)]
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>1</Size><ETag>1</ETag>"
            "<LastModified>2026-03-02T12:00:00.000Z</LastModified></Contents>"
            for key in keys
        )
        self.answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode())

    def do_POST(self) -> None:
        """Delete what a list names."""
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.server.keeps_all:
            self.answer(403)
            return
        names = re.findall("<Key>(.*?)</Key>", asked)
        for name in names:
            self.server.objects.pop(f"/bucket/{name}", None)
        self.answer(200, b"<DeleteResult></DeleteResult>")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with Store() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        settings = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-central-1",
        }  # fmt: skip
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        yield server
        server.shutdown()
        thread.join()


def decision(number: int, attempt: str = "a") -> Decision:
    return Decision("q", number, frozenset({attempt}))


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_decisions_are_stored_below_the_prefix_of_the_checkpoint(store: Store, scheme: str) -> None:
    decisions = Decisions.at(f"{scheme}://bucket/checkpoints/one/rocketmq")
    assert decisions.latest() is None
    for number in range(4):
        decisions.make(decision(number))
    assert decisions.latest() == decision(3)
    assert sorted(store.objects) == [f"/bucket/checkpoints/one/rocketmq/{number:020d}.json" for number in (2, 3)]


def test_an_existing_object_is_not_replaced(store: Store) -> None:
    where = Decisions.at("s3a://bucket/c/rocketmq")._store
    where.create("a", b"1")
    with pytest.raises(FileExistsError):
        where.create("a", b"2")
    assert list(store.objects.values()) == [b"1"]


def test_a_write_with_a_lost_answer_succeeds(store: Store) -> None:
    store.loses_an_answer = True
    decisions = Decisions.at("s3a://bucket/c/rocketmq")
    decisions.make(decision(0))
    assert decisions.latest() == decision(0)


def test_a_refusing_store_is_an_error(store: Store) -> None:
    decisions = Decisions.at("s3a://bucket/c/rocketmq")
    store.fails = True
    with pytest.raises(DecisionError, match="cannot be read"):
        decisions.latest()
    with pytest.raises(DecisionError, match="cannot be written"):
        decisions.make(decision(0))


def test_a_decision_does_not_fail_because_old_ones_cannot_be_removed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.keeps_all = True
    decisions = Decisions.at("s3a://bucket/c/rocketmq")
    for number in range(4):
        decisions.make(decision(number))
    assert decisions.latest() == decision(3)
    assert "cannot be removed" in caplog.text
