"""Takes the golden bytes anew from the running Java peer: ``python -m tests.golden.capture`` from the project root.

Java clients talk to a Java broker through a recording proxy; every named exchange becomes ``frames/NAME.request.bin``
and ``frames/NAME.response.bin``. The broker's store directory (tiny files, cleanly closed) becomes ``store/``, what the
Java consumer saw ``deliveries.jsonl``, what the Java libraries compute on their own ``facts.jsonl``.

Splits frames by itself and imports nothing of the package under test. Ids, times and ports differ on every run, so
tests read expectations from the files beside the bytes, never from constants.
"""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import socketserver
import struct
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop.javapeer import JavaPeer, JavaServer, Row, free_port_block

HERE = Path(__file__).parent
TOPIC = "golden"
TINY_STORE = {
    "timerWheelEnable": "false",
    "mappedFileSizeCommitLog": 4096,
    "mappedFileSizeConsumeQueue": 400,
    "maxHashSlotNum": 16,
    "maxIndexNum": 64,
}
"""File sizes that make a whole store fit into a repository and force the commit log to roll."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One frame as it passed the proxy: which connection, from which side, and the few header fields needed here."""

    connection: int
    from_client: bool
    code: int
    opaque: int
    is_response: bool
    data: bytes


def parse(connection: int, from_client: bool, data: bytes) -> Recorded:
    (marked,) = struct.unpack_from(">I", data, 4)
    header = data[8 : 8 + (marked & 0xFFFFFF)]
    if marked >> 24:
        code, _, _, opaque, flag = struct.unpack_from(">hbhii", header)
    else:
        fields = json.loads(header)
        code, opaque, flag = fields["code"], fields["opaque"], fields["flag"]
    return Recorded(connection, from_client, code, opaque, bool(flag & 1), data)


def read_frame(source: socket.socket) -> bytes:
    """One whole frame with its length field; b"" at the end of the stream."""
    head = read_exactly(source, 4)
    return head and head + read_exactly(source, struct.unpack(">I", head)[0])


def read_exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        try:
            part = source.recv(size - len(data))
        except OSError:
            return b""
        if not part:
            return b""
        data += part
    return data


