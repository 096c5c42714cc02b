"""Reads the golden files beside it."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STORE = HERE / "store"
"""The store directory of a Java broker that was closed in good order; commit log files of 4096 bytes."""

REQUESTS = sorted(path.name.removesuffix(".request.bin") for path in (HERE / "frames").glob("*.request.bin"))
RESPONSES = sorted(path.name.removesuffix(".response.bin") for path in (HERE / "frames").glob("*.response.bin"))


def request(name: str) -> bytes:
    return (HERE / "frames" / f"{name}.request.bin").read_bytes()


def response(name: str) -> bytes:
    return (HERE / "frames" / f"{name}.response.bin").read_bytes()


def header_and_body(frame: bytes) -> tuple[bytes, bytes]:
    """Cut by hand, so that tests of the frame codec have something to be held against."""
    (packed,) = struct.unpack_from(">I", frame, 4)
    end = 8 + (packed & 0xFFFFFF)
    return frame[8:end], frame[end:]


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


def facts(kind: str) -> list[dict[str, Any]]:
    """What the Java libraries computed, of one kind (``hash``, ``allocation``, ``record`` ...)."""
    return [row for row in lines("facts.jsonl") if row["type"] == kind]


def fact(kind: str, **wanted: Any) -> dict[str, Any]:
    """The one fact of a kind with these members."""
    [row] = [row for row in facts(kind) if all(row[name] == value for name, value in wanted.items())]
    return row


def deliveries() -> list[dict[str, Any]]:
    """What a Java consumer received of the messages in ``pull_found`` and of one more in queue 1."""
    return lines("deliveries.jsonl")


def unbase64(text: str) -> bytes:
    return base64.b64decode(text)
