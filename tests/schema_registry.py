"""A schema registry in the test's process, with the part of Confluent's documented REST API that clients use."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class SchemaServer(ThreadingHTTPServer):
    """Ids count from 1; one schema has one id under all subjects. Subject ``closed-value`` takes no new schema."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.schemas: list[dict[str, str]] = []
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def register(self, subject: str, schema: dict[str, str]) -> int:
        with self.lock:
            if schema not in self.schemas:
                self.schemas.append(schema)
            schema_id = self.schemas.index(schema) + 1
            versions = self.subjects.setdefault(subject, [])
            if schema_id not in versions:
                versions.append(schema_id)
            return schema_id


class Handler(BaseHTTPRequestHandler):
    server: SchemaServer

    def do_GET(self) -> None:
        self.server.requests.append(f"GET {self.path.partition('?')[0]}")
        words = self.path.partition("?")[0].strip("/").split("/")
        if words[:2] == ["schemas", "ids"] and 0 < int(words[2]) <= len(self.server.schemas):
            self._answer(200, self.server.schemas[int(words[2]) - 1])
        else:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def do_POST(self) -> None:
        self.server.requests.append(f"POST {self.path.partition('?')[0]}")
        words = self.path.partition("?")[0].strip("/").split("/")
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        schema = {"schema": given["schema"], "schemaType": given.get("schemaType", "AVRO")}
        if unquote(words[1]) == "closed-value":
            self._answer(409, {"error_code": 409, "message": "Schema being registered is incompatible"})
        else:
            subject = unquote(words[1])
            schema_id = self.server.register(subject, schema)
            version = self.server.subjects[subject].index(schema_id) + 1
            self._answer(200, {"id": schema_id, "subject": subject, "version": version, **schema})

    def _answer(self, status: int, document: dict[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def schema_server() -> Iterator[SchemaServer]:
    """A running registry."""
    with SchemaServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