@dataclass
class Proxy:
    """Forwards frames to ``target`` and records them; ``rewrite`` redirects an address in answers to another proxy."""

    target: str
    rewrite: tuple[bytes, bytes] = (b"", b"")
    frames: list[Recorded] = field(default_factory=list)
    port: int = field(default_factory=free_port_block)

    def __post_init__(self) -> None:
        self._passed = threading.Event()
        proxy, connections = self, itertools.count()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                host, port = proxy.target.split(":")
                with socket.create_connection((host, int(port))) as server:
                    number = next(connections)
                    back = threading.Thread(target=proxy.pump, args=(server, self.request, number, False), daemon=True)
                    back.start()
                    proxy.pump(self.request, server, number, True)
                    back.join()

        socketserver.ThreadingTCPServer.daemon_threads = True
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def pump(self, source: socket.socket, sink: socket.socket, connection: int, from_client: bool) -> None:
        while data := read_frame(source):
            self.frames.append(parse(connection, from_client, data))
            self._passed.set()
            sink.sendall(data if from_client else data.replace(*self.rewrite))
        try:
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other direction was faster

    def exchanges(self, code: int) -> list[tuple[bytes, bytes]]:
        """Every request of ``code`` from the client with its answer (b"" for a one-way request), in order."""
        answers = {(f.connection, f.opaque): f.data for f in self.frames if not f.from_client and f.is_response}
        asked = [f for f in self.frames if f.from_client and not f.is_response and f.code == code]
        return [(f.data, answers.get((f.connection, f.opaque), b"")) for f in asked]

    def awaited(self, code: int, timeout: float = 30.0) -> list[tuple[bytes, bytes]]:
        """The same, once there is an answered one; a server says READY before its first exchange with another."""
        deadline = time.monotonic() + timeout
        while not any(answer for _, answer in self.exchanges(code)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answered request {code} passed within {timeout:.0f} s")
            self._passed.wait(0.5)
            self._passed.clear()
        return self.exchanges(code)

    def pushed(self, code: int) -> list[bytes]:
        return [f.data for f in self.frames if not f.from_client and not f.is_response and f.code == code]


def ask(address: str, code: int, version: int = 479, **ext: str) -> tuple[bytes, bytes]:
    """A request written by hand, for the codes no client sends by itself, and its answer."""
    header = {"code": code, "extFields": ext, "flag": 0, "language": "JAVA", "opaque": 1,
              "serializeTypeCurrentRPC": "JSON", "version": version}  # fmt: skip
    text, body = json.dumps(header).encode(), b"body" if code == 310 else b""
    request = struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as server:
        server.sendall(request)
        return request, read_frame(server)


def save(name: str, request: bytes, response: bytes = b"") -> None:
    folder = HERE / "frames"
    folder.mkdir(exist_ok=True)
    for side, data in (("request", request), ("response", response)):
        if data:
            (folder / f"{name}.{side}.bin").write_bytes(data)


def produce_all(java: JavaPeer, namesrv: str, broker: Proxy) -> None:
    """Every way a Java producer sends, all to queue 0 so that one pull returns them all."""
    small_body = {"size": 300, "compress_over": 100}
    ways: list[tuple[str, int, dict[str, Any]]] = [
        ("send_v2", 310, {"n": 2, "tags": "A,B", "keys": "k-{i} all", "prop": "city=Zürich", "flag": 7}),
        ("send_v1", 10, {"n": 1, "java_options": "-Dorg.apache.rocketmq.client.sendSmartMsg=false"}),
        ("send_oneway", 310, {"n": 1, "mode": "oneway"}),
        ("send_batch", 320, {"n": 3, "mode": "batch", "tags": "A", "keys": "b-{i}"}),
        ("send_zlib", 310, {"n": 1, "compress_type": "ZLIB", **small_body}),
        ("send_lz4", 310, {"n": 1, "compress_type": "LZ4", **small_body}),
        ("send_zstd", 310, {"n": 1, "compress_type": "ZSTD", **small_body}),
        ("send_rocketmq", 310, {"n": 1, "java_options": "-Drocketmq.serialize.type=ROCKETMQ"}),
    ]
    for name, code, how in ways:
        before = len(broker.exchanges(code))
        java.produce(namesrv, TOPIC, queue=0, **how)
        save(name, *broker.exchanges(code)[before])


def consume_all(java: JavaPeer, namesrv: str, broker: Proxy, messages: int) -> list[Row]:
    """One group reads everything; another fails the one message tagged B once, so that a retry is stored."""
    rows = java.consume(namesrv, TOPIC, "golden-group", messages)
    full = max((pair for pair in broker.exchanges(11)), key=lambda pair: len(pair[1]))
    save("pull_found", *full)
    java.consume(namesrv, TOPIC, "golden-retry", 2, sub="B", fail_times=1, retry_level=1)
    for name, code in {
        "heartbeat": 34, "unregister": 35, "consumer_list": 38, "query_offset": 14, "update_offset": 15,
        "send_back": 36,
    }.items():  # fmt: skip
        save(name, *broker.exchanges(code)[-1])
    filtered = [pair for pair in broker.exchanges(11) if pair[1] and parse(0, False, pair[1]).code == 20]
    save("pull_retry_immediately", *filtered[0])
    save("notify_consumer_ids_changed", broker.pushed(40)[0])
    return rows


def ask_all(namesrv: str, broker: str) -> None:
    """Answers of the two servers to requests written by hand."""
    queue_of = {"topic": TOPIC, "queueId": "0"}
    pull = {**queue_of, "consumerGroup": "golden-group", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
            "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "1"}  # fmt: skip
    send = {
        "a": "p",
        "c": "TBW102",
        "d": "4",
        "f": "0",
        "g": "1",
        "h": "0",
        "i": "",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    for name, address, code, ext in [
        ("route_strict", namesrv, 105, {"topic": TOPIC}),
        ("route_unknown", namesrv, 105, {"topic": "no-such-topic"}),
        ("cluster_info", namesrv, 106, {}),
        ("namesrv_topic_list", namesrv, 206, {}),
        ("topic_config_all", broker, 21, {}),
        ("topic_config", broker, 351, {"topic": TOPIC}),
        ("max_offset", broker, 30, queue_of),
        ("min_offset", broker, 31, queue_of),
        ("search_offset", broker, 29, {**queue_of, "timestamp": "0", "boundaryType": "LOWER"}),
        ("consumer_offset_all", broker, 43, {}),
        ("delay_offset_all", broker, 45, {}),
        ("group_config_all", broker, 201, {}),
        ("topic_stats", broker, 202, {"topic": TOPIC}),
        ("consume_stats", broker, 208, {"consumerGroup": "golden-group", "topic": TOPIC}),
        (
            "query_offset_missing",
            broker,
            14,
            {"consumerGroup": "no-such-group", **queue_of, "setZeroIfNotFound": "false"},
        ),
        ("pull_not_found", broker, 11, {**pull, "queueOffset": "10"}),
        ("pull_offset_moved", broker, 11, {**pull, "queueOffset": "99"}),
        ("pull_unknown_topic", broker, 11, {**pull, "topic": "no-such-topic", "queueOffset": "0"}),
        ("pull_wrong_queue", broker, 11, {**pull, "queueId": "77", "queueOffset": "0"}),
        ("send_illegal_topic", broker, 310, {**send, "b": "no topic!", "e": "0"}),
        ("send_wrong_queue", broker, 310, {**send, "b": TOPIC, "e": "77"}),
        ("send_missing_field", broker, 310, {**send, "b": TOPIC}),
        ("unknown_code", broker, 29999, {}),
    ]:
        save(name, *ask(address, code, **ext))
    save("route_old_client", *ask(namesrv, 105, version=317, topic=TOPIC))


def keep_store(broker: JavaServer) -> None:
    """Copies what a cleanly stopped broker leaves, without the files of services we do not have and without backups."""
    wanted = ("commitlog", "consumequeue", "index", "checkpoint", "config")
    names = ("topics.json", "consumerOffset.json", "subscriptionGroup.json", "delayOffset.json")
    for source in sorted(broker.store.rglob("*")):
        path = source.relative_to(broker.store)
        if source.is_dir() or path.parts[0] not in wanted or (path.parts[0] == "config" and path.name not in names):
            continue
        target = HERE / "store" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def write_lines(name: str, rows: list[Row]) -> None:
    (HERE / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def main() -> None:
    for folder in ("frames", "store"):
        shutil.rmtree(HERE / folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as work:
        java = JavaPeer(Path(work))
        try:
            run(java)
        finally:
            java.close()


def run(java: JavaPeer) -> None:
    namesrv = java.namesrv()
    for_broker = Proxy(namesrv.address)
    broker = java.broker(for_broker.address, conf=TINY_STORE)
    proxy = Proxy(broker.address)
    for_clients = Proxy(namesrv.address, rewrite=(broker.address.encode(), proxy.address.encode()))
    register = for_broker.awaited(103)
    save("register_broker", *max(register, key=lambda pair: len(pair[0])))
    java.admin("updateTopic", "-n", namesrv.address, "-b", broker.address, "-t", TOPIC, "-r", "2", "-w", "2")
    produce_all(java, for_clients.address, proxy)
    write_lines("deliveries.jsonl", consume_all(java, for_clients.address, proxy, messages=11))
    save("route", *for_clients.exchanges(105)[0])
    ask_all(namesrv.address, broker.address)
    write_lines("facts.jsonl", java.facts("table"))
    broker.process.stop()
    keep_store(broker)


if __name__ == "__main__":
    main()
